//! The right to touch an object: shown once per connection, then a number.
//!
//! A token is verified (HMAC) when it is shown; after that only its expiry, its rights and whose it is are
//! compared. The table is bounded; what had to go is answered ENOKEY and shown again by the client.

use std::sync::Arc;

use pvfs_wire::Errno;
use pvfs_wire::ops::Access;
use pvfs_wire::token::{CLOCK_SKEW_S, Capability, Holder, KeyRing, Rights, Session, TokenError};

use crate::recent::Recent;

/// The capabilities shown on one connection.
pub struct CapabilityTable {
    held: Recent<u32, Held>,
    token_bytes: usize,
}

struct Held {
    capability: Arc<Capability>,
    token_bytes: usize,
}

/// Who asks, when.
pub struct Asker<'a> {
    /// The keys that capabilities are signed with.
    pub ring: &'a KeyRing,
    /// On whose behalf.
    pub session: &'a Session,
    /// Unix seconds.
    pub now_s: u64,
}

impl Default for CapabilityTable {
    fn default() -> Self {
        Self { held: Recent::new(CAPABILITIES_MAX), token_bytes: 0 }
    }
}

impl CapabilityTable {
    /// The capability of a request, if it gives any of these rights now.
    ///
    /// Errors: ENOKEY show the token (again); EKEYREJECTED forged; EKEYEXPIRED get a new one from the
    /// manager; EACCES it does not allow this.
    pub fn grant(
        &mut self,
        access: &Access,
        asker: &Asker<'_>,
        rights: Rights,
    ) -> Result<Arc<Capability>, Errno> {
        if let Some(token) = &access.token {
            self.show(access.number, token, asker)?;
        }
        let capability = &self.held.get(&access.number).ok_or(Errno::ENOKEY)?.capability;
        check_time(capability, asker.now_s)?;
        check_owner(capability, asker.session)?;
        if capability.rights.any(rights) { Ok(Arc::clone(capability)) } else { Err(Errno::EACCES) }
    }

    fn show(&mut self, number: u32, token: &[u8], asker: &Asker<'_>) -> Result<(), Errno> {
        let checked = asker.ring.check_capability(token, asker.now_s);
        let capability = Arc::new(checked.map_err(refusal)?);
        let token_bytes = token.len();
        self.token_bytes += token_bytes;
        let replaced = self.held.insert(number, Held { capability, token_bytes });
        self.token_bytes -= replaced.map_or(0, |held| held.token_bytes);
        while self.token_bytes > TOKEN_BYTES_MAX {
            let Some(evicted) = self.held.evict(Some(number)) else { break };
            self.token_bytes -= evicted.token_bytes;
        }
        Ok(())
    }
}

/// The capability that a token is, for requests that need a second one: it is not kept.
pub fn check_shown(token: &[u8], asker: &Asker<'_>, rights: Rights) -> Result<Capability, Errno> {
    let capability = asker.ring.check_capability(token, asker.now_s).map_err(refusal)?;
    check_owner(&capability, asker.session)?;
    if capability.rights.any(rights) { Ok(capability) } else { Err(Errno::EACCES) }
}

fn check_time(capability: &Capability, now_s: u64) -> Result<(), Errno> {
    let late = capability.expiry.saturating_add(CLOCK_SKEW_S) < now_s;
    if late { Err(Errno::EKEYEXPIRED) } else { Ok(()) }
}

/// A capability is worth nothing in other hands. It is answered as if it were expired, for the honest
/// cause is that the session was renewed, and then so must be the capability.
fn check_owner(capability: &Capability, session: &Session) -> Result<(), Errno> {
    let admitted = capability.holder.admits(session.id, session.uid, |group| session.is_in(group));
    match capability.holder {
        _ if admitted => Ok(()),
        Holder::Session(_) => Err(Errno::EKEYEXPIRED),
        _ => Err(Errno::EACCES),
    }
}

fn refusal(error: TokenError) -> Errno {
    match error {
        TokenError::Expired => Errno::EKEYEXPIRED,
        TokenError::Forged | TokenError::FromTheFuture => Errno::EKEYREJECTED,
    }
}

/// Files a client can use in turn on one connection without showing a capability again.
const CAPABILITIES_MAX: usize = 4096;
/// A capability is some hundred bytes, unless its file is dealt by a long list of strips.
const TOKEN_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_layout::Dist;
    use pvfs_wire::Handle;
    use pvfs_wire::token::SessionRights;

    const NOW_S: u64 = 1_000_000;

    fn ring() -> KeyRing {
        KeyRing::new(&[[1; 32]])
    }

    fn session(id: u64) -> Session {
        let (uid, gid, gids) = (1000, 100, Vec::new());
        let rights = SessionRights::NONE;
        Session { id, uid, gid, gids, rights, issued: 0, expiry: u64::MAX }
    }

    fn capability(rights: Rights) -> Capability {
        Capability {
            handle: Handle::root(1, 1),
            rights,
            dist: Dist::simple_stripe(64 << 10, 4).unwrap(),
            holder: Holder::Session(5),
            layout_epoch: 0,
            expiry: NOW_S + 600,
        }
    }

    fn shown(number: u32, capability: &Capability) -> Access {
        Access { number, token: Some(ring().sign_capability(capability).into()) }
    }

    fn referred(number: u32) -> Access {
        Access { number, token: None }
    }

    fn ask(
        table: &mut CapabilityTable,
        access: &Access,
        (session_id, now_s): (u64, u64),
        rights: Rights,
    ) -> Result<(), Errno> {
        let (ring, session) = (ring(), session(session_id));
        let asker = Asker { ring: &ring, session: &session, now_s };
        table.grant(access, &asker, rights).map(|_| ())
    }

    #[test]
    fn shown_once_it_is_known_by_its_number() {
        let mut table = CapabilityTable::default();
        let asking = (5, NOW_S);
        assert_eq!(ask(&mut table, &referred(3), asking, Rights::READ), Err(Errno::ENOKEY));
        let access = shown(3, &capability(Rights::READ));
        assert_eq!(ask(&mut table, &access, asking, Rights::READ), Ok(()));
        assert_eq!(ask(&mut table, &referred(3), asking, Rights::READ), Ok(()));
        assert_eq!(ask(&mut table, &referred(4), asking, Rights::READ), Err(Errno::ENOKEY));
    }

    #[test]
    fn it_allows_what_it_says_and_nothing_else() {
        for (held, wanted, expected) in [
            (Rights::READ, Rights::READ, Ok(())),
            (Rights::READ, Rights::WRITE, Err(Errno::EACCES)),
            (Rights::WRITE, Rights::READ, Err(Errno::EACCES)),
            (Rights::TRUNCATE, Rights::TRUNCATE | Rights::WRITE, Ok(())),
            (Rights::WRITE, Rights::TRUNCATE | Rights::WRITE, Ok(())),
            (Rights::NONE, Rights::READ, Err(Errno::EACCES)),
        ] {
            let mut table = CapabilityTable::default();
            let outcome = ask(&mut table, &shown(1, &capability(held)), (5, NOW_S), wanted);
            assert_eq!(outcome, expected, "{held:?} for {wanted:?}");
        }
    }

    #[test]
    fn its_time_ends_while_it_is_held() {
        let mut table = CapabilityTable::default();
        let access = shown(1, &capability(Rights::READ));
        assert_eq!(ask(&mut table, &access, (5, NOW_S), Rights::READ), Ok(()));
        let last = NOW_S + 600 + CLOCK_SKEW_S;
        assert_eq!(ask(&mut table, &referred(1), (5, last), Rights::READ), Ok(()));
        let expired = Err(Errno::EKEYEXPIRED);
        assert_eq!(ask(&mut table, &referred(1), (5, last + 1), Rights::READ), expired);
        assert_eq!(ask(&mut table, &access, (5, last + 1), Rights::READ), expired);
    }

    #[test]
    fn forged_or_foreign_ones_are_rejected() {
        let mut table = CapabilityTable::default();
        let foreign = KeyRing::new(&[[2; 32]]).sign_capability(&capability(Rights::READ));
        let mut changed = ring().sign_capability(&capability(Rights::READ));
        changed[10] ^= 1;
        for token in [foreign, changed, Vec::new(), vec![0; 500]] {
            let access = Access { number: 1, token: Some(token.into()) };
            let outcome = ask(&mut table, &access, (5, NOW_S), Rights::READ);
            assert_eq!(outcome, Err(Errno::EKEYREJECTED));
            assert_eq!(ask(&mut table, &referred(1), (5, NOW_S), Rights::READ), Err(Errno::ENOKEY));
        }
    }

    #[test]
    fn it_is_worth_nothing_in_other_hands() {
        let mut table = CapabilityTable::default();
        let access = shown(1, &capability(Rights::READ));
        assert_eq!(ask(&mut table, &access, (6, NOW_S), Rights::READ), Err(Errno::EKEYEXPIRED));
        assert_eq!(ask(&mut table, &referred(1), (5, NOW_S), Rights::READ), Ok(()));
    }

    /// The sessions of these tests are of user 1000 in group 100.
    #[test]
    fn a_shared_one_is_good_for_whom_it_names() {
        let held = |holder| Capability { holder, ..capability(Rights::READ) };
        for (holder, expected) in [
            (Holder::User(1000), Ok(())),
            (Holder::User(1001), Err(Errno::EACCES)),
            (Holder::Group(100), Ok(())),
            (Holder::Group(1000), Err(Errno::EACCES)),
            (Holder::Anyone, Ok(())),
        ] {
            let mut table = CapabilityTable::default();
            let outcome = ask(&mut table, &shown(1, &held(holder)), (77, NOW_S), Rights::READ);
            assert_eq!(outcome, expected, "{holder:?}");
        }
    }

    #[test]
    fn a_renewed_one_takes_the_place_of_the_old() {
        let mut table = CapabilityTable::default();
        let old = shown(1, &capability(Rights::READ | Rights::WRITE));
        assert_eq!(ask(&mut table, &old, (5, NOW_S), Rights::WRITE), Ok(()));
        let new = shown(1, &capability(Rights::READ));
        assert_eq!(ask(&mut table, &new, (5, NOW_S), Rights::READ), Ok(()));
        assert_eq!(ask(&mut table, &referred(1), (5, NOW_S), Rights::WRITE), Err(Errno::EACCES));
    }

    #[test]
    fn the_table_is_bounded_in_number_and_bytes() {
        let mut table = CapabilityTable::default();
        let token = ring().sign_capability(&capability(Rights::READ));
        for number in 0..CAPABILITIES_MAX as u32 + 100 {
            let access = Access { number, token: Some(token.clone().into()) };
            ask(&mut table, &access, (5, NOW_S), Rights::READ).unwrap();
        }
        assert_eq!(table.held.len(), CAPABILITIES_MAX);
        assert_eq!(table.token_bytes, CAPABILITIES_MAX * token.len());
        let strips = (0..1000).map(|_| pvfs_layout::distribution::Strip { slot: 0, size: 9 });
        let dist = Dist::varstrip(strips).unwrap();
        let long = Capability { dist, ..capability(Rights::READ) };
        let token = ring().sign_capability(&long);
        for number in 0..1000 {
            let access = Access { number, token: Some(token.clone().into()) };
            ask(&mut table, &access, (5, NOW_S), Rights::READ).unwrap();
        }
        assert!(table.token_bytes <= TOKEN_BYTES_MAX);
    }
}
