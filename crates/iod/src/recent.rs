//! A bounded map that keeps what was used lately: second chance, the cheap cousin of least recently used.
//!
//! Entries stand in a ring. Whoever must go is looked for from the oldest on; one that was used since it
//! was last looked at gets a second round. A use costs one flag, not a move in a list.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map of at most so many entries.
pub struct Recent<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Oldest first; may name entries that were removed since.
    ring: VecDeque<K>,
    entries_max: usize,
}

struct Entry<V> {
    value: V,
    used: bool,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// An empty map that will hold at most `entries_max` entries (at least one). Allocates nothing.
    pub fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::new(), ring: VecDeque::new(), entries_max: entries_max.max(1) }
    }

    /// The value of `key`, which counts as a use.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        entry.used = true;
        Some(&entry.value)
    }

    /// Keeps `value` for `key`; returns the value it replaces, or the one that had to go.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let replaced = self.entries.insert(key, Entry { value, used: false });
        if let Some(replaced) = replaced {
            return Some(replaced.value);
        }
        self.ring.push_back(key);
        let evicted =
            if self.entries.len() > self.entries_max { self.evict(Some(key)) } else { None };
        self.forget_removed();
        evicted
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key).map(|entry| entry.value)
    }

    /// Removes the entry that was not used for longest, about; not that of `kept`.
    pub fn evict(&mut self, kept: Option<K>) -> Option<V> {
        // In the second round nothing is in use any more.
        for _ in 0..2 * self.ring.len() {
            let key = self.ring.pop_front()?;
            match self.entries.get_mut(&key) {
                None => {}
                Some(entry) if entry.used || kept == Some(key) => {
                    entry.used = false;
                    self.ring.push_back(key);
                }
                Some(_) => return self.remove(&key),
            }
        }
        None
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Keeps the ring in proportion to the map when entries are removed by name.
    fn forget_removed(&mut self) {
        if self.ring.len() > 2 * self.entries_max {
            self.ring = self.entries.keys().copied().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_its_bound_and_the_unused_go_first() {
        let mut recent = Recent::new(3);
        for key in 0..3 {
            assert_eq!(recent.insert(key, key * 10), None);
        }
        assert_eq!(recent.get(&0), Some(&0));
        assert_eq!(recent.insert(3, 30), Some(10));
        assert_eq!(recent.len(), 3);
        assert_eq!(recent.get(&0), Some(&0));
        assert_eq!(recent.get(&1), None);
    }

    #[test]
    fn the_newest_is_not_the_one_that_goes_even_when_all_others_are_in_use() {
        let mut recent = Recent::new(2);
        recent.insert(1, 1);
        recent.insert(2, 2);
        recent.get(&1);
        recent.get(&2);
        recent.insert(3, 3);
        assert!(recent.get(&3).is_some());
        assert_eq!(recent.len(), 2);
    }

    #[test]
    fn what_is_kept_is_not_evicted_even_when_it_is_alone() {
        let mut recent = Recent::new(8);
        recent.insert(1, 'a');
        assert_eq!(recent.evict(Some(1)), None);
        recent.insert(2, 'b');
        recent.get(&2);
        assert_eq!(recent.evict(Some(1)), Some('b'));
        assert_eq!(recent.evict(None), Some('a'));
    }

    #[test]
    fn removed_entries_leave_nothing_behind() {
        let mut recent = Recent::new(8);
        for key in 0..1000 {
            recent.insert(key, ());
            recent.remove(&key);
        }
        assert_eq!(recent.len(), 0);
        assert!(recent.ring.len() <= 17);
        assert_eq!(recent.evict(None), None);
    }
}
