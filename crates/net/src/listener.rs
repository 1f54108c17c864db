//! Where a daemon waits for clients.

use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, sockopt};

use crate::endpoint::Endpoint;
use crate::gate::Origin;
use crate::socket::{Socket, family_of, stream_socket};

/// A socket that accepts clients. A Unix socket's name goes away with it.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: Option<PathBuf>,
}

/// Why a daemon cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {endpoint}: {cause}")]
pub struct ListenError {
    /// Where.
    pub endpoint: Endpoint,
    /// What the system said.
    pub cause: io::Error,
}

impl Listener {
    /// Listens on every address of the endpoint (a name may have several).
    pub fn bind(endpoint: &Endpoint) -> Result<Vec<Self>, ListenError> {
        let bound = match endpoint {
            Endpoint::Unix { path } => Self::bind_unix(path).map(|listener| vec![listener]),
            Endpoint::Tcp { host, port } => Self::bind_host(host, *port),
        };
        bound.map_err(|cause| ListenError { endpoint: endpoint.clone(), cause })
    }

    fn bind_host(host: &str, port: u16) -> io::Result<Vec<Self>> {
        let addresses = (host, port).to_socket_addrs()?;
        let listeners: Vec<Self> = addresses.map(Self::bind_tcp).collect::<io::Result<_>>()?;
        if listeners.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(listeners) }
    }

    fn bind_tcp(address: SocketAddr) -> io::Result<Self> {
        let fd = stream_socket(family_of(address))?;
        // Otherwise a restarted daemon could not listen while old connections linger in TIME_WAIT.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        rustix::net::bind(&fd, &address)?;
        rustix::net::listen(&fd, BACKLOG)?;
        Ok(Self { fd, path: None })
    }

    fn bind_unix(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let fd = stream_socket(AddressFamily::UNIX)?;
        match rustix::net::bind(&fd, &address) {
            Err(Errno::ADDRINUSE) if is_stale(path, &address) => {
                std::fs::remove_file(path)?;
                rustix::net::bind(&fd, &address)?;
            }
            bound => bound?,
        }
        // Every user of the node may connect, as over TCP, whatever umask protects the stores: who
        // they are and what they may do is the gate's matter.
        std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
        rustix::net::listen(&fd, BACKLOG)?;
        Ok(Self { fd, path: Some(path.to_owned()) })
    }

    /// Where clients reach it; tells the port that the kernel chose.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        if let Some(path) = &self.path {
            return Ok(Endpoint::unix(path));
        }
        let address = SocketAddr::try_from(rustix::net::getsockname(&self.fd)?)?;
        Ok(Endpoint::tcp(address.ip().to_string(), address.port()))
    }

    /// The next client that waits, and where it is.
    pub fn accept(&self) -> io::Result<(Socket, Origin)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, address) = rustix::net::acceptfrom_with(&self.fd, flags)?;
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        let origin = match address {
            Some(address) => Origin::from_ip(address.ip()),
            None => Origin::Unix { uid: sockopt::socket_peercred(&fd)?.uid.as_raw() },
        };
        Ok((Socket::accepted(fd, address.map(|address| address.ip()))?, origin))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Whoever removed it before us has done our work.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether the name is left over from a daemon that is gone: only then may it be taken. A plain file
/// also refuses to be connected to, and is none of ours.
fn is_stale(path: &Path, address: &SocketAddrUnix) -> bool {
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return false;
    }
    let Ok(fd) = stream_socket(AddressFamily::UNIX) else { return false };
    rustix::net::connect(&fd, address) == Err(Errno::CONNREFUSED)
}

/// Clients that may wait to be accepted: a whole cluster that reconnects at once.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn every_user_may_connect_to_a_unix_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("io0.sock");
        let _listeners = Listener::bind(&Endpoint::unix(&path)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
    }
}
