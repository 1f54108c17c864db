//! Orders to stop, estop and resume: signed by the cluster, young, and carried out once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pvfs_wire::Errno;
use pvfs_wire::ops::Order;
use pvfs_wire::token::KeyRing;

/// The orders seen lately.
#[derive(Default)]
pub struct Orders {
    /// When each was issued, by its nonce.
    seen: Mutex<HashMap<u64, u64>>,
}

impl Orders {
    /// The order of a token, if it is to be carried out now; nothing when it was before.
    pub fn accept(&self, ring: &KeyRing, token: &[u8], now_s: u64) -> Result<Option<Order>, Errno> {
        let order: Order = ring.check_order(token).map_err(|_| Errno::EKEYREJECTED)?;
        if order.issued.abs_diff(now_s) > AGE_MAX_S {
            return Err(Errno::EKEYEXPIRED);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, issued| issued.abs_diff(now_s) <= AGE_MAX_S);
        if seen.len() >= SEEN_MAX {
            return Err(Errno::EAGAIN);
        }
        let fresh = seen.insert(order.nonce, order.issued).is_none();
        Ok(fresh.then_some(order))
    }
}

/// Older ones, or ones from further in the future, are refused.
const AGE_MAX_S: u64 = 60;
/// More orders within a minute are no administrator's.
const SEEN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_wire::ops::OrderKind;

    const NOW_S: u64 = 1_000_000;

    fn ring() -> KeyRing {
        KeyRing::new(&[[1; 32]])
    }

    fn signed(issued: u64, nonce: u64) -> Vec<u8> {
        ring().sign_order(&Order { kind: OrderKind::Estop, issued, nonce })
    }

    #[test]
    fn an_order_is_carried_out_once() {
        let orders = Orders::default();
        let token = signed(NOW_S, 1);
        assert!(matches!(orders.accept(&ring(), &token, NOW_S), Ok(Some(_))));
        assert_eq!(orders.accept(&ring(), &token, NOW_S + 1), Ok(None));
        assert!(matches!(orders.accept(&ring(), &signed(NOW_S, 2), NOW_S), Ok(Some(_))));
    }

    #[test]
    fn old_future_and_forged_orders_are_refused() {
        let orders = Orders::default();
        let expired = Err(Errno::EKEYEXPIRED);
        assert_eq!(orders.accept(&ring(), &signed(NOW_S - 61, 1), NOW_S), expired);
        assert_eq!(orders.accept(&ring(), &signed(NOW_S + 61, 1), NOW_S), expired);
        let other = KeyRing::new(&[[2; 32]]);
        assert_eq!(orders.accept(&other, &signed(NOW_S, 1), NOW_S), Err(Errno::EKEYREJECTED));
    }

    #[test]
    fn memory_of_orders_is_bounded() {
        let orders = Orders::default();
        for nonce in 0..SEEN_MAX as u64 {
            orders.accept(&ring(), &signed(NOW_S, nonce), NOW_S).unwrap();
        }
        let one_more = |now_s| orders.accept(&ring(), &signed(now_s, 1 << 40), now_s);
        assert_eq!(one_more(NOW_S), Err(Errno::EAGAIN));
        assert!(one_more(NOW_S + 61).is_ok());
    }
}
