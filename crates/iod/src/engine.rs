//! Executes what is planned: the locks, the order, the disk.
//!
//! ```text
//!            reactor                                   worker
//!   read     share lock, find, fstat, read NOWAIT ---> again, waiting        (a miss, or a lock held)
//!   write    exclude, find or create, write       ---> again, waiting        (a lock held)
//!   others                                             exclude, ...
//! ```
//!
//! Every function says EAGAIN when it was told never to wait and would have to. The lock is held over all
//! pieces of a request, so that others see all of it or nothing (contract D3).

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pvfs_layout::sieve::Runs;
use pvfs_net::buffer::{Buffer, Pool};
use pvfs_net::service::{Data, Lent};
use pvfs_wire::ops::{Allocation, LoanFor, ObjectStat};
use pvfs_wire::{Errno, Handle};

use crate::connection::Connection;
use crate::disk::{Disk, Object, View, Waiting};
use crate::figures::Figures;
use crate::health::Health;
use crate::loans::{Loans, Terms};
use crate::lock::{ObjectLocks, SharedLock};
use crate::plan::Plan;
use crate::recent::Recent;
use crate::sync::Losses;

/// Objects, and what happens to them.
pub struct Engine {
    disk: Arc<dyn Disk>,
    pool: Pool,
    locks: ObjectLocks,
    losses: Losses,
    /// Lately removed, so that a late write does not bring one back, where nobody would ever look.
    removed: Mutex<Recent<Handle, ()>>,
    /// Written since the last commit began.
    written: AtomicBool,
    /// What processes of this node may read and write by themselves; absent where memory cannot be shared.
    loans: Option<Loans>,
    /// That the disk is full was said since the last commit began.
    full_said: AtomicBool,
    figures: Arc<Figures>,
    health: Arc<Health>,
}

/// An object to be handed to a process of this node.
pub struct Loan {
    /// Its words.
    pub terms: Terms,
    /// The object and the words.
    pub files: Vec<OwnedFd>,
    /// Whether no read of it waits.
    pub in_memory: bool,
}

/// Bytes of an object on their way to a client, who gets them as they were when they were asked for: nobody changes
/// the object before they are sent, or copied.
struct Viewed {
    view: View,
    object: Arc<dyn Object>,
    pool: Pool,
    _held: SharedLock,
}

impl Lent for Viewed {
    fn bytes(&self) -> &[u8] {
        self.view.bytes()
    }

    fn copy(&self) -> io::Result<Buffer> {
        let range = self.view.range();
        let mut copy = self.pool.take((range.end - range.start) as usize);
        match self.object.read_at(range.start, &mut copy, Waiting::Allowed) {
            Ok(count) if count == copy.len() => Ok(copy),
            // The client asks again, and is told what the disk says then.
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Engine {
    /// An engine on this disk; data for replies come from `pool`. `number` is like no other daemon's.
    pub fn new(
        disk: Arc<dyn Disk>,
        pool: Pool,
        figures: Arc<Figures>,
        health: Arc<Health>,
        number: u64,
    ) -> Self {
        Self {
            disk,
            pool,
            locks: ObjectLocks::new(),
            losses: Losses::default(),
            removed: Mutex::new(Recent::new(REMOVED_MAX)),
            written: AtomicBool::new(false),
            full_said: AtomicBool::new(false),
            loans: Loans::new(number).ok(),
            figures,
            health,
        }
    }

    /// The disk, for what needs no order.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The bytes of the plan up to the last one the object has, and its size.
    pub fn read(
        &self,
        handle: Handle,
        plan: &Plan,
        waiting: Waiting,
    ) -> Result<(Data, u64), Errno> {
        let held = self.locks.share_on(handle, waiting)?;
        let found = self.judge(handle, "open", self.disk.find_to_read(handle, waiting))?;
        let Some(object) = found else { return Ok((self.pool.take(0).into(), 0)) };
        let local_size = self.judge(handle, "stat", object.local_size())?;
        let bytes = plan.readable_bytes(local_size) as usize;
        if let Some(view) = view(&*object, plan, bytes, waiting) {
            self.figures.read_bytes.add(bytes as u64);
            self.figures.read_views.one();
            let pool = self.pool.clone();
            return Ok((
                Data::Lent(Box::new(Viewed { view, object, pool, _held: held })),
                local_size,
            ));
        }
        let mut data = self.pool.take(bytes);
        self.judge(handle, "read", self.fill(&*object, plan, local_size, &mut data, waiting))?;
        self.figures.read_bytes.add(bytes as u64);
        Ok((data.into(), local_size))
    }

    /// Stores the data, which are the bytes of the plan. Returns the object's size after that.
    pub fn write(
        &self,
        handle: Handle,
        plan: &Plan,
        data: &[u8],
        client: &Connection,
        waiting: Waiting,
    ) -> Result<u64, Errno> {
        let _alone = self.locks.exclude(handle, waiting)?;
        client.check_present()?;
        self.written.store(true, SeqCst);
        let object = self.find_or_create(handle)?;
        if let (Some(loans), [_, _, ..]) = (&self.loans, plan.extents()) {
            // In several pieces: whoever writes by loan meanwhile finds out, and writes again, by a message.
            loans.end_writing(handle);
        }
        self.judge(handle, "write", self.store(&*object, plan, data, waiting))?;
        self.figures.written_bytes.add(data.len() as u64);
        self.judge(handle, "stat", object.local_size())
    }

    /// Lends the object. ENOENT before it was first written.
    pub fn lend(&self, handle: Handle, purpose: LoanFor) -> Result<Loan, Errno> {
        let loans = self.loans.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        // Alone: who looks at an object goes by whether others write it.
        let _alone = self.locks.exclude(handle, Waiting::Allowed)?;
        let found = match purpose {
            LoanFor::Reading => self.disk.find_to_read(handle, Waiting::Allowed),
            LoanFor::Writing => self.disk.find(handle, Waiting::Allowed),
        };
        let object = self.judge(handle, "open", found)?.ok_or(Errno::ENOENT)?.lend(purpose)?;
        let words = loans.words().try_clone_to_owned().map_err(|_| Errno::ENFILE)?;
        let terms = loans.lend(handle, purpose);
        self.figures.loans.one();
        Ok(Loan { terms, files: vec![object, words], in_memory: self.disk.is_memory() })
    }

    /// Takes back everything that is lent.
    pub fn end_loans(&self) {
        if let Some(loans) = &self.loans {
            loans.end_all();
        }
    }

    /// Objects that are lent.
    pub fn lent_objects(&self) -> usize {
        self.loans.as_ref().map_or(0, Loans::count)
    }

    /// The object, if cutting it to this size would change nothing, as far as is known without waiting. What takes no
    /// more than its bytes has no space set aside beyond its end, which a cut gives back.
    pub fn with_size(&self, handle: Handle, local_size: u64) -> Option<ObjectStat> {
        let _shared = self.locks.share(handle, Waiting::Never).ok()?;
        let stat = match self.disk.find(handle, Waiting::Never).ok()? {
            Some(object) => object.stat().ok()?,
            None => ObjectStat::default(),
        };
        let is_it = stat.local_size == local_size && stat.disk_bytes <= local_size;
        is_it.then_some(stat)
    }

    /// Cuts or extends the object; returns what it is then.
    pub fn truncate(
        &self,
        handle: Handle,
        local_size: u64,
        client: &Connection,
    ) -> Result<ObjectStat, Errno> {
        let _alone = self.locks.exclude(handle, Waiting::Allowed)?;
        client.check_present()?;
        self.written.store(true, SeqCst);
        let found = self.judge(handle, "open", self.disk.find(handle, Waiting::Allowed))?;
        let object = match found {
            Some(object) => object,
            None if local_size == 0 => return Ok(ObjectStat::default()),
            None => self.find_or_create(handle)?,
        };
        self.judge(handle, "truncate", object.truncate(local_size))?;
        self.judge(handle, "stat", object.stat())
    }

    /// Sets space aside or gives it back. Returns the object's size after that.
    pub fn allocate(
        &self,
        handle: Handle,
        how: Allocation,
        range: Range<u64>,
        grow: bool,
        client: &Connection,
    ) -> Result<u64, Errno> {
        let _alone = self.locks.exclude(handle, Waiting::Allowed)?;
        client.check_present()?;
        self.written.store(true, SeqCst);
        let found = self.judge(handle, "open", self.disk.find(handle, Waiting::Allowed))?;
        let object = match found {
            Some(object) => object,
            None if how == Allocation::Punch || range.is_empty() => return Ok(0),
            None => self.find_or_create(handle)?,
        };
        match object.allocate(how, range, grow) {
            // A local file system that cannot is no reason to worry about the disk.
            Err(Errno::EOPNOTSUPP) => return Err(Errno::EOPNOTSUPP),
            outcome => self.judge(handle, "allocate", outcome)?,
        }
        self.judge(handle, "stat", object.local_size())
    }

    /// Where the first data, or the first hole, at or behind `local` begins, and the object's size. What is
    /// behind the end is a hole.
    pub fn seek(
        &self,
        handle: Handle,
        local: u64,
        hole: bool,
    ) -> Result<(Option<u64>, u64), Errno> {
        let _shared = self.locks.share(handle, Waiting::Allowed)?;
        let found = self.disk.find_to_read(handle, Waiting::Allowed);
        let found = self.judge(handle, "open", found)?;
        let Some(object) = found else { return Ok((hole.then_some(local), 0)) };
        let local_size = self.judge(handle, "stat", object.local_size())?;
        let found = if hole { object.next_hole(local) } else { object.next_data(local) };
        let found = self.judge(handle, "seek", found)?;
        Ok((if hole { found.or(Some(local)) } else { found }, local_size))
    }

    /// Copies `bytes` bytes between objects, or within one. What the source does not have are zeros.
    /// Returns the target's size after that.
    pub fn copy(
        &self,
        (source, from): (Handle, u64),
        (target, to): (Handle, u64),
        bytes: u64,
        client: &Connection,
    ) -> Result<u64, Errno> {
        let _both = self.locks.exclude_and_share(target, source);
        client.check_present()?;
        self.written.store(true, SeqCst);
        let found = self.judge(source, "open", self.disk.find_to_read(source, Waiting::Allowed))?;
        let there = match &found {
            Some(object) => self.judge(source, "stat", object.local_size())?,
            None => 0,
        };
        let object = self.find_or_create(target)?;
        let copied = there.saturating_sub(from).min(bytes);
        if let (Some(found), true) = (&found, copied > 0) {
            self.judge(target, "copy", object.copy_from(&**found, from, to, copied))?;
        }
        self.judge(target, "copy", blank(&*object, to + copied..to + bytes))?;
        let local_size = self.judge(target, "stat", object.local_size())?;
        if local_size < to + bytes {
            self.judge(target, "truncate", object.truncate(to + bytes))?;
        }
        Ok(local_size.max(to + bytes))
    }

    /// Size, space and time.
    pub fn stat(&self, handle: Handle) -> Result<ObjectStat, Errno> {
        self.judge(handle, "stat", self.disk.stat(handle))
    }

    /// Removes the object for good.
    pub fn remove(&self, handle: Handle) -> Result<(), Errno> {
        let _alone = self.locks.exclude(handle, Waiting::Allowed)?;
        self.written.store(true, SeqCst);
        // Before: who still reads it by loan is told afterwards that it was too late.
        if let Some(loans) = &self.loans {
            loans.end(handle);
        }
        self.judge(handle, "remove", self.disk.remove(handle))?;
        self.removed().insert(handle, ());
        self.figures.removed_objects.one();
        Ok(())
    }

    /// Brings the object to stable storage. Once that failed it fails for ever: the kernel drops what it
    /// could not write, and says so once.
    pub fn sync(&self, handle: Handle) -> Result<(), Errno> {
        self.losses.check(handle)?;
        let Some(object) = self.judge(handle, "open", self.disk.find(handle, Waiting::Allowed))?
        else {
            return Ok(());
        };
        self.figures.fsyncs.one();
        let outcome = self.judge(handle, "sync", object.sync());
        if outcome.is_err() {
            self.losses.add(handle);
            self.disk.end_boot();
        }
        outcome
    }

    /// Brings everything to stable storage, if there is anything.
    pub fn commit(&self) -> Result<(), Errno> {
        self.full_said.store(false, SeqCst);
        // What is written by loan is not heard of, so that there may always be something, and once more after the end.
        let is_lent = self.disk.others_may_write_some();
        if !self.written.swap(is_lent, SeqCst) && !is_lent {
            return Ok(());
        }
        self.figures.commits.one();
        self.disk.commit().inspect_err(|error| {
            self.written.store(true, SeqCst);
            self.disk.end_boot();
            self.note("commit", "the store", *error);
        })
    }

    /// Reads the pieces, those that lie close together at once.
    fn fill(
        &self,
        object: &dyn Object,
        plan: &Plan,
        local_size: u64,
        data: &mut [u8],
        waiting: Waiting,
    ) -> Result<(), Errno> {
        let (mut runs, mut run) = (Runs::new(plan.ranges()), Vec::new());
        let mut rest = data;
        while let Some(span) = runs.next_into(&mut run) {
            if run.len() == 1 {
                let bytes = rest.len().min((span.end - span.start) as usize);
                let piece = rest.split_off_mut(..bytes).expect("so many are left");
                read_held(object, span.start, piece, local_size, waiting)?;
                continue;
            }
            let mut all = self.pool.take((span.end - span.start) as usize);
            read_held(object, span.start, &mut all, local_size, waiting)?;
            for range in &run {
                let bytes = rest.len().min((range.end - range.start) as usize);
                let piece = rest.split_off_mut(..bytes).expect("so many are left");
                piece.copy_from_slice(&all[(range.start - span.start) as usize..][..bytes]);
            }
        }
        Ok(())
    }

    /// Writes the pieces, those that lie close together at once, with what is between them as it was. Nobody else writes
    /// meanwhile, and whoever reads by loan sees the same bytes there before and after.
    fn store(
        &self,
        object: &dyn Object,
        plan: &Plan,
        data: &[u8],
        waiting: Waiting,
    ) -> Result<(), Errno> {
        let (mut runs, mut run) = (Runs::new(plan.ranges()), Vec::new());
        let mut rest = data;
        while let Some(span) = runs.next_into(&mut run) {
            let pieces = run.iter().map(|range| {
                let (piece, others) = rest.split_at((range.end - range.start) as usize);
                rest = others;
                (range.start, piece)
            });
            let around = match run.len() > 1 && !self.disk.others_may_write_all() {
                true => self.read_around(object, &span, waiting)?,
                false => None,
            };
            let Some(mut all) = around else {
                for (local, piece) in pieces {
                    object.write_at(local, piece)?;
                }
                continue;
            };
            for (local, piece) in pieces {
                all[(local - span.start) as usize..][..piece.len()].copy_from_slice(piece);
            }
            object.write_at(span.start, &all)?;
        }
        Ok(())
    }

    /// What is at, and between, pieces that are to be written. Nothing when that would have to be waited for: a
    /// request that began anew by a worker would show others a part of itself.
    fn read_around(
        &self,
        object: &dyn Object,
        span: &Range<u64>,
        waiting: Waiting,
    ) -> Result<Option<Buffer>, Errno> {
        let mut all = self.pool.take((span.end - span.start) as usize);
        match read_held(object, span.start, &mut all, object.local_size()?, waiting) {
            Ok(()) => Ok(Some(all)),
            Err(Errno::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn find_or_create(&self, handle: Handle) -> Result<Arc<dyn Object>, Errno> {
        let found = self.judge(handle, "open", self.disk.find(handle, Waiting::Allowed))?;
        match found {
            Some(object) => Ok(object),
            None if self.removed().get(&handle).is_some() => Err(Errno::ESTALE),
            None => self.judge(handle, "create", self.disk.create(handle)),
        }
    }

    fn removed(&self) -> MutexGuard<'_, Recent<Handle, ()>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at how a disk call went: trouble shows in the daemon's state.
    fn judge<T>(
        &self,
        handle: Handle,
        action: &'static str,
        outcome: Result<T, Errno>,
    ) -> Result<T, Errno> {
        outcome.inspect_err(|error| match *error {
            Errno::EAGAIN => {}
            error => self.note(action, &format!("object {handle}"), error),
        })
    }

    fn note(&self, action: &str, what: &str, error: Errno) {
        match error {
            Errno::ENOSPC | Errno::EDQUOT => {
                self.figures.disk_full.one();
                if !self.full_said.swap(true, SeqCst) {
                    tracing::warn!("the disk of the store is full (on {action} of {what})");
                }
            }
            Errno::EFBIG | Errno::ESTALE => {}
            Errno::EROFS => self.health.make_read_only(format!(
                "the file system of the store is read-only (on {action} of {what}); see dmesg, and \
                 `pvfs resume` once it can be written again"
            )),
            _ => {
                self.figures.disk_errors.one();
                self.health.degrade(format!("{action} of {what} failed: {error}; check the disk"));
            }
        }
    }
}

/// The bytes where they are in memory, if they are one piece of it.
fn view(object: &dyn Object, plan: &Plan, bytes: usize, waiting: Waiting) -> Option<View> {
    match plan.extents() {
        // A worker is asked for what has to be waited for.
        [extent] if waiting == Waiting::Never => {
            object.view(extent.local..extent.local + bytes as u64)
        }
        _ => None,
    }
}

/// Zeros, without taking space where the local file system knows how. What is behind the end stays there.
fn blank(object: &dyn Object, range: Range<u64>) -> Result<(), Errno> {
    let end = range.end.min(object.local_size()?);
    if range.start >= end {
        return Ok(());
    }
    match object.allocate(Allocation::Punch, range.start..end, false) {
        Err(Errno::EOPNOTSUPP) => {
            let zeros = [0; 1 << 16];
            let mut local = range.start;
            while local < end {
                let piece = &zeros[..(end - local).min(zeros.len() as u64) as usize];
                object.write_at(local, piece)?;
                local += piece.len() as u64;
            }
            Ok(())
        }
        outcome => outcome,
    }
}

/// Reads bytes of an object of this size; what lies beyond the end is zeros. A read that ends early would
/// have to be waited for, for the caller knows the object's size and keeps others from changing it.
fn read_held(
    object: &dyn Object,
    local: u64,
    into: &mut [u8],
    local_size: u64,
    waiting: Waiting,
) -> Result<(), Errno> {
    let held = into.len().min(local_size.saturating_sub(local) as usize);
    let (held, beyond) = into.split_at_mut(held);
    beyond.fill(0);
    if held.is_empty() {
        return Ok(());
    }
    match object.read_at(local, held, waiting)? {
        count if count == held.len() => Ok(()),
        _ if waiting == Waiting::Never => Err(Errno::EAGAIN),
        _ => Err(Errno::EIO),
    }
}

/// Capabilities live ten minutes; this many removals are remembered, some four megabytes.
const REMOVED_MAX: usize = 64 << 10;
