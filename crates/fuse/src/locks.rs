//! Advisory locks: the manager grants them, to owners that the kernel names.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pvfs_wire::Errno;
use pvfs_wire::ops::LockKind;

/// Who has taken byte-range locks. Closing any descriptor of a file gives up its owner's locks on it, and
/// most closes are of files that nobody ever locked: those need no message.
#[derive(Default)]
pub struct Owners {
    ranges: Mutex<HashSet<(u64, u64)>>,
    waiting: Arc<AtomicUsize>,
}

/// A program that waits for a lock, until dropped.
pub struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Owners {
    /// An owner asks for a range of a node.
    pub fn note(&self, node: u64, owner: u64) {
        self.lock().insert((node, owner));
    }

    /// Forgets an owner; says whether it may have had locks.
    pub fn take(&self, node: u64, owner: u64) -> bool {
        self.lock().remove(&(node, owner))
    }

    /// One more program waits for a lock.
    pub fn begin_waiting(&self) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self.waiting.clone())
    }

    /// Whether more wait than can be at the manager at once, so that they take turns.
    pub fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > WAITING_AT_ONCE
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(u64, u64)>> {
        self.ranges.lock().expect("no code panics while it holds the set")
    }
}

/// The end of a range as the wire says it: exclusive, and `u64::MAX` for the end of all files.
pub fn wire_end(last: u64) -> u64 {
    if last >= OFFSET_MAX { u64::MAX } else { last + 1 }
}

/// The end of a range as the kernel says it: inclusive.
pub fn kernel_end(end: u64) -> u64 {
    if end > OFFSET_MAX { OFFSET_MAX } else { end.saturating_sub(1) }
}

/// `F_RDLCK`, `F_WRLCK`, `F_UNLCK`
pub fn kind(number: i32) -> Result<LockKind, Errno> {
    match number {
        0 => Ok(LockKind::Read),
        1 => Ok(LockKind::Write),
        2 => Ok(LockKind::Unlock),
        _ => Err(Errno::EINVAL),
    }
}

/// The number of a kind.
pub fn number(kind: LockKind) -> i32 {
    match kind {
        LockKind::Read => 0,
        LockKind::Write => 1,
        LockKind::Unlock => 2,
    }
}

const OFFSET_MAX: u64 = i64::MAX as u64;

/// Requests that wait at the manager at once: each occupies a connection, and others need some too.
pub const WAITING_AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_survive_the_way_to_the_manager_and_back() {
        for last in [0, 1, 4095, OFFSET_MAX - 1, OFFSET_MAX] {
            assert_eq!(kernel_end(wire_end(last)), last);
        }
        assert_eq!(wire_end(OFFSET_MAX), u64::MAX);
    }

    #[test]
    fn kinds_keep_their_numbers() {
        for kind_number in 0..3 {
            assert_eq!(number(kind(kind_number).unwrap()), kind_number);
        }
        assert_eq!(kind(3), Err(Errno::EINVAL));
    }

    #[test]
    fn only_an_owner_that_locked_is_given_up() {
        let owners = Owners::default();
        owners.note(5, 100);
        assert!(!owners.take(5, 101));
        assert!(!owners.take(6, 100));
        assert!(owners.take(5, 100));
        assert!(!owners.take(5, 100));
    }
}
