//! Stop, estop and resume: signed, fresh, and carried out once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use pvfs_wire::Errno;
use pvfs_wire::ops::{Order, OrderKind};
use pvfs_wire::token::{CLOCK_SKEW_S, KeyRing};

/// What the manager does with requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Serves.
    Serving,
    /// Serves, but opens nothing any more: it is about to exit.
    Stopping,
    /// Answers everything with EIO until resumed.
    Stopped,
}

/// The mode, and the orders carried out lately.
#[derive(Debug, Default)]
pub struct Orders {
    mode: AtomicU8,
    /// Unix seconds of issue, and nonce.
    seen: Mutex<VecDeque<(u64, u64)>>,
}

impl Orders {
    /// What to do with requests.
    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Serving,
            1 => Mode::Stopping,
            _ => Mode::Stopped,
        }
    }

    /// Goes over to another mode.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Release);
    }

    /// What the signed order says, the first time it is shown. EKEYREJECTED when nobody of this
    /// cluster signed it, EKEYEXPIRED when it is not of this minute, EALREADY when it was shown before.
    pub fn accept(&self, token: &[u8], keys: &KeyRing, now_s: u64) -> Result<OrderKind, Errno> {
        let order: Order = keys.check_order(token).map_err(|_| Errno::EKEYREJECTED)?;
        let fresh = order.issued.saturating_add(LIFETIME_S) >= now_s
            && order.issued <= now_s.saturating_add(CLOCK_SKEW_S);
        if !fresh {
            return Err(Errno::EKEYEXPIRED);
        }
        self.note(&order, now_s)?;
        Ok(order.kind)
    }

    fn note(&self, order: &Order, now_s: u64) -> Result<(), Errno> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|(issued, _)| issued.saturating_add(LIFETIME_S) >= now_s);
        if seen.iter().any(|(_, nonce)| *nonce == order.nonce) {
            return Err(Errno::EALREADY);
        }
        if seen.len() >= ORDERS_MAX {
            return Err(Errno::EAGAIN);
        }
        seen.push_back((order.issued, order.nonce));
        Ok(())
    }
}

/// An order is good for a minute, by clocks that may differ by another one.
const LIFETIME_S: u64 = 60 + CLOCK_SKEW_S;

/// Orders in two minutes; only holders of the cluster key can issue any.
const ORDERS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn order(kind: OrderKind, issued: u64, nonce: u64) -> Vec<u8> {
        KeyRing::new(&[[1; 32]]).sign_order(&Order { kind, issued, nonce })
    }

    #[test]
    fn an_order_is_carried_out_once() {
        let (orders, keys) = (Orders::default(), KeyRing::new(&[[1; 32]]));
        let estop = order(OrderKind::Estop, 1000, 7);
        assert_eq!(orders.accept(&estop, &keys, 1000), Ok(OrderKind::Estop));
        assert_eq!(orders.accept(&estop, &keys, 1000), Err(Errno::EALREADY));
        let resume = order(OrderKind::Resume, 1001, 8);
        assert_eq!(orders.accept(&resume, &keys, 1002), Ok(OrderKind::Resume));
        for now_s in 1000..1300 {
            assert!(orders.accept(&estop, &keys, now_s).is_err(), "replayed at {now_s}");
        }
    }

    #[test]
    fn orders_of_strangers_and_of_other_times_are_refused() {
        let (orders, keys) = (Orders::default(), KeyRing::new(&[[1; 32]]));
        let strangers = KeyRing::new(&[[2; 32]]);
        let estop = order(OrderKind::Estop, 1000, 7);
        assert_eq!(orders.accept(&estop, &strangers, 1000), Err(Errno::EKEYREJECTED));
        assert_eq!(orders.accept(&estop[1..], &keys, 1000), Err(Errno::EKEYREJECTED));
        assert_eq!(orders.accept(&estop, &keys, 1121), Err(Errno::EKEYEXPIRED));
        assert_eq!(orders.accept(&estop, &keys, 939), Err(Errno::EKEYEXPIRED));
        assert_eq!(orders.accept(&estop, &keys, 940), Ok(OrderKind::Estop));
    }

    #[test]
    fn memory_for_orders_is_bounded() {
        let (orders, keys) = (Orders::default(), KeyRing::new(&[[1; 32]]));
        for nonce in 0..ORDERS_MAX as u64 {
            let token = order(OrderKind::Resume, 1000, nonce);
            assert_eq!(orders.accept(&token, &keys, 1000), Ok(OrderKind::Resume));
        }
        let further = order(OrderKind::Resume, 1000, u64::MAX);
        assert_eq!(orders.accept(&further, &keys, 1000), Err(Errno::EAGAIN));
        let later = order(OrderKind::Resume, 1200, u64::MAX);
        assert_eq!(orders.accept(&later, &keys, 1200), Ok(OrderKind::Resume));
    }
}
