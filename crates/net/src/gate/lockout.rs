//! Whoever shows bad tokens again and again is not listened to for a while.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::Origin;
use crate::runtime::Instant;

/// Offences by origin, in a table of bounded size.
#[derive(Default)]
pub struct Lockouts {
    records: HashMap<Origin, Record>,
    count: u64,
}

#[derive(Default)]
struct Record {
    offences: VecDeque<Instant>,
    locked_until: Instant,
    time_next: Option<Duration>,
}

impl Lockouts {
    /// Notes a bad token; when it was one too many, for how long the origin is locked out.
    pub fn offence(&mut self, origin: Origin, now: Instant) -> Option<Duration> {
        self.make_room(now);
        let record = self.records.entry(key(origin)).or_default();
        record.offences.push_back(now);
        record.forget_before(now);
        if record.offences.len() < OFFENCES_MAX {
            return None;
        }
        let time = record.time_next.unwrap_or(TIME_FIRST);
        record.offences.clear();
        record.locked_until = now.after(time);
        record.time_next = Some((time * 2).min(TIME_MAX));
        self.count += 1;
        Some(time)
    }

    /// Whether nothing is accepted from there now.
    pub fn is_locked_out(&self, origin: Origin, now: Instant) -> bool {
        self.records.get(&key(origin)).is_some_and(|record| now < record.locked_until)
    }

    /// Lockouts since the start.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A full table first forgets those who behaved for an hour, then whoever offended longest ago.
    fn make_room(&mut self, now: Instant) {
        if self.records.len() < RECORDS_MAX {
            return;
        }
        self.records.retain(|_, record| now < record.last_seen().after(TIME_MAX));
        if self.records.len() >= RECORDS_MAX
            && let Some(oldest) = self.records.iter().min_by_key(|(_, record)| record.last_seen())
        {
            let oldest = *oldest.0;
            self.records.remove(&oldest);
        }
    }
}

impl Record {
    fn forget_before(&mut self, now: Instant) {
        while self.offences.front().is_some_and(|then| then.after(WINDOW) < now) {
            self.offences.pop_front();
        }
        // A good hour later the next lockout is a first one again.
        if self.locked_until.after(TIME_MAX) < now {
            self.time_next = None;
        }
    }

    fn last_seen(&self) -> Instant {
        self.offences.back().copied().unwrap_or_default().max(self.locked_until)
    }
}

/// One IPv6 host has a whole /64 to hop about in: it is one offender.
fn key(origin: Origin) -> Origin {
    match origin {
        Origin::Ip(std::net::IpAddr::V6(address)) => {
            Origin::Ip(std::net::Ipv6Addr::from(u128::from(address) >> 64 << 64).into())
        }
        other => other,
    }
}

const OFFENCES_MAX: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
const TIME_FIRST: Duration = Duration::from_secs(60);
const TIME_MAX: Duration = Duration::from_secs(3600);
const RECORDS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Origin = Origin::Unix { uid: 1000 };

    fn second(count: u64) -> Instant {
        Instant(count * 1_000_000_000)
    }

    fn offend(lockouts: &mut Lockouts, from_s: u64) -> Option<Duration> {
        (0..10).filter_map(|step| lockouts.offence(HERE, second(from_s + step))).next()
    }

    #[test]
    fn ten_offences_in_a_minute_lock_out_and_each_time_for_longer() {
        let mut lockouts = Lockouts::default();
        let mut at_s = 1000;
        for time_s in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            assert_eq!(offend(&mut lockouts, at_s), Some(Duration::from_secs(time_s)));
            assert!(lockouts.is_locked_out(HERE, second(at_s + 9 + time_s - 1)));
            assert!(!lockouts.is_locked_out(HERE, second(at_s + 9 + time_s)));
            at_s += 9 + time_s;
        }
        assert_eq!(offend(&mut lockouts, at_s + 2 * 3600), Some(TIME_FIRST));
        assert_eq!(lockouts.count(), 9);
    }

    #[test]
    fn offences_spread_out_are_forgiven() {
        let mut lockouts = Lockouts::default();
        for step in 0..100 {
            assert_eq!(lockouts.offence(HERE, second(step * 7)), None);
        }
    }

    #[test]
    fn the_table_is_bounded_and_neighbours_are_not_punished() {
        let mut lockouts = Lockouts::default();
        offend(&mut lockouts, 0);
        for uid in 0..10_000 {
            lockouts.offence(Origin::Unix { uid: 2000 + uid }, second(10));
        }
        assert!(lockouts.records.len() <= RECORDS_MAX);
        assert!(!lockouts.is_locked_out(Origin::Unix { uid: 2001 }, second(11)));
    }
}
