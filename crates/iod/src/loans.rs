//! Which objects are lent to processes of this node, and how they are taken back.
//!
//! Each lent object has a word in memory that all borrowers look at before and after a read. The word changes
//! when the object is removed, or when its word is needed for another object; word 0 changes when all loans end.
//! See [`pvfs_net::loan`].

use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pvfs_net::loan::WHOLE;
use pvfs_net::words::Words;
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
    words: Recent<Handle, u32>,
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
    pub fn lend(&self, handle: Handle) -> Terms {
        // Read first: a loan begun before everything is taken back must not outlive it.
        let whole = self.words.load(WHOLE);
        let mut lent = self.lock();
        let word = match lent.words.get(&handle) {
            Some(word) => *word,
            None => self.assign(&mut lent, handle),
        };
        Terms { words: self.number, whole, word, value: self.words.load(word) }
    }

    fn assign(&self, lent: &mut Lent, handle: Handle) -> u32 {
        let word = lent.free.pop().unwrap_or(lent.next);
        if word == lent.next && (lent.next as usize) < WORDS {
            lent.next += 1;
        }
        if (word as usize) < WORDS {
            lent.words.insert(handle, word);
            return word;
        }
        let word = lent.words.evict(None).expect("all words are used by some object");
        self.words.change(word);
        lent.words.insert(handle, word);
        word
    }

    /// Takes an object back; nobody who begins to read it now still can.
    pub fn end(&self, handle: Handle) {
        let mut lent = self.lock();
        if let Some(word) = lent.words.remove(&handle) {
            self.words.change(word);
            lent.free.push(word);
        }
    }

    /// Takes everything back.
    pub fn end_all(&self) {
        self.words.change(WHOLE);
    }

    /// How many objects have a word.
    pub fn count(&self) -> usize {
        self.lock().words.len()
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        let [first, second] = [1, 2].map(|object| loans.lend(handle(object)));
        assert_eq!(loans.lend(handle(1)), first);
        loans.end(handle(1));
        assert!(!is_good(&words, first) && is_good(&words, second));
        let third = loans.lend(handle(3));
        assert_eq!(third.word, first.word, "its word is used again");
        assert!(is_good(&words, third) && !is_good(&words, first));
        loans.end_all();
        assert!(!is_good(&words, second) && !is_good(&words, third));
        assert!(is_good(&words, loans.lend(handle(2))));
    }

    #[test]
    fn more_objects_than_words_share_them_one_after_the_other() {
        let loans = Loans::new(1).unwrap();
        let words = SharedWords::map(loans.words()).unwrap();
        let terms: Vec<Terms> =
            (0..2 * WORDS as u64).map(|object| loans.lend(handle(object))).collect();
        assert_eq!(loans.count(), WORDS - 1);
        let good: Vec<&Terms> = terms.iter().filter(|terms| is_good(&words, **terms)).collect();
        assert_eq!(good.len(), WORDS - 1);
        let mut used: Vec<u32> = good.iter().map(|terms| terms.word).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), WORDS - 1, "no two loans that are good have one word");
    }
}
