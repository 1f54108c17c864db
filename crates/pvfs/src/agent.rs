//! The node's agent: vouches for users by what the kernel says of them, and nothing they say themselves.
//!
//! A process connects to the agent's socket and sends eight bytes; the agent asks the kernel who that is
//! and in which groups (`SO_PEERCRED`, `SO_PEERGROUPS`), and answers with a session that every daemon of the
//! cluster believes (002 §3.2.2). A process that says it is there and keeps its socket is
//! one of the living, for whom the agent stands before the manager ([`living`]).

pub mod living;

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use living::Living;
use nix::unistd::{Gid, Uid, User, getgrouplist};
use pvfs_client::credentials::{AGENT_REQUEST, Identity, session};
use pvfs_config::Agent as Policy;
use pvfs_net::attendance::ATTENDANCE_REQUEST;
use pvfs_net::peer::peer_groups;
use pvfs_wire::Wire;
use pvfs_wire::token::{Credential, KeyRing, SessionRights};
use rustix::net::sockopt::socket_peercred;

/// An agent.
pub struct Agent {
    socket: PathBuf,
    rules: RwLock<Rules>,
    living: Arc<Living>,
}

/// What it goes by.
pub struct Rules {
    /// For whom it vouches.
    pub policy: Policy,
    /// The keys it signs with.
    pub ring: KeyRing,
    /// How long a session lives.
    pub lifetime: Duration,
}

impl Agent {
    /// An agent on the socket of its rules.
    pub fn new(rules: Rules, living: Arc<Living>) -> Self {
        Self { socket: rules.policy.socket.clone(), rules: RwLock::new(rules), living }
    }

    /// Goes by other rules from now on; its socket stays where it is.
    pub fn reload(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Listens on the agent's socket, which every user may connect to.
    pub fn listen(&self) -> io::Result<UnixListener> {
        let path = &self.socket;
        remove_stale(path)?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        Ok(listener)
    }

    /// Answers whoever connects, until `stopped`; each connection on a thread of its own, a bounded
    /// number at once.
    pub fn serve(
        self: &Arc<Self>,
        listener: &UnixListener,
        stopped: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let busy = Arc::new(AtomicUsize::new(0));
        listener.set_nonblocking(true)?;
        while !stopped() {
            match listener.accept() {
                Ok((stream, _)) if busy.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                    let (agent, busy) = (self.clone(), busy.clone());
                    busy.fetch_add(1, Ordering::Relaxed);
                    std::thread::spawn(move || {
                        agent.answer(stream);
                        busy.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                // Too many at once: this one is closed, its client tries again.
                Ok(_) => {
                    tracing::warn!("more than {CONNECTIONS_MAX} processes ask for sessions at once")
                }
                Err(_) => wait_for(listener),
            }
        }
        let _ = std::fs::remove_file(&self.socket);
        Ok(())
    }

    fn answer(&self, stream: UnixStream) {
        match self.try_answer(stream) {
            Ok(uid) => tracing::debug!(uid, "served"),
            Err(error) => tracing::info!("a process was refused: {error}"),
        }
    }

    fn try_answer(&self, mut stream: UnixStream) -> io::Result<u32> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = [0; AGENT_REQUEST.len()];
        stream.read_exact(&mut request)?;
        let peer = socket_peercred(&stream)?;
        let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
        match &request {
            AGENT_REQUEST => {
                let groups = peer_groups(&stream).unwrap_or_else(|_| groups_of(uid, gid));
                let credential = self.credential(uid, gid, groups)?.to_bytes();
                stream.write_all(&(credential.len() as u32).to_le_bytes())?;
                stream.write_all(&credential)?;
            }
            ATTENDANCE_REQUEST => {
                let mut client = [0; 8];
                stream.read_exact(&mut client)?;
                self.living.join(stream, u64::from_le_bytes(client), uid)?;
            }
            _ => return Err(io::Error::other("the peer does not speak the agent's protocol")),
        }
        Ok(uid)
    }

    fn credential(&self, uid: u32, gid: u32, gids: Vec<u32>) -> io::Result<Credential> {
        let identity = Identity { uid, gid, gids };
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        if !rules.policy.vouches_for(uid) {
            return Err(io::Error::other(format!("uid {uid} is outside of [agent] uids")));
        }
        let session = session(&identity, SessionRights::NONE, rules.lifetime);
        tracing::info!(uid, session = %format!("{:016x}", session.id), "session issued");
        Ok(Credential::issue(&rules.ring, &session))
    }
}

/// For a kernel that does not tell groups: those of the node's user database; only the primary one of a user it does
/// not know.
fn groups_of(uid: u32, gid: u32) -> Vec<u32> {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let name = user.and_then(|user| std::ffi::CString::new(user.name).ok());
    let groups = name.and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok());
    groups.map_or_else(|| vec![gid], |groups| groups.into_iter().map(Gid::as_raw).collect())
}

/// A socket that nobody listens on any more is removed; a live one is not.
fn remove_stale(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("an agent already listens on {}", path.display()),
        )),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(_) => Ok(()),
    }
}

fn wait_for(listener: &UnixListener) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let _ = poll(&mut fds, Some(&timeout));
}

const CONNECTIONS_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
