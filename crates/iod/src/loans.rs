//! Which objects are lent to processes of this node, and how they are taken back.
//!
//! Each lent object has a word in memory that all borrowers look at before and after an access, another one when it is
//! lent for writing. They change when the object is removed, or when the word is needed for another object; that for
//! writing also when somebody else is not to be disturbed. Word 0 changes when all loans end. See [`pvfs_net::loan`].

use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pvfs_net::loan::WHOLE;
use pvfs_net::words::Words;
use pvfs_wire::ops::LoanFor;
use pvfs_wire::{Errno, Handle};

use crate::recent::Recent;

/// The loans of a daemon.
pub struct Loans {
    words: Words,
    number: u64,
    lent: Mutex<Lent>,
}

struct Lent {
    /// The word of each object.
    words: Recent<(Handle, LoanFor), u32>,
    /// Words above were never used.
    next: u32,
    /// Words whose objects are gone.
    free: Vec<u32>,
}

/// A loan's words and their values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// Which file of words; never the same for two daemons.
    pub words: u64,
    /// The value of word 0.
    pub whole: u32,
    /// The object's word.
    pub word: u32,
    /// Its value.
    pub value: u32,
}

impl Loans {
    /// Nothing is lent. EIO or ENOMEM when the kernel gives no memory to share.
    pub fn new(number: u64) -> Result<Self, Errno> {
        let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(5) as u32);
        let words = Words::new(WORDS).map_err(failed)?;
        let lent = Lent { words: Recent::new(WORDS - 1), next: 1, free: Vec::new() };
        Ok(Self { words, number, lent: Mutex::new(lent) })
    }

    /// What borrowers look at.
    pub fn words(&self) -> BorrowedFd<'_> {
        self.words.file()
    }

    /// Lends an object, whose lock the caller holds.
    pub fn lend(&self, handle: Handle, purpose: LoanFor) -> Terms {
        // Read first: a loan begun before everything is taken back must not outlive it.
        let whole = self.words.load(WHOLE);
        let mut lent = self.lock();
        let word = match lent.words.get(&(handle, purpose)) {
            Some(word) => *word,
            None => self.assign(&mut lent, (handle, purpose)),
        };
        Terms { words: self.number, whole, word, value: self.words.load(word) }
    }

    fn assign(&self, lent: &mut Lent, key: (Handle, LoanFor)) -> u32 {
        let word = lent.free.pop().unwrap_or(lent.next);
        if word == lent.next && (lent.next as usize) < WORDS {
            lent.next += 1;
        }
        if (word as usize) < WORDS {
            lent.words.insert(key, word);
            return word;
        }
        let word = lent.words.evict(None).expect("all words are used by some object");
        self.words.change(word);
        lent.words.insert(key, word);
        word
    }

    /// Takes an object back; nobody who begins to use it now still can.
    pub fn end(&self, handle: Handle) {
        self.end_for(handle, LoanFor::Reading);
        self.end_writing(handle);
    }

    /// Takes an object back from those who write it. Who is writing at this moment finds out afterwards.
    pub fn end_writing(&self, handle: Handle) {
        self.end_for(handle, LoanFor::Writing);
    }

    fn end_for(&self, handle: Handle, purpose: LoanFor) {
        let mut lent = self.lock();
        if let Some(word) = lent.words.remove(&(handle, purpose)) {
            self.words.change(word);
            lent.free.push(word);
        }
    }

    /// Takes everything back.
    pub fn end_all(&self) {
        self.words.change(WHOLE);
    }

    /// How many objects are lent, those for both twice.
    pub fn count(&self) -> usize {
        self.lock().words.len()
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds, however long the capability is good: so that a daemon that was killed is noticed by its borrowers.
pub const LOAN_S_MAX: u64 = 30;

/// For how long after it was lent an object may be written: the loan, and an access begun just before its end.
pub const WRITING: Duration = Duration::from_secs(LOAN_S_MAX + 5);

/// Objects lent at once, and one: 64 KiB of memory that all borrowers map.
const WORDS: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_net::words::SharedWords;

    fn handle(object: u64) -> Handle {
        Handle { fsid: 1, generation: 1, object }
    }

    fn is_good(words: &SharedWords, terms: Terms) -> bool {
        words.load(WHOLE) == Some(terms.whole) && words.load(terms.word) == Some(terms.value)
    }

    #[test]
    fn a_loan_ends_when_its_object_is_taken_back_and_no_other_does() {
        let loans = Loans::new(1).unwrap();
        let words = SharedWords::map(loans.words()).unwrap();
        let [first, second] = [1, 2].map(|object| loans.lend(handle(object), LoanFor::Reading));
        assert_eq!(loans.lend(handle(1), LoanFor::Reading), first);
        loans.end(handle(1));
        assert!(!is_good(&words, first) && is_good(&words, second));
        let third = loans.lend(handle(3), LoanFor::Reading);
        assert_eq!(third.word, first.word, "its word is used again");
        assert!(is_good(&words, third) && !is_good(&words, first));
        loans.end_all();
        assert!(!is_good(&words, second) && !is_good(&words, third));
        assert!(is_good(&words, loans.lend(handle(2), LoanFor::Reading)));
    }

    #[test]
    fn who_writes_can_be_asked_to_stop_without_those_who_read() {
        let loans = Loans::new(1).unwrap();
        let words = SharedWords::map(loans.words()).unwrap();
        let reading = loans.lend(handle(1), LoanFor::Reading);
        let writing = loans.lend(handle(1), LoanFor::Writing);
        loans.end_writing(handle(1));
        assert!(is_good(&words, reading) && !is_good(&words, writing));
        let again = loans.lend(handle(1), LoanFor::Writing);
        assert!(is_good(&words, again));
        loans.end(handle(1));
        assert!(!is_good(&words, reading) && !is_good(&words, again));
    }

    #[test]
    fn more_objects_than_words_share_them_one_after_the_other() {
        let loans = Loans::new(1).unwrap();
        let words = SharedWords::map(loans.words()).unwrap();
        let terms: Vec<Terms> = (0..2 * WORDS as u64)
            .map(|object| loans.lend(handle(object), LoanFor::Reading))
            .collect();
        assert_eq!(loans.count(), WORDS - 1);
        let good: Vec<&Terms> = terms.iter().filter(|terms| is_good(&words, **terms)).collect();
        assert_eq!(good.len(), WORDS - 1);
        let mut used: Vec<u32> = good.iter().map(|terms| terms.word).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), WORDS - 1, "no two loans that are good have one word");
    }
}
