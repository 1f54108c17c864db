//! Which connection of a client is the latest, so that nothing an older one asked for happens late.
//!
//! A lane that reconnects does so with a higher incarnation. The older connection is closed first, and
//! the new one is welcomed only when no change asked for on the older one can still happen. A delayed
//! duplicate of a connection (its incarnation is not higher than one seen) is refused.

use std::collections::{BTreeSet, HashMap};

use crate::service::ConnectionId;

/// One of the connections a client process keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct LaneKey {
    /// The client process.
    pub client: u64,
    /// Which of its connections.
    pub lane: u32,
}

/// What a hello finds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Entry {
    /// It is the latest. These connections are older and must be closed.
    Older(Vec<ConnectionId>),
    /// A newer or the same incarnation was here before.
    Stale,
    /// Too many older connections are still finishing.
    Crowded,
}

/// All lanes seen, bounded: the first to be forgotten is the one that left longest ago.
#[derive(Default)]
pub struct Lanes {
    lanes: HashMap<LaneKey, Lane>,
    empty: BTreeSet<(u64, LaneKey)>,
    departures: u64,
}

#[derive(Default)]
struct Lane {
    incarnation: u64,
    /// In the order of their incarnations.
    present: Vec<ConnectionId>,
    /// Whether a session was ever proved on it: only then is it worth remembering.
    proved: bool,
    left: u64,
}

impl Lanes {
    /// A connection says which incarnation of the lane it is.
    pub fn enter(&mut self, key: LaneKey, incarnation: u64, connection: ConnectionId) -> Entry {
        let is_new = !self.lanes.contains_key(&key);
        let lane = self.lanes.entry(key).or_default();
        if !is_new && incarnation <= lane.incarnation {
            return Entry::Stale;
        }
        if lane.present.len() >= PRESENT_MAX {
            return Entry::Crowded;
        }
        self.empty.remove(&(lane.left, key));
        let older = lane.present.clone();
        lane.incarnation = incarnation;
        lane.present.push(connection);
        self.forget_the_oldest();
        Entry::Older(older)
    }

    /// Whether everything older than this connection is over.
    pub fn is_first(&self, key: LaneKey, connection: ConnectionId) -> bool {
        self.lanes.get(&key).is_some_and(|lane| lane.present.first() == Some(&connection))
    }

    /// A session was proved on the lane.
    pub fn prove(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.proved = true;
        }
    }

    /// The connection is closed, and nothing it asked for can happen any more. Returns the connection
    /// that may be waiting for this.
    pub fn leave(&mut self, key: LaneKey, connection: ConnectionId) -> Option<ConnectionId> {
        let lane = self.lanes.get_mut(&key)?;
        lane.present.retain(|present| *present != connection);
        if lane.present.is_empty() {
            self.departures += 1;
            lane.left = self.departures;
            if lane.proved {
                self.empty.insert((lane.left, key));
            } else {
                self.lanes.remove(&key);
            }
            return None;
        }
        lane.present.first().copied()
    }

    fn forget_the_oldest(&mut self) {
        while self.empty.len() > EMPTY_MAX {
            if let Some((_, key)) = self.empty.pop_first() {
                self.lanes.remove(&key);
            }
        }
    }
}

/// Connections of one lane that may be finishing at once; more means that something is stuck.
const PRESENT_MAX: usize = 16;

/// Lanes without a connection that are remembered.
const EMPTY_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: LaneKey = LaneKey { client: 7, lane: 0 };
    const FIRST: ConnectionId = ConnectionId(1);
    const SECOND: ConnectionId = ConnectionId(2);

    #[test]
    fn a_newer_incarnation_waits_for_the_older_one() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.enter(LANE, 1, FIRST), Entry::Older(vec![]));
        assert!(lanes.is_first(LANE, FIRST));
        assert_eq!(lanes.enter(LANE, 2, SECOND), Entry::Older(vec![FIRST]));
        assert!(!lanes.is_first(LANE, SECOND));
        assert_eq!(lanes.leave(LANE, FIRST), Some(SECOND));
        assert!(lanes.is_first(LANE, SECOND));
    }

    #[test]
    fn an_incarnation_is_good_once_even_after_it_left() {
        let mut lanes = Lanes::default();
        lanes.enter(LANE, 5, FIRST);
        lanes.prove(LANE);
        assert_eq!(lanes.enter(LANE, 5, SECOND), Entry::Stale);
        lanes.leave(LANE, FIRST);
        assert_eq!(lanes.enter(LANE, 5, SECOND), Entry::Stale);
        assert_eq!(lanes.enter(LANE, 4, SECOND), Entry::Stale);
        assert_eq!(lanes.enter(LANE, 6, SECOND), Entry::Older(vec![]));
    }

    #[test]
    fn strangers_cannot_make_it_forget() {
        let mut lanes = Lanes::default();
        lanes.enter(LANE, 5, FIRST);
        lanes.prove(LANE);
        lanes.leave(LANE, FIRST);
        for client in 100..100 + 2 * EMPTY_MAX as u64 {
            let stranger = LaneKey { client, lane: 0 };
            lanes.enter(stranger, 1, SECOND);
            lanes.leave(stranger, SECOND);
        }
        assert_eq!(lanes.lanes.len(), 1);
        assert_eq!(lanes.enter(LANE, 5, SECOND), Entry::Stale);
    }

    #[test]
    fn memory_is_bounded() {
        let mut lanes = Lanes::default();
        for client in 0..2 * EMPTY_MAX as u64 {
            let key = LaneKey { client, lane: 0 };
            lanes.enter(key, 1, FIRST);
            lanes.prove(key);
            lanes.leave(key, FIRST);
        }
        assert!(lanes.lanes.len() <= EMPTY_MAX + 1);
        for incarnation in 0..100 {
            lanes.enter(LANE, incarnation + 1, ConnectionId(incarnation));
        }
        assert!(lanes.lanes[&LANE].present.len() <= PRESENT_MAX);
    }
}
