//! What the kernel says of whoever is at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The supplementary groups of the process that connected, as they were when it did (SO_PEERGROUPS).
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; GROUPS_FIRST];
    loop {
        match ask(socket.as_fd().as_raw_fd(), &mut groups) {
            Ok(count) => {
                groups.truncate(count);
                return Ok(groups);
            }
            Err(error)
                if error.raw_os_error() == Some(libc::ERANGE) && groups.len() < GROUPS_MAX =>
            {
                groups.resize(GROUPS_MAX, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

#[allow(unsafe_code)]
fn ask(socket: i32, groups: &mut [u32]) -> io::Result<usize> {
    let mut bytes = libc::socklen_t::try_from(size_of_val(groups)).map_err(io::Error::other)?;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERGROUPS);
    // SAFETY: the kernel writes at most `bytes` bytes, which the slice has; any bytes are numbers.
    let outcome =
        unsafe { libc::getsockopt(socket, level, option, groups.as_mut_ptr().cast(), &mut bytes) };
    match outcome {
        0 => Ok(bytes as usize / size_of::<u32>()),
        _ => Err(io::Error::last_os_error()),
    }
}

const GROUPS_FIRST: usize = 64;

/// NGROUPS_MAX
const GROUPS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_are_those_of_the_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = rustix::process::getgroups().unwrap();
        let own: Vec<u32> = own.into_iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer_groups(&one).unwrap(), own);
    }
}
