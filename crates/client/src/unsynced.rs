//! What an open has written and not synced, by slot, so that its fsync does not claim what an iod lost with
//! its power.
//!
//! ```text
//!   write -> boot 5      write -> boot 5      power      sync -> boot 6
//!   ------ may be lost together with this ------|          EIO: the writes were done in boot 5
//! ```
//!
//! An iod tells with its welcome which boot of its store it serves ([`pvfs_wire::ops::Welcome::boot`]); the
//! number changes when something unsynced may be gone, and not when merely the process was killed.

use pvfs_wire::Errno;

/// The unsynced writes of one open.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    slots: Vec<Slot>,
    /// Something may be gone. It stays so: nobody can write again what nobody knows to be lost.
    lost: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// In which boot the unsynced writes were done.
    boot: u64,
    /// Writes done so far.
    writes: u64,
    /// How many of them, the first ones, were synced.
    synced: u64,
}

impl Unsynced {
    /// A write was done in this boot; `safe` when it was answered after a sync of its own.
    pub fn wrote(&mut self, slot: u32, boot: u64, safe: bool) {
        let noted = self.slot(slot);
        let broken = noted.is_waiting() && noted.boot != boot;
        noted.boot = boot;
        noted.writes += u64::from(!safe);
        self.lost |= broken;
    }

    /// How many writes a sync that is sent now will cover.
    pub fn count(&mut self, slot: u32) -> u64 {
        self.slot(slot).writes
    }

    /// A sync that covers `count` writes was done in this boot.
    pub fn synced(&mut self, slot: u32, count: u64, boot: u64) {
        let noted = self.slot(slot);
        if count <= noted.synced {
            return;
        }
        let broken = noted.boot != boot;
        noted.synced = count;
        self.lost |= broken;
    }

    /// EIO when something may be gone.
    pub fn check(&self) -> Result<(), Errno> {
        if self.lost { Err(Errno::EIO) } else { Ok(()) }
    }

    fn slot(&mut self, slot: u32) -> &mut Slot {
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, Slot::default());
        }
        &mut self.slots[at]
    }
}

impl Slot {
    fn is_waiting(&self) -> bool {
        self.writes > self.synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(unsynced: &mut Unsynced, boot: u64) -> Result<(), Errno> {
        let count = unsynced.count(0);
        unsynced.synced(0, count, boot);
        unsynced.check()
    }

    #[test]
    fn a_sync_in_the_boot_of_the_writes_vouches_for_them() {
        let mut unsynced = Unsynced::default();
        unsynced.wrote(0, 5, false);
        assert_eq!(sync(&mut unsynced, 5), Ok(()));
        assert_eq!(sync(&mut unsynced, 6), Ok(()), "nothing was unsynced when the power went");
        unsynced.wrote(0, 6, false);
        assert_eq!(sync(&mut unsynced, 6), Ok(()));
    }

    #[test]
    fn a_sync_in_a_later_boot_fails_and_so_do_all_after_it() {
        let mut unsynced = Unsynced::default();
        unsynced.wrote(0, 5, false);
        assert_eq!(sync(&mut unsynced, 6), Err(Errno::EIO));
        unsynced.wrote(0, 6, false);
        assert_eq!(sync(&mut unsynced, 6), Err(Errno::EIO));
    }

    #[test]
    fn a_write_in_a_later_boot_notices_too() {
        for safe in [false, true] {
            let mut unsynced = Unsynced::default();
            unsynced.wrote(0, 5, false);
            unsynced.wrote(0, 6, safe);
            assert_eq!(sync(&mut unsynced, 6), Err(Errno::EIO));
        }
    }

    #[test]
    fn a_write_that_was_synced_by_itself_needs_no_later_sync() {
        let mut unsynced = Unsynced::default();
        unsynced.wrote(0, 5, true);
        assert_eq!(sync(&mut unsynced, 6), Ok(()));
    }

    #[test]
    fn a_sync_does_not_vouch_for_what_was_written_after_it_was_sent() {
        let mut unsynced = Unsynced::default();
        unsynced.wrote(0, 5, false);
        let count = unsynced.count(0);
        unsynced.wrote(0, 5, false);
        unsynced.synced(0, count, 5);
        assert_eq!(sync(&mut unsynced, 6), Err(Errno::EIO));
    }

    #[test]
    fn a_sync_answered_late_takes_nothing_back() {
        let mut unsynced = Unsynced::default();
        unsynced.wrote(0, 5, false);
        let late = unsynced.count(0);
        assert_eq!(sync(&mut unsynced, 5), Ok(()));
        unsynced.wrote(0, 6, false);
        unsynced.synced(0, late, 5);
        assert_eq!(sync(&mut unsynced, 6), Ok(()));
    }

    #[test]
    fn slots_are_apart() {
        let mut unsynced = Unsynced::default();
        unsynced.wrote(2, 5, false);
        unsynced.wrote(0, 9, false);
        assert_eq!(sync(&mut unsynced, 9), Ok(()));
        let count = unsynced.count(2);
        unsynced.synced(2, count, 6);
        assert_eq!(unsynced.check(), Err(Errno::EIO));
    }
}
