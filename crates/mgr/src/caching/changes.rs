//! Which keys changed lately, so that a query on an older snapshot does not grant what has changed since.

use std::collections::{HashMap, VecDeque};

use super::Key;

/// The last changes, by the number of their group. Groups are numbered before they are committed.
#[derive(Debug, Default)]
pub struct Changes {
    last: HashMap<Key, u64>,
    order: VecDeque<(u64, Key)>,
    /// Of this group and those before it nothing is known any more.
    floor: u64,
}

impl Changes {
    /// A group changes this key.
    pub fn note(&mut self, key: Key, group: u64) {
        self.last.insert(key, group);
        self.order.push_back((group, key));
        while self.order.len() > CHANGES_MAX
            && let Some((group, key)) = self.order.pop_front()
        {
            self.floor = group;
            if self.last.get(&key) == Some(&group) {
                self.last.remove(&key);
            }
        }
    }

    /// What happened up to this group was not noted.
    pub fn begin_after(&mut self, group: u64) {
        *self = Self { floor: group, ..Self::default() };
    }

    /// Whether the key is certainly as it was when this group was the last one committed.
    pub fn is_unchanged(&self, key: &Key, since: u64) -> bool {
        since >= self.floor && self.last.get(key).is_none_or(|group| *group <= since)
    }
}

/// Far more than can be changed while one query runs.
const CHANGES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_after_the_snapshot_is_noticed() {
        let mut changes = Changes::default();
        changes.note(Key::Object(1), 5);
        assert!(changes.is_unchanged(&Key::Object(1), 5), "the snapshot shows it");
        assert!(!changes.is_unchanged(&Key::Object(1), 4));
        assert!(changes.is_unchanged(&Key::Object(2), 4));
    }

    #[test]
    fn what_is_forgotten_counts_as_changed() {
        let mut changes = Changes::default();
        (1..=CHANGES_MAX as u64 + 10).for_each(|group| changes.note(Key::Object(group), group));
        assert!(!changes.is_unchanged(&Key::Object(u64::MAX), 9));
        assert!(changes.is_unchanged(&Key::Object(u64::MAX), 10));
        assert_eq!(changes.last.len(), CHANGES_MAX);
        changes.begin_after(99);
        assert!(!changes.is_unchanged(&Key::Object(1), 98));
        assert!(changes.is_unchanged(&Key::Object(1), 99));
    }
}
