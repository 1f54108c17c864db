//! Where a session comes from: signed here by whoever may read the cluster key, else asked of the agent. And what a
//! connection takes before it.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pvfs_config::{CertificateError, CertificateMarks, Cluster, KeyError, Security, SecurityMode};
use pvfs_net::attendance::connect_within;
use pvfs_net::call::{Connect, Principal, Renew};
use pvfs_net::tls::{Connector, TlsSetupError};
use pvfs_wire::token::{Credential, KeyRing, Session, SessionRights};
use pvfs_wire::{Errno, Wire};

use crate::error::{Error, Result};

/// A user as the kernel knows one.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub gids: Vec<u32>,
}

/// What issues sessions on this node.
#[derive(Clone)]
pub enum Issuer {
    /// This process may read the cluster key.
    Key {
        /// The keys.
        ring: KeyRing,
        /// How long a session lives.
        lifetime: Duration,
        /// Where the keys are read again for each session, since they may be rolled meanwhile.
        security: Option<Box<Security>>,
    },
    /// The node's agent, for the user this process runs as.
    Agent(PathBuf),
}

impl Identity {
    /// The user this process acts as.
    pub fn of_process() -> Self {
        let gids = rustix::process::getgroups().unwrap_or_default();
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            gids: gids.into_iter().map(|gid| gid.as_raw()).collect(),
        }
    }
}

impl Issuer {
    /// The key where it may be read, else the agent.
    pub fn of(cluster: &Cluster) -> Result<Self> {
        let lifetime = cluster.security.session;
        match key_ring(cluster) {
            Ok(ring) => {
                Ok(Self::Key { ring, lifetime, security: Some(Box::new(cluster.security.clone())) })
            }
            Err(_) if cluster.agent.socket.exists() => {
                Ok(Self::Agent(cluster.agent.socket.clone()))
            }
            Err(error) => Err(error),
        }
    }

    /// A principal for `identity`, with rights beyond a user's if this process may give them.
    pub fn principal(&self, identity: Identity, rights: SessionRights) -> Result<Arc<Principal>> {
        let issuer = self.clone();
        let renew: Box<Renew> = Box::new(move || issuer.issue(&identity, rights));
        let principal = Principal::new(renew).map_err(|errno| self.no_session(errno))?;
        Ok(Arc::new(principal))
    }

    fn issue(
        &self,
        identity: &Identity,
        rights: SessionRights,
    ) -> std::result::Result<Credential, Errno> {
        match self {
            Self::Key { ring, lifetime, security } => {
                let session = session(identity, rights, *lifetime);
                // A process that has given up the right to read the file goes on with what it read.
                let fresh = security.as_ref().and_then(|security| read_ring(security).ok());
                Ok(Credential::issue(fresh.as_ref().unwrap_or(ring), &session))
            }
            Self::Agent(socket) => ask_agent(socket).map_err(|_| Errno::EACCES),
        }
    }

    fn no_session(&self, errno: Errno) -> Error {
        match self {
            Self::Key { .. } => errno.into(),
            Self::Agent(socket) => Error::NoSession(format!(
                "the agent at {} gave no session for this user; is `pvfs agent` running, and is the user \
                 within [agent] uids?",
                socket.display()
            )),
        }
    }
}

/// The keys of the cluster file; the well-known key of zeros in mode `none`.
pub fn key_ring(cluster: &Cluster) -> Result<KeyRing> {
    read_ring(&cluster.security).map_err(|error| match &error {
        KeyError::Unreadable { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Error::NoSession(error.to_string())
        }
        error => Error::Setup(error.to_string()),
    })
}

fn read_ring(security: &Security) -> std::result::Result<KeyRing, KeyError> {
    let secrets: Vec<[u8; 32]> = security.read_keys()?.iter().map(|key| *key.bytes()).collect();
    Ok(KeyRing::new(if secrets.is_empty() { &[[0; 32]] } else { &secrets }))
}

/// What this process speaks TLS with; nothing where the cluster does not.
pub fn connector(cluster: &Cluster) -> Result<Option<Box<Connect>>> {
    if cluster.security.mode != SecurityMode::Tls {
        return Ok(None);
    }
    let certificates = ReadCertificates::new(&cluster.security).map_err(|error| match &error {
        TlsSetupError::Files(CertificateError::Unreadable { source, .. })
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            Error::NoSession(error.to_string())
        }
        error => Error::Setup(error.to_string()),
    })?;
    let certificates = Mutex::new(certificates);
    Ok(Some(Box::new(move || {
        certificates.lock().unwrap_or_else(PoisonError::into_inner).look_again()
    })))
}

/// Certificates as they were read last. They expire and are renewed while a mount runs, and nobody tells it, so it looks
/// whenever it connects.
struct ReadCertificates {
    security: Security,
    marks: CertificateMarks,
    connector: Connector,
}

impl ReadCertificates {
    fn new(security: &Security) -> std::result::Result<Self, TlsSetupError> {
        let marks = security.mark_certificates();
        let connector = Connector::new(&security.read_certificates()?)?;
        Ok(Self { security: security.clone(), marks, connector })
    }

    /// What cannot be used changes nothing: a copy may be half done, and a process may have given up the right to read.
    fn look_again(&mut self) -> Connector {
        if self.security.mark_certificates() != self.marks {
            match Self::new(&self.security) {
                Ok(read) => *self = read,
                Err(error) => tracing::warn!("going on with the certificates from before: {error}"),
            }
        }
        self.connector.clone()
    }
}

/// A session of this user, from now on.
pub fn session(identity: &Identity, rights: SessionRights, lifetime: Duration) -> Session {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let mut id = [0; 8];
    getrandom::fill(&mut id).expect("the kernel gives random bytes");
    Session {
        id: u64::from_le_bytes(id),
        uid: identity.uid,
        gid: identity.gid,
        gids: identity.gids.clone(),
        rights,
        issued: now,
        expiry: now + lifetime.as_secs(),
    }
}

/// The agent's whole protocol: connect, read a length and a credential. Who is asking it learns from the kernel.
fn ask_agent(socket: &Path) -> std::io::Result<Credential> {
    let mut stream = connect_within(socket, AGENT_TIMEOUT)?;
    stream.set_read_timeout(Some(AGENT_TIMEOUT))?;
    stream.set_write_timeout(Some(AGENT_TIMEOUT))?;
    stream.write_all(AGENT_REQUEST)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > CREDENTIAL_BYTES_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Credential::from_bytes(&bytes).map_err(|_| std::io::ErrorKind::InvalidData.into())
}

/// What a client says to an agent: version 1, a session please.
pub const AGENT_REQUEST: &[u8; 8] = b"pvfs-s1\n";

/// No credential is longer, with as many groups as Linux allows.
pub const CREDENTIAL_BYTES_MAX: u32 = 512 << 10;

const AGENT_TIMEOUT: Duration = Duration::from_secs(5);
