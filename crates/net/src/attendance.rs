//! How a client process has its node's agent know that it lives, without doing anything to stay known.
//!
//! It connects to the agent's socket, says who it is, and keeps the socket: the kernel closes it with the
//! process. Nothing is ever answered.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, recv, socket_with};

/// Kept by a process that wants to be known to live.
pub trait Attendance: Send {
    /// Whether the agent still knows.
    fn is_noted(&self) -> bool;
}

/// What a process says to its agent, followed by its identity as daemons know it (8 bytes, little-endian).
pub const ATTENDANCE_REQUEST: &[u8; 8] = b"pvfs-a1\n";

/// The socket kept.
struct Kept(UnixStream);

/// Says to the agent on this socket that `client` is there; nothing when none listens, or it has no time.
pub fn attend(agent: &Path, client: u64) -> Option<Box<dyn Attendance>> {
    let mut stream = connect_at_once(agent).ok()?;
    let mut said = [0; 16];
    said[..8].copy_from_slice(ATTENDANCE_REQUEST);
    said[8..].copy_from_slice(&client.to_le_bytes());
    // An empty socket takes so little whole or not at all.
    (stream.write(&said).ok()? == said.len()).then(|| Box::new(Kept(stream)) as Box<dyn Attendance>)
}

/// Connects to an agent, which may be too busy to accept for as long as this.
pub fn connect_within(agent: &Path, patience: Duration) -> io::Result<UnixStream> {
    let deadline = Instant::now() + patience;
    loop {
        match connect_at_once(agent) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            connected => {
                let stream = connected?;
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }
}

/// Connecting to a socket of this node succeeds at once, but for one whose queue is full.
fn connect_at_once(agent: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(agent)?)?;
    Ok(socket.into())
}

impl Attendance for Kept {
    fn is_noted(&self) -> bool {
        let mut byte = [0; 1];
        let peeked = recv(&self.0, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }
}

const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_agent_hears_who_is_there_and_when_it_is_not_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent");
        assert!(attend(&path, 7).is_none(), "nobody listens");
        let listener = UnixListener::bind(&path).unwrap();
        let kept = attend(&path, 7).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut said = [0; 16];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(said, *b"pvfs-a1\n\x07\0\0\0\0\0\0\0");
        assert!(kept.is_noted());
        drop(kept);
        assert_eq!(stream.read(&mut said).unwrap(), 0);
        let kept = attend(&path, 7).unwrap();
        drop(listener);
        assert!(!kept.is_noted(), "the agent ended");
    }

    #[test]
    fn an_agent_that_accepts_nobody_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent");
        let _listener = UnixListener::bind(&path).unwrap();
        let begun = Instant::now();
        let kept: Vec<_> = std::iter::repeat_with(|| attend(&path, 7)).take(10_000).collect();
        assert!(kept.iter().any(Option::is_none) && begun.elapsed() < Duration::from_secs(20));
        let refused = connect_within(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }
}
