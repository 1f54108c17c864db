//! Which thread of a daemon serves which of its busy connections.
//!
//! Those few that are busy are dealt to the threads in turn, in the order of their lanes. All daemons that a client
//! talks to come to the same order, so where they share a node, the threads that serve a client are the same in each
//! of them, and stay with it on one processor. Many are only kept evenly many: whoever comes or goes would change the
//! places of all behind it, and processors are never idle anyway.

use crate::gate::lanes::LaneKey;

/// What the thread `own` should give to which other one, when these lanes are busy on each of them.
pub fn moves(busy: &[Vec<LaneKey>], own: usize) -> Vec<(LaneKey, usize)> {
    let mut all: Vec<LaneKey> = busy.concat();
    if all.len() > FEW * busy.len() {
        return surplus(busy, own);
    }
    all.sort_unstable();
    let dealt = all.iter().enumerate().map(|(rank, lane)| (*lane, rank % busy.len()));
    dealt.filter(|(lane, to)| *to != own && busy[own].contains(lane)).collect()
}

/// Half of what it has more than the one that has the fewest, or as many of them as others need not wait for.
fn surplus(busy: &[Vec<LaneKey>], own: usize) -> Vec<(LaneKey, usize)> {
    let idlest = (0..busy.len()).min_by_key(|index| busy[*index].len()).unwrap_or(own);
    let count = (busy[own].len() - busy[idlest].len()) / 2;
    busy[own].iter().take(count.min(AT_ONCE_MAX)).map(|lane| (*lane, idlest)).collect()
}

/// Connections of each thread that are few.
const FEW: usize = 4;

/// Connections that go in one turn: each is looked for among all that a thread has.
const AT_ONCE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lane(client: u64) -> LaneKey {
        LaneKey { client, lane: 0 }
    }

    /// All threads in turn do what they should.
    fn settle(busy: &mut [Vec<LaneKey>]) {
        for own in 0..busy.len() {
            for (lane, to) in moves(busy, own) {
                busy[own].retain(|kept| *kept != lane);
                busy[to].push(lane);
            }
        }
    }

    /// Clients of three threads.
    fn scattered(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<LaneKey>>> {
        proptest::collection::btree_map(any::<u64>(), 0..3usize, count).prop_map(|clients| {
            let of = |thread| clients.iter().filter(move |(_, at)| **at == thread);
            (0..3).map(|thread| of(thread).map(|(client, _)| lane(*client)).collect()).collect()
        })
    }

    proptest! {
        /// However they were scattered, daemons come to the same, and nothing moves any more.
        #[test]
        fn few_are_dealt_alike(mut busy in scattered(0..13)) {
            let mut other = vec![Vec::new(), busy.concat(), Vec::new()];
            settle(&mut busy);
            settle(&mut other);
            busy.iter_mut().chain(&mut other).for_each(|lanes| lanes.sort_unstable());
            prop_assert_eq!(&busy, &other);
            let counts = busy.iter().map(Vec::len);
            prop_assert!(counts.clone().max().unwrap() - counts.min().unwrap() <= 1);
            prop_assert!((0..3).all(|own| moves(&busy, own).is_empty()));
        }

        /// Many become evenly many in a few turns, and then stay.
        #[test]
        fn many_are_evened_out(mut busy in scattered(13..200)) {
            (0..10).for_each(|_| settle(&mut busy));
            let counts = busy.iter().map(Vec::len);
            prop_assert!(counts.clone().max().unwrap() - counts.min().unwrap() <= 1);
            prop_assert!((0..3).all(|own| moves(&busy, own).is_empty()));
        }
    }
}
