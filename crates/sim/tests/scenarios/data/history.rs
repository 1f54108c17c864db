//! What was written and read, by whom and when; and whether that can be.
//!
//! Every write fills its range with a tag of its own, so that each byte read tells where it comes from.
//!
//! ```text
//!   write a  |-----|                       read   |----|  may find b or c, never a: b was done before
//!   write b           |-----|                             the read began, and began after a was done
//!   write c                     |------------ ?           c is under way, or its fate is unknown
//! ```
//!
//! An iod that loses its power may take back what was not synced: then b does not rule out a, unless a sync
//! that began after b was done ended well before the power was lost.

use std::ops::Range;

use pvfs_layout::{Dist, Distribution};
use pvfs_net::runtime::Instant;
use pvfs_sim::{Losses, Victim};

/// Everything done to one file.
pub struct History {
    dist: Dist,
    losses: Losses,
    writes: Vec<Write>,
    reads: Vec<Read>,
    syncs: Vec<(Instant, Instant)>,
}

/// A write; the tag is its position in the history, plus one.
struct Write {
    client: usize,
    range: Range<u64>,
    begun: Instant,
    done: Option<Instant>,
    /// When nothing of it can land any more although it was never answered, for each slot.
    buried: Vec<Option<Instant>>,
}

/// A read that was answered: bytes beyond the end of the file count as zeros.
struct Read {
    range: Range<u64>,
    bytes: Vec<u8>,
    begun: Instant,
    done: Instant,
}

const TAGS: usize = 255;

impl History {
    /// Of a file dealt like this.
    pub fn new(dist: Dist, losses: Losses) -> Self {
        Self { dist, losses, writes: Vec::new(), reads: Vec::new(), syncs: Vec::new() }
    }

    /// A write begins; its tag, while there are any.
    pub fn begin_write(&mut self, client: usize, range: Range<u64>, begun: Instant) -> Option<u8> {
        if self.writes.len() >= TAGS {
            return None;
        }
        let buried = vec![None; self.dist.slots() as usize];
        self.writes.push(Write { client, range, begun, done: None, buried });
        Some(self.writes.len() as u8)
    }

    /// A write was answered.
    pub fn end_write(&mut self, tag: u8, done: Instant) {
        let write = &mut self.writes[usize::from(tag) - 1];
        write.done = Some(done);
        let (client, range, begun) = (write.client, write.range.clone(), write.begun);
        self.bury(client, &range, begun, done);
    }

    /// A sync was answered.
    pub fn end_sync(&mut self, begun: Instant, done: Instant) {
        self.syncs.push((begun, done));
    }

    /// A client that was answered by an iod has left behind whatever it sent there before: a request of
    /// an older connection is refused from then on.
    fn bury(&mut self, client: usize, range: &Range<u64>, begun: Instant, done: Instant) {
        for slot in self.dist.slots_in(range.clone()) {
            let lost = self.writes.iter_mut().filter(|write| {
                write.client == client && write.done.is_none() && write.begun < begun
            });
            lost.for_each(|write| {
                write.buried[slot as usize].get_or_insert(done);
            });
        }
    }

    /// A read was answered; it is checked against everything before it.
    pub fn end_read(
        &mut self,
        client: usize,
        range: Range<u64>,
        bytes: Vec<u8>,
        (begun, done): (Instant, Instant),
    ) {
        self.bury(client, &range, begun, done);
        let read = Read { range, bytes, begun, done };
        for offset in read.range.clone() {
            if let Err(why) = self.explain(&read, offset) {
                panic!("client {client} read at {offset}, {begun:?}..{done:?}: {why}");
            }
        }
        self.reads.push(read);
    }

    /// Bytes of `record`, as read, were each written by one request, as far as one iod holds them.
    pub fn check_whole(&self, record: &Range<u64>, read: &Range<u64>, bytes: &[u8]) {
        let mut found: Vec<(u32, u64, u8)> = record
            .clone()
            .filter(|offset| read.contains(offset))
            .map(|offset| {
                let place = self.dist.locate(offset);
                let block = if self.has_lost(place.slot) { place.local / BLOCK } else { 0 };
                (place.slot, block, bytes[(offset - read.start) as usize])
            })
            .collect();
        found.sort_unstable();
        found.dedup();
        let mixed = found.windows(2).find(|two| two[0].0 == two[1].0 && two[0].1 == two[1].1);
        assert!(mixed.is_none(), "record {record:?} is torn on one iod: {mixed:?}");
    }

    /// No size is less than the end of a done write, or more than that of any.
    pub fn check_size(&self, size: u64, begun: Instant) {
        let may_lose = (0..self.dist.slots()).any(|slot| self.has_lost(slot));
        let is_done = |write: &&Write| write.done.is_some_and(|done| done < begun) && !may_lose;
        let least = self.writes.iter().filter(is_done).map(|write| write.range.end).max();
        let most = self.writes.iter().map(|write| write.range.end).max();
        let range = least.unwrap_or(0)..=most.unwrap_or(0);
        assert!(range.contains(&size), "size {size} is not within {range:?}");
    }

    fn has_lost(&self, slot: u32) -> bool {
        !self.losses_of(slot).is_empty()
    }

    fn losses_of(&self, slot: u32) -> Vec<Instant> {
        // Slot and iod are told apart by the base of the file, which these scenarios fix at 0.
        self.losses.of(Victim::Iod(slot))
    }

    fn explain(&self, read: &Read, offset: u64) -> Result<(), String> {
        let tag = read.bytes[(offset - read.range.start) as usize];
        let slot = self.dist.locate(offset).slot;
        let ended = match usize::from(tag).checked_sub(1) {
            None => Some(Instant(0)),
            Some(at) => {
                let Some(write) = self.writes.get(at) else {
                    return Err(format!("{tag} was never written"));
                };
                if !write.range.contains(&offset) || write.begun > read.done {
                    return Err(format!("{tag} was written elsewhere or later"));
                }
                write.done.or(write.buried[slot as usize])
            }
        };
        let Some(ended) = ended else { return Ok(()) };
        let losses = self.losses_of(slot);
        let newer = |(_, write): &(usize, &Write)| {
            write.range.contains(&offset)
                && write.begun > ended
                && self.is_certain(write, read, &losses)
        };
        match (1..).zip(&self.writes).filter(|(number, _)| *number != usize::from(tag)).find(newer)
        {
            None => Ok(()),
            Some((newer, _)) => Err(format!("found {tag}, but {newer} was done after it")),
        }
    }

    /// Whether the write was done before the read began, and no loss of power could take it back.
    fn is_certain(&self, write: &Write, read: &Read, losses: &[Instant]) -> bool {
        let Some(done) = write.done.filter(|done| *done < read.begun) else { return false };
        let lost_by =
            |until: Instant| losses.iter().any(|loss| (write.begun..=until).contains(loss));
        let is_synced = |(begun, ended): &(Instant, Instant)| {
            *begun >= done && *ended <= read.done && !lost_by(*ended)
        };
        !lost_by(read.done) || self.syncs.iter().any(is_synced)
    }
}

/// What a disk writes at once.
const BLOCK: u64 = 4096;
