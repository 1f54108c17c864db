//! Real sockets: TCP and AF_UNIX, never blocking.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown,
    SocketAddrUnix, SocketFlags, SocketType,
};

use crate::endpoint::Endpoint;
use crate::stream::Stream;

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Begins to connect to the first address that can be tried at all. Connected once writable; a
    /// failure shows in [`Socket::check_connected`] and in the first send.
    ///
    /// A host name is resolved here, which may block; addresses do not.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix { path } => Self::connect_unix(&SocketAddrUnix::new(path)?),
            Endpoint::Tcp { host, port } => {
                let mut last = io::Error::from(io::ErrorKind::NotFound);
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match Self::connect_tcp(address) {
                        Ok(socket) => return Ok(socket),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Begins to connect to one TCP address.
    pub fn connect_tcp(address: SocketAddr) -> io::Result<Self> {
        let fd = stream_socket(family_of(address))?;
        tune_tcp(&fd)?;
        match rustix::net::connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self { fd }),
            Err(error) => Err(error.into()),
        }
    }

    fn connect_unix(address: &SocketAddrUnix) -> io::Result<Self> {
        let fd = stream_socket(AddressFamily::UNIX)?;
        tune_unix(&fd);
        // A full backlog is EAGAIN here, and never becomes writable: it is a failure to be retried.
        match rustix::net::connect(&fd, address) {
            Err(Errno::AGAIN) => Err(io::ErrorKind::ConnectionRefused.into()),
            done => done.map(|()| Self { fd }).map_err(Into::into),
        }
    }

    /// A socket that a listener accepted, already non-blocking.
    pub(crate) fn accepted(fd: OwnedFd, is_tcp: bool) -> io::Result<Self> {
        if is_tcp {
            tune_tcp(&fd)?;
        } else {
            tune_unix(&fd);
        }
        Ok(Self { fd })
    }

    /// Whether the connection is made; the error says why it never will be.
    pub fn check_connected(&self) -> io::Result<bool> {
        sockopt::socket_error(&self.fd)??;
        match rustix::net::getpeername(&self.fd) {
            Ok(_) => Ok(true),
            Err(Errno::NOTCONN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Stream for Socket {
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
        let sent = match pieces {
            [piece] => rustix::net::send(&self.fd, piece, FLAGS),
            _ => {
                let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
                let mut nothing = SendAncillaryBuffer::default();
                rustix::net::sendmsg(&self.fd, pieces, &mut nothing, FLAGS)
            }
        };
        Ok(sent?)
    }

    fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if let [piece] = pieces {
            let (_, bytes) = rustix::net::recv(&self.fd, &mut **piece, RecvFlags::DONTWAIT)?;
            return Ok(bytes);
        }
        let count = pieces.len().min(PIECES_MAX);
        let mut nothing = RecvAncillaryBuffer::default();
        let flags = RecvFlags::DONTWAIT;
        Ok(rustix::net::recvmsg(&self.fd, &mut pieces[..count], &mut nothing, flags)?.bytes)
    }

    fn shutdown(&mut self) {
        // Fails only when the connection is already gone.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }
}

/// A new non-blocking stream socket.
pub(crate) fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

/// The family of a TCP address.
pub(crate) fn family_of(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Small messages leave at once, and a peer that vanished is noticed within half a minute even when
/// nothing is sent (its opens and locks hang on the connection).
fn tune_tcp(fd: &OwnedFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(fd, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(fd, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(fd, UNACKNOWLEDGED_MS_MAX)?;
    Ok(())
}

/// AF_UNIX buffers do not grow by themselves. The kernel caps the wish, so a failure is no matter.
fn tune_unix(fd: &OwnedFd) {
    let _ = sockopt::set_socket_send_buffer_size(fd, UNIX_BUFFER_BYTES);
}

/// The kernel's IOV_MAX.
const PIECES_MAX: usize = 1024;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// Sent bytes that stay unacknowledged for longer break the connection; the time keepalive takes, too.
const UNACKNOWLEDGED_MS_MAX: u32 = 25_000;

const UNIX_BUFFER_BYTES: usize = 1 << 20;
