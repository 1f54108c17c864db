//! Sessions that are not believed any more, although they are signed and in time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use pvfs_wire::Errno;
use pvfs_wire::ops::Denial;
use pvfs_wire::token::{CLOCK_SKEW_S, Session};

/// The denials, and how often they changed.
#[derive(Default)]
pub struct Denials {
    list: RwLock<Vec<Denial>>,
    changes: AtomicU64,
}

impl Denials {
    /// Denies from now on. ENOSPC when there are too many that have not expired.
    pub fn add(&self, denial: Denial, now_s: u64) -> Result<(), Errno> {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|known| !is_over(known, now_s) && *known != denial);
        if list.len() >= DENIALS_MAX {
            return Err(Errno::ENOSPC);
        }
        list.push(denial);
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Whether this session is denied.
    pub fn cover(&self, session: &Session) -> bool {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.iter().any(|denial| denial.covers(session))
    }

    /// Grows with every denial, for those who keep sessions that were believed before.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Those in force.
    pub fn list(&self) -> Vec<Denial> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn is_over(denial: &Denial, now_s: u64) -> bool {
    denial.expiry.saturating_add(CLOCK_SKEW_S) < now_s
}

/// Each is looked at for every new session.
const DENIALS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_wire::token::SessionRights;

    fn session(id: u64, uid: u32, issued: u64) -> Session {
        let (gid, gids, rights) = (uid, Vec::new(), SessionRights::NONE);
        Session { id, uid, gid, gids, rights, issued, expiry: issued + 100 }
    }

    fn denial(session: Option<u64>, uid: Option<u32>) -> Denial {
        Denial { session, uid, issued_until: 1000, expiry: 1100 }
    }

    #[test]
    fn a_user_is_denied_what_was_issued_so_far_and_nobody_else_anything() {
        let denials = Denials::default();
        denials.add(denial(None, Some(7)), 1000).unwrap();
        assert!(denials.cover(&session(1, 7, 1000)));
        assert!(!denials.cover(&session(1, 7, 1001)), "a new session is another matter");
        assert!(!denials.cover(&session(1, 8, 1000)));
        denials.add(denial(Some(3), None), 1000).unwrap();
        assert!(denials.cover(&session(3, 8, 900)));
        assert!(!denials.cover(&session(4, 8, 900)));
    }

    #[test]
    fn a_denial_of_nobody_in_particular_denies_nobody() {
        let denials = Denials::default();
        denials.add(denial(None, None), 1000).unwrap();
        assert!(!denials.cover(&session(1, 7, 900)));
    }

    #[test]
    fn the_list_is_bounded_and_forgets_what_has_expired() {
        let denials = Denials::default();
        for id in 0..DENIALS_MAX as u64 {
            denials.add(denial(Some(id), None), 1000).unwrap();
            denials.add(denial(Some(id), None), 1000).unwrap();
        }
        let further = denial(Some(u64::MAX), None);
        assert_eq!(denials.add(further.clone(), 1000), Err(Errno::ENOSPC));
        denials.add(further, 1161).unwrap();
        assert_eq!(denials.list().len(), 1);
    }
}
