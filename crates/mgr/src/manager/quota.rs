//! How many opens a client may have. Counted rarely: each open uses up some of what was left at the last count,
//! and a client that has nothing left has to close many before it is counted again.

use std::collections::HashMap;

use pvfs_wire::Errno;

/// What clients have left.
pub struct OpenQuota {
    opens_max: u32,
    clients: HashMap<u64, Allowance>,
}

struct Allowance {
    /// Opens it may ask for before it is counted again.
    left: u32,
    /// Closes before that, once nothing is left.
    closes_needed: u32,
}

impl Default for OpenQuota {
    fn default() -> Self {
        Self::of(OPENS_MAX)
    }
}

impl OpenQuota {
    /// So many for each client.
    fn of(opens_max: u32) -> Self {
        Self { opens_max, clients: HashMap::new() }
    }

    /// The client asks for one more; EMFILE when it has as many as it may. `count` tells how many it has, and
    /// need not count beyond the number it is given.
    pub fn take(&mut self, client: u64, count: impl FnOnce(usize) -> usize) -> Result<(), Errno> {
        let opens_max = self.opens_max;
        let fresh = || Allowance { left: 0, closes_needed: 0 };
        let allowance = self.clients.entry(client).or_insert_with(fresh);
        if allowance.left == 0 && allowance.closes_needed == 0 {
            allowance.left = opens_max.saturating_sub(count(opens_max as usize) as u32);
            allowance.closes_needed = CLOSES_BEFORE_COUNT.min(opens_max);
        }
        if allowance.left == 0 {
            return Err(Errno::EMFILE);
        }
        allowance.left -= 1;
        if allowance.left == 0 {
            // Most of what it asked for may be closed again: only a count can tell.
            allowance.closes_needed = 0;
        }
        Ok(())
    }

    /// Whether the closes of this client matter.
    pub fn is_exhausted(&self, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|allowance| allowance.left == 0)
    }

    /// The client closes.
    pub fn closed(&mut self, client: u64, opens: usize) {
        if let Some(allowance) = self.clients.get_mut(&client) {
            let opens = u32::try_from(opens).unwrap_or(u32::MAX);
            allowance.closes_needed = allowance.closes_needed.saturating_sub(opens);
        }
    }

    /// The client is gone.
    pub fn forget(&mut self, client: u64) {
        self.clients.remove(&client);
    }
}

/// No program has so many, and a mount hardly.
const OPENS_MAX: u32 = 256 << 10;
/// So that a client at its limit does not have everything counted for each open.
const CLOSES_BEFORE_COUNT: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A client with its opens, and how often they were counted.
    #[derive(Default)]
    struct Client {
        opens: usize,
        counts: usize,
    }

    impl Client {
        fn open(&mut self, quota: &mut OpenQuota) -> bool {
            let taken = quota.take(7, |most| {
                self.counts += 1;
                self.opens.min(most)
            });
            self.opens += usize::from(taken.is_ok());
            taken.is_ok()
        }

        fn close(&mut self, quota: &mut OpenQuota, opens: usize) {
            self.opens -= opens;
            quota.closed(7, opens);
        }
    }

    #[test]
    fn no_client_ever_has_more_and_each_may_have_as_many() {
        let (mut quota, mut client) = (OpenQuota::of(5000), Client::default());
        while client.open(&mut quota) {}
        assert_eq!(client.opens, 5000);
        assert!(quota.is_exhausted(7));
        assert!((0..1000).all(|_| !client.open(&mut quota)));
        client.close(&mut quota, 1023);
        assert!(!client.open(&mut quota), "not before many are closed");
        client.close(&mut quota, 1);
        while client.open(&mut quota) {}
        assert_eq!(client.opens, 5000);
        assert!(client.counts < 10, "{} counts", client.counts);
    }

    #[test]
    fn who_closes_what_it_opens_goes_on_for_ever() {
        let (mut quota, mut client) = (OpenQuota::of(5000), Client::default());
        for _ in 0..100_000 {
            assert!(client.open(&mut quota));
            client.close(&mut quota, 1);
        }
        assert!(client.counts <= 21, "{} counts", client.counts);
    }

    #[test]
    fn what_a_client_had_before_a_restart_counts() {
        let mut quota = OpenQuota::of(5000);
        let mut client = Client { opens: 4999, counts: 0 };
        assert!(client.open(&mut quota));
        assert!(!client.open(&mut quota));
        quota.forget(7);
        assert_eq!(quota.clients.len(), 0);
    }
}
