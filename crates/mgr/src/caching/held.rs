//! Who holds which keys.

use std::collections::HashMap;

use super::Key;

/// Clients by key, in ascending order each.
#[derive(Debug, Default)]
pub struct Held {
    by_key: HashMap<Key, Vec<u64>>,
}

impl Held {
    /// The client holds the key from now on; says whether that is news.
    pub fn add(&mut self, key: Key, client: u64) -> bool {
        let clients = self.by_key.entry(key).or_default();
        match clients.binary_search(&client) {
            Ok(_) => false,
            Err(at) => {
                clients.insert(at, client);
                true
            }
        }
    }

    /// Nobody but `except` holds the key any more; returns who did.
    pub fn take_others(&mut self, key: &Key, except: u64) -> Vec<u64> {
        let Some(clients) = self.by_key.get_mut(key) else { return Vec::new() };
        let kept = clients.contains(&except);
        let mut others = std::mem::take(clients);
        if kept {
            clients.push(except);
            others.retain(|client| *client != except);
        } else {
            self.by_key.remove(key);
        }
        others
    }

    /// The client does not hold the key any more; says whether that is news.
    pub fn remove(&mut self, key: &Key, client: u64) -> bool {
        let Some(clients) = self.by_key.get_mut(key) else { return false };
        let before = clients.len();
        clients.retain(|other| *other != client);
        let held = clients.len() < before;
        if clients.is_empty() {
            self.by_key.remove(key);
        }
        held
    }

    /// Whether the client holds the key.
    pub fn contains(&self, key: &Key, client: u64) -> bool {
        self.by_key.get(key).is_some_and(|clients| clients.binary_search(&client).is_ok())
    }

    /// How many keys somebody holds.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }
}
