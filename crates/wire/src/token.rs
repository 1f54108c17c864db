//! Sessions and capabilities: what a daemon believes without asking anyone.
//!
//! Both are a record followed by an HMAC-SHA256 under a key derived from a cluster key. Whoever holds
//! the cluster key (agents, managers, iods) can issue and check them; nobody else can make one up.
//!
//! ```text
//! cluster key --"session"-----> key of session tokens
//!             --"proof"-------> per token: the secret its owner proves at auth (never sent)
//!             --"capability"--> key of capabilities
//!             --"order"-------> key of stop, estop and resume orders
//!             --"group"-------> key of group handles
//! ```
//!
//! A key ring holds several cluster keys so that one can be rolled: the first signs, all are accepted.

use hmac::{Hmac, KeyInit, Mac};
use pvfs_layout::Dist;
use sha2::{Digest, Sha256};

use crate::codec::{Bytes, Reader, Wire};
use crate::error::DecodeError;
use crate::handle::Handle;
use crate::{bits, record};

/// A message authentication code.
pub type Code = [u8; 32];

/// A cluster key, ready for use.
#[derive(Clone)]
pub struct Key {
    id: u32,
    session: Hmac<Sha256>,
    proof: Hmac<Sha256>,
    capability: Hmac<Sha256>,
    order: Hmac<Sha256>,
    group: Hmac<Sha256>,
}

/// The cluster keys accepted now; the first one signs.
#[derive(Clone)]
pub struct KeyRing {
    keys: Vec<Key>,
}

record! {
    /// Who is asking: issued by an agent, believed by every daemon.
    pub struct Session {
        /// Random; names the session in deny lists and logs.
        pub id: u64,
        /// User.
        pub uid: u32,
        /// Primary group.
        pub gid: u32,
        /// Supplementary groups.
        pub gids: Vec<u32>,
        /// What else the session may do.
        pub rights: SessionRights,
        /// Unix seconds of issue.
        pub issued: u64,
        /// Unix seconds after which it is refused.
        pub expiry: u64,
    }
}

bits! {
    /// Rights of a session beyond its user's.
    pub struct SessionRights {
        /// A daemon of the cluster: may remove objects.
        DAEMON = 1,
        /// May stop, estop and resume.
        ADMIN = 2,
    }
}

record! {
    /// What an open allows, checked by iods without asking anyone.
    pub struct Capability {
        /// The object.
        pub handle: Handle,
        /// What may be done.
        pub rights: Rights,
        /// How the file is dealt, so that requests need not say it.
        pub dist: Dist,
        /// To whom it was issued.
        pub holder: Holder,
        /// Grows when the file's layout changes; older ones are refused then.
        pub layout_epoch: u32,
        /// Unix seconds after which it is refused.
        pub expiry: u64,
    }
}

/// In whose hands a capability is worth something.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Holder {
    /// Those of one session.
    Session(u64),
    /// Those of any session of a user.
    User(u32),
    /// Those of any session of a user in a group.
    Group(u32),
    /// Anyone's who has a session.
    Anyone,
}

impl Holder {
    /// Whether the owner of this session is meant.
    pub fn admits(self, session: u64, uid: u32, is_in: impl FnOnce(u32) -> bool) -> bool {
        match self {
            Self::Session(id) => id == session,
            Self::User(id) => id == uid,
            Self::Group(id) => is_in(id),
            Self::Anyone => true,
        }
    }
}

impl Session {
    /// Whether its user is in `group`.
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.gids.contains(&group)
    }
}

impl Wire for Holder {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, id) = match *self {
            Self::Session(id) => (0u8, id),
            Self::User(id) => (1, u64::from(id)),
            Self::Group(id) => (2, u64::from(id)),
            Self::Anyone => (3, 0),
        };
        kind.put(out);
        id.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, id) = (u8::get(from)?, u64::get(from)?);
        let small = || u32::try_from(id).map_err(|_| DecodeError::Value);
        match kind {
            0 => Ok(Self::Session(id)),
            1 => Ok(Self::User(small()?)),
            2 => Ok(Self::Group(small()?)),
            3 if id == 0 => Ok(Self::Anyone),
            _ => Err(DecodeError::Value),
        }
    }
}

bits! {
    /// What a capability allows.
    pub struct Rights {
        /// Read data.
        READ = 1,
        /// Write and sync data.
        WRITE = 2,
        /// Cut or extend.
        TRUNCATE = 4,
    }
}

/// Why a token was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TokenError {
    /// Not a token at all, or signed by nobody we trust.
    #[error(
        "token was not signed with a key of this cluster; is the key file the same on every node?"
    )]
    Forged,
    /// Its time is over.
    #[error("token expired; ask the agent for a new one")]
    Expired,
    /// It is from the future, beyond what clocks may differ.
    #[error(
        "token was issued in the future; check the clocks (they may differ by {CLOCK_SKEW_S} s)"
    )]
    FromTheFuture,
}

impl Key {
    /// Derives what is needed from the secret of the key file.
    pub fn new(secret: &[u8; 32]) -> Self {
        let master = hmac(secret);
        let derive = |purpose: &[u8]| hmac(&code(&master, &[purpose]));
        let digest = Sha256::digest(secret);
        Self {
            id: u32::from_le_bytes(digest[..4].try_into().expect("four bytes")),
            session: derive(b"session"),
            proof: derive(b"proof"),
            capability: derive(b"capability"),
            order: derive(b"order"),
            group: derive(b"group"),
        }
    }
}

impl KeyRing {
    /// A ring of at least one secret; the first signs.
    pub fn new(secrets: &[[u8; 32]]) -> Self {
        assert!(!secrets.is_empty(), "a key ring without a key can sign nothing");
        Self { keys: secrets.iter().map(Key::new).collect() }
    }

    /// Signs a session into the token its owner shows.
    pub fn sign_session(&self, session: &Session) -> Vec<u8> {
        sign(&self.keys[0], |key| &key.session, session)
    }

    /// The session of a token, when a key of the ring signed it and its time is right.
    pub fn check_session(&self, token: &[u8], now_s: u64) -> Result<Session, TokenError> {
        let session: Session = self.open(token, |key| &key.session)?;
        if session.issued > now_s + CLOCK_SKEW_S {
            return Err(TokenError::FromTheFuture);
        }
        in_time(session.expiry, now_s)?;
        Ok(session)
    }

    /// The secret that only the owner of `token` and the daemons know.
    pub fn session_secret(&self, token: &[u8]) -> Result<Code, TokenError> {
        let key = self.key_of(token)?;
        Ok(code(&key.proof, &[token]))
    }

    /// Signs a capability.
    pub fn sign_capability(&self, capability: &Capability) -> Vec<u8> {
        sign(&self.keys[0], |key| &key.capability, capability)
    }

    /// The capability of a token, when a key of the ring signed it and its time is right.
    pub fn check_capability(&self, token: &[u8], now_s: u64) -> Result<Capability, TokenError> {
        let capability: Capability = self.open(token, |key| &key.capability)?;
        in_time(capability.expiry, now_s)?;
        Ok(capability)
    }

    /// Signs a stop, estop or resume order.
    pub fn sign_order<T: Wire>(&self, order: &T) -> Vec<u8> {
        sign(&self.keys[0], |key| &key.order, order)
    }

    /// The order, when a key of the ring signed it.
    pub fn check_order<T: Wire>(&self, token: &[u8]) -> Result<T, TokenError> {
        self.open(token, |key| &key.order)
    }

    /// What makes a group handle good: the key's id and its code for the handle's bytes.
    pub fn seal_group(&self, handle: &[u8]) -> Vec<u8> {
        let key = &self.keys[0];
        let mut seal = key.id.to_bytes();
        let mac = code(&key.group, &[handle, &seal]);
        seal.extend_from_slice(&mac);
        seal
    }

    /// Whether a key of the ring made this seal for these bytes.
    pub fn check_group(&self, handle: &[u8], seal: &[u8]) -> Result<(), TokenError> {
        let key = self.key_of(seal)?;
        let (id, mac) = seal.split_at(KEY_ID_BYTES);
        verify(&key.group, &[handle, id], mac)
    }

    fn open<T: Wire>(
        &self,
        token: &[u8],
        purpose: impl Fn(&Key) -> &Hmac<Sha256>,
    ) -> Result<T, TokenError> {
        let key = self.key_of(token)?;
        let (signed, mac) = token.split_at(token.len() - CODE_BYTES);
        verify(purpose(key), &[signed], mac)?;
        T::from_bytes(&signed[KEY_ID_BYTES..]).map_err(|_| TokenError::Forged)
    }

    fn key_of(&self, token: &[u8]) -> Result<&Key, TokenError> {
        if token.len() < KEY_ID_BYTES + CODE_BYTES {
            return Err(TokenError::Forged);
        }
        let id = u32::get(&mut Reader::new(token)).map_err(|_| TokenError::Forged)?;
        self.keys.iter().find(|key| key.id == id).ok_or(TokenError::Forged)
    }
}

/// What the owner of a session shows at auth: that it knows the secret, for this connection only.
pub fn client_proof(secret: &Code, client_nonce: &Nonce, server_nonce: &Nonce) -> Code {
    code(&hmac(secret), &[b"client", client_nonce, server_nonce])
}

/// What the daemon shows in return: that it holds the cluster key.
pub fn server_proof(secret: &Code, client_nonce: &Nonce, server_nonce: &Nonce) -> Code {
    code(&hmac(secret), &[b"server", client_nonce, server_nonce])
}

/// Compares in constant time.
pub fn same_code(left: &Code, right: &Code) -> bool {
    left.iter().zip(right).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

/// Random bytes that make a proof good for one connection only.
pub type Nonce = [u8; 32];

record! {
    /// A session token with the secret of its owner, as an agent hands it over.
    pub struct Credential {
        /// The token shown to daemons.
        pub token: Bytes,
        /// The secret proved to them.
        pub secret: [u8; 32],
        /// Unix seconds after which it is refused.
        pub expiry: u64,
    }
}

impl Credential {
    /// Issues a credential for `session`, as an agent does.
    pub fn issue(ring: &KeyRing, session: &Session) -> Self {
        let token = ring.sign_session(session);
        let secret = ring.session_secret(&token).expect("the ring just signed it");
        Self { token: Bytes(token), secret, expiry: session.expiry }
    }
}

/// How far clocks of nodes may differ.
pub const CLOCK_SKEW_S: u64 = 60;
const KEY_ID_BYTES: usize = 4;
const CODE_BYTES: usize = 32;

/// Bytes of the seal of a group handle.
pub const SEAL_BYTES: usize = KEY_ID_BYTES + CODE_BYTES;

fn sign<T: Wire>(key: &Key, purpose: impl Fn(&Key) -> &Hmac<Sha256>, value: &T) -> Vec<u8> {
    let mut token = key.id.to_bytes();
    value.put(&mut token);
    let mac = code(purpose(key), &[&token]);
    token.extend_from_slice(&mac);
    token
}

fn in_time(expiry: u64, now_s: u64) -> Result<(), TokenError> {
    if expiry.saturating_add(CLOCK_SKEW_S) < now_s { Err(TokenError::Expired) } else { Ok(()) }
}

fn hmac(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes a key of any length")
}

fn code(prepared: &Hmac<Sha256>, pieces: &[&[u8]]) -> Code {
    let mut mac = prepared.clone();
    pieces.iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().into()
}

fn verify(prepared: &Hmac<Sha256>, pieces: &[&[u8]], mac: &[u8]) -> Result<(), TokenError> {
    let mut expected = prepared.clone();
    pieces.iter().for_each(|piece| expected.update(piece));
    expected.verify_slice(mac).map_err(|_| TokenError::Forged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(expiry: u64) -> Session {
        Session {
            id: 1,
            uid: 1000,
            gid: 100,
            gids: vec![100, 27],
            rights: SessionRights::NONE,
            issued: 1000,
            expiry,
        }
    }

    #[test]
    fn a_signed_session_is_believed_until_it_expires() {
        let ring = KeyRing::new(&[[1; 32]]);
        let token = ring.sign_session(&session(2000));
        assert_eq!(ring.check_session(&token, 1500), Ok(session(2000)));
        assert_eq!(ring.check_session(&token, 2000 + CLOCK_SKEW_S + 1), Err(TokenError::Expired));
        assert_eq!(ring.check_session(&token, 900), Err(TokenError::FromTheFuture));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_refused() {
        let ring = KeyRing::new(&[[1; 32]]);
        let token = ring.sign_session(&session(2000));
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert_eq!(ring.check_session(&changed, 1500), Err(TokenError::Forged), "byte {at}");
            assert_eq!(ring.check_session(&token[..at], 1500), Err(TokenError::Forged));
        }
    }

    #[test]
    fn keys_roll_without_a_gap_and_purposes_do_not_mix() {
        let old = KeyRing::new(&[[1; 32]]);
        let rolled = KeyRing::new(&[[2; 32], [1; 32]]);
        let token = old.sign_session(&session(2000));
        assert!(rolled.check_session(&token, 1500).is_ok());
        assert!(old.check_session(&rolled.sign_session(&session(2000)), 1500).is_err());
        assert!(old.check_capability(&token, 1500).is_err());
        assert!(old.check_order::<Session>(&token).is_err());
    }

    #[test]
    fn proofs_differ_by_side_and_nonce() {
        let (secret, a, b) = ([3; 32], [4; 32], [5; 32]);
        assert_ne!(client_proof(&secret, &a, &b), server_proof(&secret, &a, &b));
        assert_ne!(client_proof(&secret, &a, &b), client_proof(&secret, &b, &a));
        assert!(same_code(&client_proof(&secret, &a, &b), &client_proof(&secret, &a, &b)));
    }
}
