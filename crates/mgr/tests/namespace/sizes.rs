//! Sizes while several clients write, append, cut, crash and report in any order.
//!
//! The iods are one number: the size of the one file. Whatever happens, a size that the manager calls
//! settled is that number (D6), and appends never meet (D5). What the file takes on disks is another number: it is that of
//! the size as long as nobody leaves holes, and after that a new one with every write.

use std::ops::Range;

use crate::random::seeds;
use crate::world::{World, nothing, root, user};
use pvfs_mgr::execute::Random;
use pvfs_wire::attr::{Attr, Placement, SizeState, Time};
use pvfs_wire::ops::*;
use pvfs_wire::{Errno, Handle};

/// One file and all who use it.
struct Play {
    w: World,
    random: Random,
    handle: Handle,
    /// By the iods.
    size: u64,
    /// By the iods, where the size does not tell it.
    disk_bytes: Option<u64>,
    placement: Placement,
    opens: Vec<Opening>,
    cuts: Vec<Cut>,
    /// What somebody learned from the iods and has not told the manager yet.
    answers: Vec<Settle>,
    /// Ranges given to appends since the last cut.
    reserved: Vec<Range<u64>>,
    next_open: u64,
}

struct Opening {
    client: u64,
    open: u64,
    flags: OpenFlags,
    wrote: Option<Wrote>,
    /// An append that asked the iods for the end and has not come back with it.
    asked: Option<u64>,
    /// Ranges reserved and not yet written.
    pending: Vec<Range<u64>>,
    /// The file had holes when it was opened, or was given some through this open.
    may_have_holes: bool,
    /// What the iods said of its disk, after which it is only closed.
    told: Option<u64>,
}

struct Cut {
    client: u64,
    ticket: u64,
    size: u64,
    open: Option<u64>,
    done: bool,
    /// What the iods said of the disk when they had cut.
    disk_bytes: Option<u64>,
}

const CREATE: OpenFlags = OpenFlags::WRITE.with(OpenFlags::CREATE);

impl Play {
    fn new(seed: u64) -> Self {
        let mut w = World::new(seed);
        let handle = w.file(&root(), "f", 0o666).unwrap().handle;
        let stat = Stat { target: Target::object(handle), follow: false, placement: true };
        let placement = w.run(&root(), stat).unwrap().placement.unwrap();
        Self {
            w,
            random: Random::new(seed),
            handle,
            size: 0,
            disk_bytes: None,
            placement,
            opens: Vec::new(),
            cuts: Vec::new(),
            answers: Vec::new(),
            reserved: Vec::new(),
            next_open: 0,
        }
    }

    fn below(&mut self, count: usize) -> usize {
        (self.random.number() >> 11) as usize % count
    }

    fn step(&mut self) {
        match self.below(24) {
            0..4 if self.opens.len() < 5 => self.open(),
            4..8 => self.write(),
            8..12 => self.append(),
            12..14 => self.close(),
            14 => self.begin_cut(),
            15 => self.cut(),
            16..18 => self.end_cut(),
            18 => self.ask(),
            19 => self.settle(),
            20 if self.below(4) == 0 => self.expire(),
            _ => {}
        }
        self.look();
    }

    /// The property.
    fn look(&mut self) {
        let attr = self.w.stat(&root(), "f").unwrap();
        if attr.size_state == SizeState::Settled {
            assert_eq!(attr.size, self.size, "settled at the wrong size");
            self.check_disk(&attr);
        }
        self.w.check();
    }

    fn check_disk(&self, attr: &Attr) {
        let expected = self.placement.disk_figure(self.size, self.asked_disk());
        assert_eq!(attr.disk_bytes, expected, "settled at the wrong figure");
    }

    /// What the iods say.
    fn asked_disk(&self) -> u64 {
        self.disk_bytes.unwrap_or(self.size)
    }

    /// The next thing to be said of a file with holes.
    fn change_disk(&mut self) {
        self.disk_bytes = Some(self.disk_bytes.unwrap_or(1 << 30) + 1);
    }

    fn open(&mut self) {
        let sorts = [
            OpenFlags::READ,
            OpenFlags::WRITE,
            OpenFlags::WRITE | OpenFlags::APPEND,
            OpenFlags::WRITE | OpenFlags::APPEND,
            OpenFlags::WRITE | OpenFlags::TRUNCATE,
            OpenFlags::WRITE | OpenFlags::APPEND | OpenFlags::TRUNCATE,
        ];
        let flags = sorts[self.below(sorts.len())];
        let client = self.below(3) as u64;
        self.next_open += 1;
        let open = self.next_open;
        let opened = match self.w.open_for(client, &root(), "f", flags, open) {
            Ok(opened) => opened,
            Err(errno) => {
                assert_eq!(errno, Errno::EAGAIN);
                assert_eq!(self.w.busy, Some(self.handle.object));
                return;
            }
        };
        match opened.truncation {
            Some(ticket) => {
                self.push(Cut {
                    client,
                    ticket,
                    size: 0,
                    open: Some(open),
                    done: false,
                    disk_bytes: None,
                });
            }
            None if flags.has(OpenFlags::TRUNCATE) => assert_eq!(self.size, 0),
            None => {}
        }
        let settled = opened.attr.size_state == SizeState::Settled;
        assert!(!settled || opened.truncation.is_some() || opened.attr.size == self.size);
        self.opens.push(Opening {
            client,
            open,
            flags,
            wrote: None,
            asked: None,
            pending: Vec::new(),
            may_have_holes: opened.attr.disk_bytes.is_some(),
            told: None,
        });
    }

    /// One of the opens that may write and has no truncation of its own to do first.
    fn writer(&mut self, flags: OpenFlags) -> Option<usize> {
        let ready = |opening: &Opening, cuts: &[Cut]| {
            opening.flags.has(flags)
                && opening.told.is_none()
                && !cuts.iter().any(|cut| cut.open == Some(opening.open))
        };
        let ready: Vec<usize> =
            (0..self.opens.len()).filter(|i| ready(&self.opens[*i], &self.cuts)).collect();
        if ready.is_empty() { None } else { Some(ready[self.below(ready.len())]) }
    }

    fn write(&mut self) {
        let Some(index) = self.writer(OpenFlags::WRITE) else { return };
        if self.opens[index].flags.has(OpenFlags::APPEND) {
            return;
        }
        let end = self.below(1000) as u64 + 1;
        let uncertain = self.below(20) == 0;
        if self.below(4) == 0 {
            self.change_disk();
            self.opens[index].may_have_holes = true;
        }
        self.note(index, end, uncertain);
    }

    /// A write is done; when uncertain, its client does not know how far it came.
    fn note(&mut self, index: usize, end: u64, uncertain: bool) {
        self.size = self.size.max(end);
        if self.disk_bytes.is_some() {
            self.change_disk();
        }
        let mtime = self.w.now;
        let wrote = &mut self.opens[index].wrote;
        let before = wrote.unwrap_or(Wrote { end: 0, mtime, uncertain: false, disk_bytes: None });
        let told = if uncertain { 0 } else { end };
        let uncertain = before.uncertain || uncertain;
        *wrote = Some(Wrote { end: before.end.max(told), mtime, uncertain, disk_bytes: None });
    }

    fn append(&mut self) {
        let Some(index) = self.writer(OpenFlags::WRITE | OpenFlags::APPEND) else { return };
        if self.below(2) == 0 && !self.opens[index].pending.is_empty() {
            let range = self.opens[index].pending.remove(0);
            self.note(index, range.end, false);
            return;
        }
        let (client, open, end) =
            (self.opens[index].client, self.opens[index].open, self.opens[index].asked.take());
        let bytes = self.below(20) as u64 + 1;
        let offset = self.w.run_for(client, &root(), Append { open, bytes, end }).unwrap().offset;
        let Some(offset) = offset else {
            assert_eq!(end, None, "with the end in hand there is always an offset");
            self.opens[index].asked = Some(self.size);
            return;
        };
        let range = offset..offset + bytes;
        if self.cuts.is_empty() {
            assert!(offset >= end.unwrap_or(self.size), "an append before the end of the file");
            let met = self.reserved.iter().any(|r| r.start < range.end && range.start < r.end);
            assert!(!met, "{range:?} meets one of {:?}", self.reserved);
        }
        self.reserved.push(range.clone());
        self.opens[index].pending.push(range);
    }

    fn close(&mut self) {
        if self.opens.is_empty() {
            return;
        }
        let index = self.below(self.opens.len());
        let told = self.asked_disk();
        let opening = &mut self.opens[index];
        if opening.may_have_holes && opening.told.is_none() {
            opening.told = Some(told);
            return;
        }
        let closing = self.opens.swap_remove(index);
        self.cuts.retain(|cut| cut.open != Some(closing.open) || cut.client != closing.client);
        let wrote = closing.wrote.map(|wrote| Wrote { disk_bytes: closing.told, ..wrote });
        // What it reserved and did not write may be given out again.
        self.reserved.retain(|range| !closing.pending.contains(range));
        let opens = vec![ClosedOpen { open: closing.open, wrote }];
        self.w.run_for(closing.client, &root(), Close { opens }).unwrap();
    }

    /// A truncation still under way was begun so long ago that its requests have died.
    fn push(&mut self, cut: Cut) {
        self.cuts.clear();
        self.cuts.push(cut);
    }

    fn begin_cut(&mut self) {
        let size = self.below(1000) as u64;
        let through = self.writer(OpenFlags::WRITE).filter(|_| self.random.number() & 1 == 0);
        let open = through.map(|index| self.opens[index].open);
        let client = through.map_or(3, |index| self.opens[index].client);
        let target = Target::object(self.handle);
        let truncate = Truncate { target, follow: false, size, open };
        match self.w.run_for(client, &root(), truncate) {
            Ok(begun) => {
                self.push(Cut {
                    client,
                    ticket: begun.ticket,
                    size,
                    open,
                    done: false,
                    disk_bytes: None,
                });
            }
            Err(errno) => {
                assert_eq!((errno, self.cuts.len()), (Errno::EAGAIN, 1));
                assert_eq!(self.w.busy, Some(self.handle.object));
            }
        }
    }

    fn cut(&mut self) {
        let Some(cut) = self.cuts.first_mut() else { return };
        cut.done = true;
        self.size = cut.size;
        let extends = cut.size % 2 == 1;
        self.disk_bytes = extends.then_some(self.disk_bytes.unwrap_or(1 << 30) + 1);
        cut.disk_bytes = Some(self.disk_bytes.unwrap_or(self.size));
        // Reservations from before may now be beyond the end; they prove nothing any more.
        self.reserved.clear();
        self.opens.iter_mut().for_each(|opening| opening.pending.clear());
        self.opens.iter_mut().for_each(|opening| opening.asked = None);
    }

    fn end_cut(&mut self) {
        let Some(cut) = self.cuts.pop() else { return };
        let size = cut.done.then_some(cut.size);
        let (handle, ticket) = (self.handle, cut.ticket);
        let ended = Truncated { handle, ticket, size, disk_bytes: cut.disk_bytes };
        let attr = self.w.run_for(cut.client, &root(), ended.clone()).unwrap().attr;
        assert!(attr.size_state != SizeState::Settled || attr.size == self.size);
        self.w.run_for(cut.client, &root(), ended).unwrap();
        self.reserved.clear();
        self.opens.iter_mut().for_each(|opening| opening.pending.clear());
    }

    fn ask(&mut self) {
        let (handle, size) = (self.handle, self.size);
        let change = self.w.stat(&root(), "f").unwrap().change;
        let disk_bytes = self.asked_disk();
        self.answers.push(Settle { handle, change, size, disk_bytes, mtime: self.w.now });
    }

    fn settle(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let index = self.below(self.answers.len());
        let settle = self.answers.swap_remove(index);
        self.w.run(&root(), settle).unwrap();
    }

    fn expire(&mut self) {
        let client = self.below(4) as u64;
        let gone = self.opens.extract_if(.., |opening| opening.client == client);
        let pending: Vec<_> = gone.flat_map(|opening| opening.pending).collect();
        self.reserved.retain(|range| !pending.contains(range));
        self.cuts.retain(|cut| cut.client != client);
        self.w.expire(client);
    }
}

#[test]
fn a_settled_size_is_the_size_whatever_came_before() {
    for seed in seeds(150) {
        println!("seed {seed}");
        let mut play = Play::new(seed);
        (0..300).for_each(|_| play.step());
    }
}

/// The file "f" of one writer at a time, as its attributes show it.
struct Sparse(World);

impl Sparse {
    fn new() -> Self {
        let mut w = World::new(1);
        w.file(&root(), "f", 0o666).unwrap();
        Self(w)
    }

    fn write(&mut self, open: u64, flags: OpenFlags, end: u64, disk_bytes: Option<u64>) {
        self.0.open(&root(), "f", flags, open).unwrap();
        self.close(open, end, disk_bytes);
    }

    fn close(&mut self, open: u64, end: u64, disk_bytes: Option<u64>) {
        let mtime = self.0.now;
        let wrote = Some(Wrote { end, mtime, uncertain: false, disk_bytes });
        self.0.run(&root(), Close { opens: vec![ClosedOpen { open, wrote }] }).unwrap();
    }

    fn truncate(&mut self, size: u64, disk_bytes: u64) {
        let target = self.0.at("f");
        let begin = Truncate { target, follow: true, size, open: None };
        let Truncating { attr, ticket, .. } = self.0.run(&root(), begin).unwrap();
        let (size, disk_bytes) = (Some(size), Some(disk_bytes));
        let ended = Truncated { handle: attr.handle, ticket, size, disk_bytes };
        self.0.run(&root(), ended).unwrap();
    }

    /// Size and figure, once they are known.
    fn told(&mut self) -> Option<(u64, Option<u64>)> {
        let attr = self.0.stat(&root(), "f").unwrap();
        (attr.size_state == SizeState::Settled).then_some((attr.size, attr.disk_bytes))
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn what_a_file_with_holes_takes_is_told_until_it_has_none() {
    let mut file = Sparse::new();
    file.write(1, OpenFlags::WRITE, MIB, None);
    assert_eq!(file.told(), Some((MIB, None)));
    file.write(2, OpenFlags::WRITE, 9 * MIB, Some(2 * MIB));
    assert_eq!(file.told(), Some((9 * MIB, Some(2 * MIB))));
    file.write(3, OpenFlags::WRITE, 0, None);
    assert_eq!(file.told(), Some((9 * MIB, Some(2 * MIB))), "who says nothing changes nothing");
    file.write(4, OpenFlags::WRITE, 8 * MIB, Some(9 * MIB + 4096));
    assert_eq!(file.told(), Some((9 * MIB, None)), "it is filled");
    file.truncate(20 * MIB, 9 * MIB);
    assert_eq!(file.told(), Some((20 * MIB, Some(9 * MIB))));
    file.truncate(MIB, MIB);
    assert_eq!(file.told(), Some((MIB, None)));
    file.write(5, OpenFlags::WRITE, 0, Some(8 * MIB));
    assert_eq!(file.told(), Some((MIB, Some(8 * MIB))), "set aside beyond the end");
    file.truncate(0, 0);
    assert_eq!(file.told(), Some((0, None)));
}

#[test]
fn what_one_of_several_writers_was_told_of_holes_settles_nothing() {
    let mut file = Sparse::new();
    file.0.open(&root(), "f", OpenFlags::WRITE, 1).unwrap();
    file.0.open(&root(), "f", OpenFlags::WRITE, 2).unwrap();
    file.close(1, MIB, None);
    file.close(2, 9 * MIB, Some(MIB));
    assert_eq!(file.told(), None);
    let mut file = Sparse::new();
    file.0.open(&root(), "f", OpenFlags::WRITE, 1).unwrap();
    file.0.open(&root(), "f", OpenFlags::WRITE, 2).unwrap();
    file.close(1, MIB, None);
    file.close(2, 9 * MIB, None);
    assert_eq!(file.told(), Some((9 * MIB, None)), "none of them left a hole");
    file.write(3, OpenFlags::WRITE, 0, Some(MIB));
    assert_eq!(file.told(), Some((9 * MIB, Some(MIB))), "it was alone");
}

#[test]
fn space_set_aside_for_an_empty_file_is_given_back_with_it() {
    let mut file = Sparse::new();
    file.write(1, OpenFlags::WRITE, 0, Some(MIB));
    let opened = file.0.open(&root(), "f", OpenFlags::WRITE | OpenFlags::TRUNCATE, 2).unwrap();
    assert!(opened.truncation.is_some(), "iods have something to cut");
    file.close(2, 0, None);
    file.0.unlink(&root(), "f").unwrap();
    assert_eq!(file.0.run(&root(), Statfs {}).unwrap().purging, 1);
}

#[test]
fn appenders_among_themselves_ask_nobody() {
    let mut w = World::new(1);
    w.open(&root(), "f", CREATE | OpenFlags::APPEND, 1).unwrap();
    w.open_for(2, &root(), "f", OpenFlags::WRITE | OpenFlags::APPEND, 1).unwrap();
    let append = |w: &mut World, client, bytes, end| {
        w.run_for(client, &root(), Append { open: 1, bytes, end }).map(|done| done.offset)
    };
    assert_eq!(append(&mut w, 1, 10, None), Ok(Some(0)));
    assert_eq!(append(&mut w, 2, 5, None), Ok(Some(10)));
    assert_eq!(append(&mut w, 1, 1, None), Ok(Some(15)));
    w.open_for(3, &root(), "f", OpenFlags::WRITE, 1).unwrap();
    assert_eq!(append(&mut w, 1, 1, None), Ok(None));
    assert_eq!(append(&mut w, 1, 1, Some(100)), Ok(Some(100)));
    assert_eq!(append(&mut w, 2, 1, Some(100)), Ok(Some(101)));
    assert_eq!(append(&mut w, 2, u64::MAX, Some(100)), Err(Errno::EFBIG));
    assert_eq!(append(&mut w, 3, 1, None), Err(Errno::EBADF));
    assert_eq!(append(&mut w, 4, 1, None), Err(Errno::EBADF));
}

#[test]
fn a_dead_writer_leaves_the_size_to_the_iods_until_somebody_has_asked() {
    let mut w = World::new(1);
    let handle = w.open(&root(), "f", CREATE, 1).unwrap().attr.handle;
    w.expire(1);
    let attr = w.stat(&root(), "f").unwrap();
    assert_ne!(attr.size_state, SizeState::Settled);
    let mtime = Time { seconds: w.now.seconds + 5, nanos: 0 };
    let settle = Settle { handle, change: attr.change, size: 77, disk_bytes: 1 << 20, mtime };
    let outdated = Settle { change: attr.change - 1, ..settle.clone() };
    for (who, settle) in [(root(), outdated), (user(5), settle.clone())] {
        let attr = w.run(&who, settle).unwrap().attr;
        assert_ne!(attr.size_state, SizeState::Settled, "not to be believed");
    }
    let attr = w.run(&root(), settle).unwrap().attr;
    assert_eq!((attr.size, attr.size_state, attr.mtime), (77, SizeState::Settled, mtime));
    assert_eq!(attr.disk_bytes, Some(1 << 20));
}

#[test]
fn a_chosen_mtime_survives_the_close_but_not_later_writes() {
    let chosen = Time { seconds: 50, nanos: 0 };
    let mut w = World::new(1);
    let choose = |w: &mut World| {
        let change = SetAttr { mtime: Some(SetTime::At(chosen)), ..nothing(w.at("f")) };
        w.run(&root(), change).unwrap();
    };
    w.open(&root(), "f", CREATE, 1).unwrap();
    choose(&mut w);
    let opens = |mtime| {
        let wrote = Wrote { end: 9, mtime, uncertain: false, disk_bytes: None };
        vec![ClosedOpen { open: 1, wrote: Some(wrote) }]
    };
    // The write came before the choice, by a clock that is half a second ahead.
    let mtime = Time { seconds: w.now.seconds, nanos: 500_000_000 };
    w.run(&root(), Close { opens: opens(mtime) }).unwrap();
    assert_eq!(w.stat(&root(), "f").unwrap().mtime, chosen);
    w.open_for(2, &root(), "f", OpenFlags::WRITE, 1).unwrap();
    choose(&mut w);
    let mtime = Time { seconds: w.now.seconds + 2, nanos: 0 };
    w.run_for(2, &root(), Close { opens: opens(mtime) }).unwrap();
    assert_eq!(w.stat(&root(), "f").unwrap().mtime, mtime);
}

#[test]
fn a_file_that_was_never_written_needs_no_purge_and_no_ticket() {
    let mut w = World::new(1);
    w.open(&root(), "f", CREATE, 1).unwrap();
    w.close(1, None);
    let opened = w.open(&root(), "f", OpenFlags::WRITE | OpenFlags::TRUNCATE, 2).unwrap();
    assert_eq!(opened.truncation, None);
    w.close(2, None);
    w.unlink(&root(), "f").unwrap();
    assert_eq!(w.run(&root(), Statfs {}).unwrap().purging, 0);
}

#[test]
fn a_forgotten_truncation_is_in_the_way_for_a_minute_and_proves_nothing() {
    let mut w = World::new(1);
    let handle = w.file(&root(), "f", 0o644).unwrap().handle;
    let truncate = |size| {
        let target = Target::object(handle);
        Truncate { target, follow: false, size, open: None }
    };
    let forgotten = w.run_for(2, &root(), truncate(5)).unwrap().ticket;
    assert_eq!(w.run(&root(), truncate(6)).unwrap_err(), Errno::EAGAIN);
    w.now.seconds += 61;
    let ticket = w.run(&root(), truncate(6)).unwrap().ticket;
    w.check();
    for (client, ticket, size) in [(2, forgotten, 5), (1, ticket, 6)] {
        let ended = Truncated { handle, ticket, size: Some(size), disk_bytes: Some(size) };
        let attr = w.run_for(client, &root(), ended).unwrap().attr;
        assert_ne!(attr.size_state, SizeState::Settled);
    }
    w.check();
}

#[test]
fn what_is_unlinked_while_it_is_cut_is_purged_all_the_same() {
    let mut w = World::new(1);
    let handle = w.file(&root(), "f", 0o644).unwrap().handle;
    let target = Target::object(handle);
    w.run(&root(), Truncate { target, follow: false, size: 5, open: None }).unwrap();
    w.unlink(&root(), "f").unwrap();
    w.check();
    assert_eq!(w.run(&root(), Statfs {}).unwrap().purging, 1);
    w.expire(1);
    w.check();
}

#[test]
fn purging_empties_the_queue() {
    use pvfs_mgr::namespace::{purge_queue, purged};
    use pvfs_mgr::store::{Store, Transaction};
    let mut w = World::new(1);
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        w.open(&root(), name, CREATE, number).unwrap();
        w.close(number, Some(10));
        w.unlink(&root(), name).unwrap();
    }
    let queue =
        |w: &World, after, most| purge_queue(&*w.store.snapshot(), &w.fs, after, most).unwrap();
    let all = queue(&w, 0, 10);
    assert_eq!((all.len(), all[0].placement.iods.len()), (3, 4));
    assert_eq!(queue(&w, all[0].handle.object, 1), all[1..2]);
    let snapshot = w.store.snapshot();
    let mut tx = Transaction::new(&*snapshot);
    purged(&mut tx, [all[0].handle.object, all[2].handle.object, 999]).unwrap();
    w.store.commit(tx.into_batch()).unwrap();
    assert_eq!(queue(&w, 0, 10), all[1..2]);
    w.check();
}
