//! One fsync for all who wait for the same object.
//!
//! ```text
//! sync a -----> |== fdatasync ==|
//! sync b ---------> waits        |== fdatasync ==|     begun after b and c asked
//! sync c -------------> waits    |               |--> b, c answered
//! ```
//!
//! A failed sync is final: the kernel forgets after telling once, so a later one that succeeds means nothing.
//! The object's syncs fail until the daemon is started again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pvfs_wire::{Errno, Handle};

/// Who waits for which object.
pub struct SyncGroups<W> {
    groups: Mutex<HashMap<Handle, Vec<W>>>,
}

/// Objects of which something written may be lost.
#[derive(Default)]
pub struct Losses {
    lost: Mutex<Lost>,
}

#[derive(Default)]
struct Lost {
    handles: HashSet<Handle>,
    /// Too many to count.
    all: bool,
}

impl<W> SyncGroups<W> {
    /// Nobody waits.
    pub fn new() -> Self {
        Self { groups: Mutex::default() }
    }

    /// Waits with the others. True when there are no others: then the caller sees to it that
    /// [`Self::begin`], a sync and [`Self::end`] follow.
    pub fn join(&self, handle: Handle, waiter: W) -> bool {
        let mut groups = self.lock();
        let first = !groups.contains_key(&handle);
        groups.entry(handle).or_default().push(waiter);
        first
    }

    /// Takes those out who are served by a sync that begins now.
    pub fn begin(&self, handle: Handle) -> Vec<W> {
        self.lock().get_mut(&handle).map(std::mem::take).unwrap_or_default()
    }

    /// The sync is over. True when others came meanwhile: then all is to be done again for them.
    pub fn end(&self, handle: Handle) -> bool {
        let mut groups = self.lock();
        let more = groups.get(&handle).is_some_and(|waiting| !waiting.is_empty());
        if !more {
            groups.remove(&handle);
        }
        more
    }

    /// Takes out those who are `unwanted`, whatever they wait for.
    pub fn withdraw(&self, unwanted: impl Fn(&W) -> bool) -> Vec<W> {
        let mut groups = self.lock();
        groups.values_mut().flat_map(|waiting| waiting.extract_if(.., |w| unwanted(w))).collect()
    }

    /// Gives up on an object: nobody will sync it.
    pub fn abandon(&self, handle: Handle) -> Vec<W> {
        self.lock().remove(&handle).unwrap_or_default()
    }

    /// Gives up on everything.
    pub fn clear(&self) -> Vec<W> {
        self.lock().drain().flat_map(|(_, waiting)| waiting).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Vec<W>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Losses {
    /// Something of this object may be lost.
    pub fn add(&self, handle: Handle) {
        let mut lost = self.lock();
        if lost.handles.len() < LOST_MAX {
            lost.handles.insert(handle);
        } else {
            lost.all = true;
        }
    }

    /// EIO when something of this object may be lost.
    pub fn check(&self, handle: Handle) -> Result<(), Errno> {
        let lost = self.lock();
        if lost.all || lost.handles.contains(&handle) { Err(Errno::EIO) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Beyond this the store is past counting.
const LOST_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_serves_those_who_asked_before_it_began() {
        let groups = SyncGroups::new();
        let handle = Handle::root(1, 1);
        assert!(groups.join(handle, 'a'));
        assert_eq!(groups.begin(handle), ['a']);
        assert!(!groups.join(handle, 'b'));
        assert!(!groups.join(handle, 'c'));
        assert!(groups.end(handle), "b and c came too late for the first");
        assert_eq!(groups.begin(handle), ['b', 'c']);
        assert!(!groups.end(handle));
        assert!(groups.join(handle, 'd'), "nothing is under way any more");
    }

    #[test]
    fn who_is_withdrawn_does_not_keep_the_others_from_their_sync() {
        let groups = SyncGroups::new();
        let handle = Handle::root(1, 1);
        groups.join(handle, 'a');
        groups.join(handle, 'b');
        assert_eq!(groups.withdraw(|waiter| *waiter == 'a'), ['a']);
        assert_eq!(groups.begin(handle), ['b']);
        assert!(!groups.end(handle));
    }

    #[test]
    fn losses_are_never_forgotten() {
        let losses = Losses::default();
        let handle = Handle::root(1, 1);
        assert_eq!(losses.check(handle), Ok(()));
        losses.add(handle);
        assert_eq!(losses.check(handle), Err(Errno::EIO));
        assert_eq!(losses.check(handle.sibling(2)), Ok(()));
        (0..=LOST_MAX as u64).for_each(|object| losses.add(handle.sibling(object)));
        assert_eq!(losses.check(handle.sibling(u64::MAX)), Err(Errno::EIO));
    }
}
