//! How much space every iod has and which of them answer, asked every few seconds.
//!
//! New files begin where there is space, and the status says who is silent. Nothing that is promised
//! depends on it.

use pvfs_layout::IodId;
use pvfs_wire::Errno;
use pvfs_wire::ops::StoreStat;

use crate::iods::{Iods, Patience, ask_each};

/// What is known of the iods' space.
#[derive(Debug)]
pub struct Space {
    iods: Vec<Seen>,
    patience: Patience,
}

/// What is known of one iod.
#[derive(Clone, Copy, Debug)]
struct Seen {
    iod: IodId,
    last: Option<StoreStat>,
}

impl Space {
    /// Nothing is known of these iods yet.
    pub fn new(iods: impl IntoIterator<Item = IodId>) -> Self {
        let iods = iods.into_iter().map(|iod| Seen { iod, last: None }).collect();
        Self { iods, patience: Patience::new(PAUSE_NS, LONGEST_PAUSE_NS) }
    }

    /// These are the iods from now on; what is known of those that stay is kept.
    pub fn set_iods(&mut self, iods: &[IodId]) {
        if self.iods.iter().map(|seen| seen.iod).ne(iods.iter().copied()) {
            let last = |iod| self.iods.iter().find(|seen| seen.iod == iod)?.last;
            self.iods = iods.iter().map(|iod| Seen { iod: *iod, last: last(*iod) }).collect();
        }
    }

    /// Asks every iod that answers, and now and then those that do not.
    pub fn look(&mut self, iods: &dyn Iods, now_ns: u64) {
        let due = self.iods.iter().filter(|seen| self.patience.allows(seen.iod, now_ns));
        let due: Vec<(IodId, ())> = due.map(|seen| (seen.iod, ())).collect();
        for (iod, answer) in ask_each(&due, |iod, ()| iods.stat_store(iod)) {
            self.note(iod, answer, now_ns);
        }
    }

    /// Bytes free for new data, in the order of the iods. An iod that does not answer has none: what
    /// begins there could not be written now.
    pub fn free_bytes(&self) -> Vec<u64> {
        self.iods.iter().map(|seen| self.free_bytes_of(seen)).collect()
    }

    /// The iods that do not answer.
    pub fn silent(&self) -> Vec<IodId> {
        let silent = self.iods.iter().filter(|seen| self.patience.is_failing(seen.iod));
        silent.map(|seen| seen.iod).collect()
    }

    fn note(&mut self, iod: IodId, answer: Result<StoreStat, Errno>, now_ns: u64) {
        let news = self.patience.note(iod, answer.is_ok(), now_ns);
        match answer {
            Ok(stat) => {
                self.iods.iter_mut().filter(|seen| seen.iod == iod).for_each(|seen| {
                    seen.last = Some(stat);
                });
                if news {
                    tracing::info!(iod = iod.0, "iod answers again");
                }
            }
            Err(error) if news => tracing::warn!(iod = iod.0, %error, "iod does not answer"),
            Err(_) => {}
        }
    }

    fn free_bytes_of(&self, seen: &Seen) -> u64 {
        match seen.last {
            Some(stat) if !self.patience.is_failing(seen.iod) => stat.available_bytes,
            _ => 0,
        }
    }
}

/// Between two looks.
pub const PAUSE_NS: u64 = 2_000_000_000;

/// Between two looks at an iod that does not answer.
const LONGEST_PAUSE_NS: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_wire::Handle;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    struct Disks(Mutex<BTreeMap<u32, u64>>);

    impl Iods for Disks {
        fn remove(&self, _: IodId, _: &[Handle]) -> Result<(), Errno> {
            Err(Errno::ENOSYS)
        }

        fn stat_store(&self, iod: IodId) -> Result<StoreStat, Errno> {
            let disks = self.0.lock().unwrap();
            let available_bytes = *disks.get(&iod.0).ok_or(Errno::ETIMEDOUT)?;
            Ok(StoreStat { available_bytes, ..StoreStat::default() })
        }
    }

    #[test]
    fn files_begin_where_there_is_space_and_somebody_answers() {
        let disks = Disks(Mutex::new(BTreeMap::from([(0, 100), (2, 300)])));
        let mut space = Space::new((0..3).map(IodId));
        space.look(&disks, 0);
        assert_eq!((space.free_bytes(), space.silent()), (vec![100, 0, 300], vec![IodId(1)]));
        disks.0.lock().unwrap().extend([(1, 50), (2, 200)]);
        disks.0.lock().unwrap().remove(&0);
        space.look(&disks, PAUSE_NS);
        assert_eq!((space.free_bytes(), space.silent()), (vec![0, 50, 200], vec![IodId(0)]));
        space.set_iods(&[IodId(2), IodId(1), IodId(3)]);
        assert_eq!(space.free_bytes(), [200, 50, 0], "what is known moves with the iod");
    }
}
