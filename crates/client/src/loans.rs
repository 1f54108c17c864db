//! What iods of this node have lent: per open file its objects, per file system the iods' words.
//!
//! Borrowing costs a message, so it is done for a file that is used for the second time on the same iod,
//! or in long pieces.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use pvfs_net::loan::Loan;
use pvfs_net::runtime::Instant;
use pvfs_net::words::SharedWords;
use pvfs_wire::ops::LoanFor;

/// The objects of one open file that were borrowed, by slot and purpose.
#[derive(Debug, Default)]
pub struct Loans {
    reading: BTreeMap<u32, Slot>,
    writing: BTreeMap<u32, Slot>,
}

#[derive(Clone, Debug)]
enum Slot {
    /// Moved so many bytes by messages.
    Asked(u64),
    /// Use it directly.
    Borrowed(Arc<Loan>),
    /// Somebody is asking, or it was refused: not again before then.
    NotBefore(Instant),
}

/// What to do for an access.
pub enum Advice {
    /// Use this.
    Borrowed(Arc<Loan>),
    /// Ask for the object first.
    Borrow,
    /// Ask for the bytes.
    Ask,
}

impl Loans {
    /// How so many bytes of this slot are to be moved.
    pub fn advise(&mut self, slot: u32, purpose: LoanFor, bytes: u64, now: Instant) -> Advice {
        let known = self.slots(purpose).entry(slot).or_insert(Slot::Asked(0));
        match known {
            Slot::Borrowed(loan) if loan.is_good(now) => return Advice::Borrowed(loan.clone()),
            Slot::Borrowed(loan) if now < loan.until => {
                // Taken back. Somebody else needs it more.
                *known = Slot::NotBefore(now.after(PAUSE));
                return Advice::Ask;
            }
            Slot::NotBefore(then) if now < *then => return Advice::Ask,
            Slot::Asked(before) if moved_with(purpose, *before, bytes) < BYTES_BEFORE => {
                *before += bytes;
                return Advice::Ask;
            }
            _ => {}
        }
        *known = Slot::NotBefore(now.after(PAUSE));
        Advice::Borrow
    }

    /// What was borrowed for this. Whether it is still good is looked at by who uses it.
    pub fn borrowed(&mut self, slot: u32, purpose: LoanFor) -> Option<Arc<Loan>> {
        match self.slots(purpose).get(&slot) {
            Some(Slot::Borrowed(loan)) => Some(loan.clone()),
            _ => None,
        }
    }

    /// The object of this slot was lent.
    pub fn lent(&mut self, slot: u32, purpose: LoanFor, loan: Arc<Loan>) {
        self.slots(purpose).insert(slot, Slot::Borrowed(loan));
    }

    /// The disk makes whoever writes wait: the iod is asked for a while, which can be waited for.
    pub fn rest(&mut self, slot: u32, purpose: LoanFor, now: Instant) {
        self.slots(purpose).insert(slot, Slot::NotBefore(now.after(PAUSE)));
    }

    fn slots(&mut self, purpose: LoanFor) -> &mut BTreeMap<u32, Slot> {
        match purpose {
            LoanFor::Reading => &mut self.reading,
            LoanFor::Writing => &mut self.writing,
        }
    }
}

/// What counts of so many bytes before and now: who reads much at once will want it again, while a file that is written in
/// one go is done with.
fn moved_with(purpose: LoanFor, before: u64, now: u64) -> u64 {
    match purpose {
        LoanFor::Reading => before + now,
        LoanFor::Writing => before,
    }
}

/// The words of each iod that has lent something, by their number. An iod that was restarted has others.
#[derive(Default)]
pub struct Boards {
    known: Mutex<HashMap<u64, Arc<SharedWords>>>,
}

impl Boards {
    /// The words of this number, from the file that came along if they are not known yet.
    pub fn words(&self, number: u64, file: &OwnedFd) -> Option<Arc<SharedWords>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = known.get(&number) {
            return Some(words.clone());
        }
        let words = Arc::new(SharedWords::map(file).ok()?);
        // Those of iods that are gone are kept by their loans, while there are any.
        if known.len() >= BOARDS_MAX {
            known.clear();
        }
        known.insert(number, words.clone());
        Some(words)
    }
}

/// Bytes of an object moved by messages before it is borrowed: a small file is not read again.
const BYTES_BEFORE: u64 = 64 << 10;

/// After a refusal.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// Iods of one node.
const BOARDS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_borrowed_once_it_is_read_enough_and_not_twice_at_once() {
        let (mut loans, now) = (Loans::default(), Instant(0));
        assert!(matches!(loans.advise(3, LoanFor::Reading, 4096, now), Advice::Ask));
        assert!(matches!(loans.advise(3, LoanFor::Reading, BYTES_BEFORE, now), Advice::Borrow));
        assert!(
            matches!(loans.advise(3, LoanFor::Reading, BYTES_BEFORE, now), Advice::Ask),
            "it is being asked for"
        );
        assert!(
            matches!(loans.advise(4, LoanFor::Reading, 1 << 20, now), Advice::Borrow),
            "another slot"
        );
        let write = |loans: &mut Loans| loans.advise(3, LoanFor::Writing, BYTES_BEFORE, now);
        assert!(matches!(write(&mut loans), Advice::Ask), "it may have been written in one go");
        assert!(matches!(write(&mut loans), Advice::Borrow), "to write on");
        assert!(
            matches!(loans.advise(3, LoanFor::Reading, 1, now.after(PAUSE)), Advice::Borrow),
            "refused long ago"
        );
    }
}
