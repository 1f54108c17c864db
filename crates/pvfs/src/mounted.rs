//! The mounts of a cluster on this machine, and whether somebody still answers for them.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pvfs_config::Cluster;
use rustix::io::Errno;

use crate::cli::place::{Mount, mounts};
use crate::local::is_same;

/// Where a cluster is mounted.
pub fn directories(cluster: &Cluster) -> Vec<PathBuf> {
    let is_ours = |mount: &Mount| is_same(mount.source.as_ref(), &cluster.path);
    let ours = mounts().into_iter().filter(is_ours);
    ours.map(|mount| mount.directory).collect()
}

/// Whether the process that served a mount is gone: everything in it fails until it is taken away. A mount that
/// does not answer in time is not dead, but slow.
pub fn is_dead(directory: &Path) -> bool {
    let (tell, told) = mpsc::channel();
    let directory = directory.to_owned();
    // The kernel never answers statvfs(2) out of what it keeps. A thread that waits for a hung mount for ever ends
    // with us.
    thread::spawn(move || tell.send(rustix::fs::statvfs(&directory)));
    matches!(told.recv_timeout(ANSWER_TIME), Ok(Err(Errno::NOTCONN)))
}

/// Takes a dead mount out of the tree, whoever still has it for a working directory.
pub fn take_away(directory: &Path) -> Result<(), pvfs_fuse::MountError> {
    pvfs_fuse::unmount(directory, true)
}

/// The kernel says at once that nobody is there.
const ANSWER_TIME: Duration = Duration::from_millis(500);
