//! Real sockets: TCP, with TLS or without, and AF_UNIX, never blocking.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::endpoint::Endpoint;
use crate::runtime::Interest;
use crate::stream::Stream;
use crate::tls::{Connector, Session};

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    is_tcp: bool,
    is_local: bool,
    /// The kernel's SO_RCVLOWAT.
    expected_bytes: usize,
    /// Receives wait a little ([`Socket::receive_waiting`]).
    waits: bool,
    /// What encrypts, on TCP in mode `tls`.
    tls: Option<Box<Session>>,
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

    /// The like, with TLS over TCP where there is what that takes. Sockets of this node need none.
    pub fn connect_with(endpoint: &Endpoint, tls: Option<&Connector>) -> io::Result<Self> {
        let session = match (endpoint.host(), tls) {
            (Some(host), Some(tls)) => Some(Box::new(tls.begin(host)?)),
            _ => None,
        };
        Ok(Self { tls: session, ..Self::connect(endpoint)? })
    }

    /// Encrypts all that goes over it, from its first byte.
    pub(crate) fn secure(&mut self, session: Session) {
        self.tls = Some(Box::new(session));
    }

    /// Whether what arrives are records, which say nothing of how long a message is.
    pub(crate) fn has_records(&self) -> bool {
        self.tls.is_some()
    }

    /// Begins to connect to one TCP address.
    pub fn connect_tcp(address: SocketAddr) -> io::Result<Self> {
        let fd = stream_socket(family_of(address))?;
        tune_tcp(&fd)?;
        if is_loopback(address.ip()) {
            // Nothing queues or is lost on the way to a daemon of this node, so there is nothing to pace. What paces
            // (BBR) takes a daemon that waits for the rest of a request for a slow network. Reno is in every kernel.
            let _ = sockopt::set_tcp_congestion(&fd, "reno");
        }
        match rustix::net::connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::tcp(fd, address.ip())),
            Err(error) => Err(error.into()),
        }
    }

    fn connect_unix(address: &SocketAddrUnix) -> io::Result<Self> {
        let fd = stream_socket(AddressFamily::UNIX)?;
        tune_unix(&fd);
        // A full backlog is EAGAIN here, and never becomes writable: it is a failure to be retried.
        match rustix::net::connect(&fd, address) {
            Err(Errno::AGAIN) => Err(io::ErrorKind::ConnectionRefused.into()),
            done => done.map(|()| Self::unix(fd)).map_err(Into::into),
        }
    }

    /// A socket that a listener accepted, already non-blocking; from a process of this node when it has no
    /// address.
    pub(crate) fn accepted(fd: OwnedFd, address: Option<IpAddr>) -> io::Result<Self> {
        match address {
            Some(address) => {
                tune_tcp(&fd)?;
                Ok(Self::tcp(fd, address))
            }
            None => {
                tune_unix(&fd);
                Ok(Self::unix(fd))
            }
        }
    }

    fn tcp(fd: OwnedFd, peer: IpAddr) -> Self {
        Self { is_tcp: true, is_local: is_loopback(peer), ..Self::unix(fd) }
    }

    fn unix(fd: OwnedFd) -> Self {
        Self { fd, is_tcp: false, is_local: true, expected_bytes: 1, waits: false, tls: None }
    }

    /// Receives like [`Stream::receive`], but waits for the first bytes, or until the pieces are `full`,
    /// [`RECEIVE_WAIT`] at most: one system call where polling first would be two.
    pub(crate) fn receive_waiting(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        full: bool,
    ) -> io::Result<usize> {
        if !self.waits {
            sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, Some(RECEIVE_WAIT))?;
            // All other calls say for themselves that they do not wait.
            rustix::io::ioctl_fionbio(&self.fd, false)?;
            self.waits = true;
        }
        let flags = if full { RecvFlags::WAITALL } else { RecvFlags::empty() };
        self.receive_with(pieces, flags)
    }

    fn receive_with(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> io::Result<usize> {
        if let [piece] = pieces {
            let (_, bytes) = rustix::net::recv(&self.fd, &mut **piece, flags)?;
            return Ok(bytes);
        }
        let count = pieces.len().min(PIECES_MAX);
        let mut nothing = RecvAncillaryBuffer::default();
        Ok(rustix::net::recvmsg(&self.fd, &mut pieces[..count], &mut nothing, flags)?.bytes)
    }

    /// The same connection under a number of at least `lowest`, for programs to which the low ones belong;
    /// under its old one where there is none left.
    #[must_use]
    pub fn raised(self, lowest: RawFd) -> Self {
        match rustix::io::fcntl_dupfd_cloexec(&self.fd, lowest) {
            Ok(fd) => Self { fd, ..self },
            Err(_) => self,
        }
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
    fn handshake(&mut self) -> io::Result<Option<Interest>> {
        match &mut self.tls {
            Some(tls) => tls.handshake(self.fd.as_fd()),
            None => Ok(None),
        }
    }

    fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_more())
    }

    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(tls) = &mut self.tls {
            return tls.send(self.fd.as_fd(), pieces);
        }
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
        if let Some(tls) = &mut self.tls {
            return tls.receive(self.fd.as_fd(), pieces);
        }
        self.receive_with(pieces, RecvFlags::DONTWAIT)
    }

    fn send_files(
        &mut self,
        pieces: &[IoSlice<'_>],
        files: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if self.is_tcp || !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::sendmsg(&self.fd, pieces, &mut ancillary, flags)?)
    }

    fn receive_files(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        files: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        if self.is_tcp {
            return self.receive(pieces);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(&self.fd, pieces, &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        Ok(received.bytes)
    }

    fn carries_files(&self) -> bool {
        !self.is_tcp
    }

    /// On TCP only: AF_UNIX wakes up for every message whatever it is told. Records have other lengths than messages.
    fn expect(&mut self, bytes: usize) {
        let bytes = bytes.clamp(1, EXPECTED_BYTES_MAX);
        if self.is_tcp && self.tls.is_none() && bytes != self.expected_bytes {
            // Not readable below so many bytes, unless memory is short or the stream has ended. A hint that is not taken
            // costs time and nothing else.
            let _ = set_number(&self.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes as libc::c_int);
            self.expected_bytes = bytes;
        }
    }

    fn is_protected(&self) -> bool {
        self.is_local || self.tls.is_some()
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

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
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
    // Where much is lost, a request would wait longer and longer before it is sent again: at the usual doubling, seven
    // losses in a row are 25 s. Older kernels know no such bound, and lose time only.
    let _ = set_number(fd, libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, 1);
    let _ = set_number(fd, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, RESENT_AFTER_MS_MAX);
    Ok(())
}

/// AF_UNIX buffers do not grow by themselves. The kernel caps the wish, so a failure is no matter.
fn tune_unix(fd: &OwnedFd) {
    let _ = sockopt::set_socket_send_buffer_size(fd, UNIX_BUFFER_BYTES);
}

/// Sets an option that rustix does not know, and whose value is an int.
#[allow(unsafe_code)]
fn set_number(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the option is an int that the kernel copies before it returns.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// More than this is not waited for in one go: the copy should begin while the rest is on its way.
const EXPECTED_BYTES_MAX: usize = 256 << 10;

/// The kernel's IOV_MAX.
const PIECES_MAX: usize = 1024;

/// Descriptors that come with one message.
const FILES_MAX: usize = 4;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// Sent bytes that stay unacknowledged for longer break the connection; the time keepalive takes, too.
const UNACKNOWLEDGED_MS_MAX: u32 = 25_000;

/// The most that lies between two attempts to send something (Linux 6.15), the least that it may be set to.
const RESENT_AFTER_MS_MAX: libc::c_int = 1000;

/// From linux/tcp.h; the libc crate does not have it yet.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// How long a receive may wait by itself, without anything else being looked at.
pub(crate) const RECEIVE_WAIT: Duration = Duration::from_millis(200);

const UNIX_BUFFER_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn connected() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (fd, address) = listener.accept().unwrap();
        (sender, Socket::accepted(fd.into(), Some(address.ip())).unwrap())
    }

    fn is_readable(socket: &Socket) -> bool {
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&wait)).unwrap() == 1
    }

    fn receive(socket: &mut Socket, bytes: usize) -> usize {
        socket.receive(&mut [IoSliceMut::new(&mut vec![0; bytes])]).unwrap()
    }

    #[test]
    fn fewer_bytes_than_expected_wake_nobody_and_can_be_received() {
        let (mut sender, mut socket) = connected();
        socket.expect(1000);
        sender.write_all(&[1; 10]).unwrap();
        assert!(!is_readable(&socket));
        assert_eq!(receive(&mut socket, 100), 10);
        sender.write_all(&[1; 1000]).unwrap();
        assert!(is_readable(&socket));
        assert_eq!(receive(&mut socket, 5000), 1000);
        socket.expect(1);
        sender.write_all(&[1]).unwrap();
        assert!(is_readable(&socket));
    }

    #[test]
    fn the_end_is_heard_whatever_was_expected() {
        let (mut sender, mut socket) = connected();
        socket.expect(1 << 20);
        sender.write_all(&[1; 10]).unwrap();
        drop(sender);
        assert!(is_readable(&socket));
        assert_eq!((receive(&mut socket, 100), receive(&mut socket, 100)), (10, 0));
    }

    #[test]
    fn a_receive_that_waits_gives_up_and_a_later_one_goes_on() {
        let (mut sender, mut socket) = connected();
        let mut buffer = [0; 100];
        let mut wait = |socket: &mut Socket| {
            socket.receive_waiting(&mut [IoSliceMut::new(&mut buffer)], false).map_err(|e| e.kind())
        };
        assert_eq!(wait(&mut socket), Err(io::ErrorKind::WouldBlock));
        sender.write_all(&[1; 10]).unwrap();
        assert_eq!(wait(&mut socket), Ok(10));
    }

    #[test]
    fn a_receive_that_waits_for_all_has_what_there_is_when_it_gives_up() {
        let (mut sender, mut socket) = connected();
        sender.write_all(&[1; 10]).unwrap();
        let mut buffer = [0; 100];
        let mut wait = || socket.receive_waiting(&mut [IoSliceMut::new(&mut buffer)], true);
        assert_eq!(wait().unwrap(), 10);
        let late = std::thread::spawn(move || {
            for _ in 0..10 {
                sender.write_all(&[1; 10]).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(wait().unwrap(), 100, "all of it by one call");
        late.join().unwrap();
    }
}
