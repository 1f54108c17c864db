//! Orders to a daemon: signed by the cluster, of this minute, for this start of the daemon, and carried out once.
//!
//! What was carried out is remembered for as long as it would be taken for fresh, but not beyond the daemon's
//! end; so an order names the start it is for, and a recorded one is worth nothing after the next.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pvfs_wire::Errno;
use pvfs_wire::ops::{Order, OrderKind};
use pvfs_wire::token::{CLOCK_SKEW_S, KeyRing};

/// The orders a daemon took since it was started.
pub struct OrderBook {
    start: u64,
    /// When each was issued, by its nonce.
    seen: Mutex<HashMap<u64, u64>>,
}

impl OrderBook {
    /// Of a daemon that starts now; `start` is random.
    pub fn new(start: u64) -> Self {
        Self { start, seen: Mutex::default() }
    }

    /// What orders must name.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The order of a token, if it is to be carried out now; nothing when it was before, be it resent or
    /// replayed.
    ///
    /// Errors: EKEYREJECTED nobody of this cluster signed it; EKEYEXPIRED it is not of this minute; ESTALE it
    /// is for another start, so ask again; EAGAIN too many; EINVAL it says nothing that could be done.
    pub fn accept(&self, token: &[u8], keys: &KeyRing, now_s: u64) -> Result<Option<Order>, Errno> {
        let order: Order = keys.check_order(token).map_err(|_| Errno::EKEYREJECTED)?;
        if !is_fresh(order.issued, now_s) {
            return Err(Errno::EKEYEXPIRED);
        }
        if order.start != self.start {
            return Err(Errno::ESTALE);
        }
        if (order.kind == OrderKind::Deny) != order.denial.is_some() {
            return Err(Errno::EINVAL);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, issued| is_fresh(*issued, now_s));
        if seen.contains_key(&order.nonce) {
            return Ok(None);
        }
        if seen.len() >= SEEN_MAX {
            return Err(Errno::EAGAIN);
        }
        seen.insert(order.nonce, order.issued);
        Ok(Some(order))
    }
}

fn is_fresh(issued: u64, now_s: u64) -> bool {
    issued.saturating_add(AGE_MAX_S + CLOCK_SKEW_S) >= now_s
        && issued <= now_s.saturating_add(CLOCK_SKEW_S)
}

/// By clocks that may differ by [`CLOCK_SKEW_S`].
const AGE_MAX_S: u64 = 60;
/// Only holders of the cluster key can issue any; more within two minutes are no administrator's.
const SEEN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_wire::ops::Denial;

    const START: u64 = 42;

    fn keys() -> KeyRing {
        KeyRing::new(&[[1; 32]])
    }

    fn order(kind: OrderKind, issued: u64, nonce: u64) -> Order {
        Order { kind, issued, nonce, start: START, denial: None }
    }

    fn signed(kind: OrderKind, issued: u64, nonce: u64) -> Vec<u8> {
        keys().sign_order(&order(kind, issued, nonce))
    }

    #[test]
    fn an_order_is_carried_out_once() {
        let book = OrderBook::new(START);
        let estop = signed(OrderKind::Estop, 1000, 7);
        let taken = book.accept(&estop, &keys(), 1000).unwrap();
        assert_eq!(taken.map(|order| order.kind), Some(OrderKind::Estop));
        assert!(matches!(
            book.accept(&signed(OrderKind::Resume, 1001, 8), &keys(), 1002),
            Ok(Some(_))
        ));
        for now_s in 1000..1300 {
            let again = book.accept(&estop, &keys(), now_s);
            assert!(!matches!(again, Ok(Some(_))), "replayed at {now_s}");
        }
    }

    #[test]
    fn an_order_to_one_start_is_worth_nothing_after_the_next() {
        let estop = signed(OrderKind::Estop, 1000, 7);
        OrderBook::new(START).accept(&estop, &keys(), 1000).unwrap();
        assert_eq!(OrderBook::new(43).accept(&estop, &keys(), 1001), Err(Errno::ESTALE));
    }

    #[test]
    fn orders_of_strangers_and_of_other_times_are_refused() {
        let book = OrderBook::new(START);
        let estop = signed(OrderKind::Estop, 1000, 7);
        let strangers = KeyRing::new(&[[2; 32]]);
        assert_eq!(book.accept(&estop, &strangers, 1000), Err(Errno::EKEYREJECTED));
        assert_eq!(book.accept(&estop[1..], &keys(), 1000), Err(Errno::EKEYREJECTED));
        assert_eq!(book.accept(&estop, &keys(), 1121), Err(Errno::EKEYEXPIRED));
        assert_eq!(book.accept(&estop, &keys(), 939), Err(Errno::EKEYEXPIRED));
        assert!(matches!(book.accept(&estop, &keys(), 940), Ok(Some(_))));
    }

    #[test]
    fn an_order_that_makes_no_sense_is_refused() {
        let denial = Denial { session: None, uid: Some(7), issued_until: 0, expiry: 0 };
        let denial = Some(denial);
        let deny = order(OrderKind::Deny, 1000, 1);
        let stop = Order { denial, ..order(OrderKind::Stop, 1000, 2) };
        for order in [deny, stop] {
            let token = keys().sign_order(&order);
            assert_eq!(OrderBook::new(START).accept(&token, &keys(), 1000), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn memory_for_orders_is_bounded() {
        let book = OrderBook::new(START);
        for nonce in 0..SEEN_MAX as u64 {
            let token = signed(OrderKind::Resume, 1000, nonce);
            assert!(matches!(book.accept(&token, &keys(), 1000), Ok(Some(_))));
        }
        let further = signed(OrderKind::Resume, 1000, u64::MAX);
        assert_eq!(book.accept(&further, &keys(), 1000), Err(Errno::EAGAIN));
        let later = signed(OrderKind::Resume, 1200, u64::MAX);
        assert!(matches!(book.accept(&later, &keys(), 1200), Ok(Some(_))));
    }
}
