//! Mounting and unmounting.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use pvfs_client::credentials::Issuer;
use pvfs_client::{User, block_on};
use pvfs_net::blocking::Blocking;

use crate::device::{Access, alter, attach, detach};
use crate::filesystem::KernelFilesystem;
use crate::heartbeat;
use crate::mounted::Mounted;
use crate::notices::Notices;
use crate::options::{Cache, MountOptions};
use crate::queue::{Filesystem, Queue};
use crate::table;

/// A file system that is mounted. Dropping it leaves it mounted until the process ends.
pub struct Session {
    directory: PathBuf,
    serving: JoinHandle<io::Result<()>>,
    /// Who ends the lease on what is cached when nobody uses the mount any more.
    caching: Option<User<Blocking>>,
}

/// Why a directory cannot be mounted on, or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no such directory.
    #[error("{0} does not exist; create it first")]
    Absent(PathBuf),
    /// It is something else.
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    /// Mounting would hide files.
    #[error("{0} is not empty; what it holds would be hidden")]
    NotEmpty(PathBuf),
    /// Something is mounted there.
    #[error(
        "{directory} is a mount point already ({source_name}); unmount it first (pvfs umount {directory})"
    )]
    Mounted {
        /// Where.
        directory: PathBuf,
        /// What.
        source_name: String,
    },
    /// Nothing is mounted there.
    #[error("{0} is not mounted")]
    NotMounted(PathBuf),
    /// What is mounted there is none of ours.
    #[error("{directory} is a mount of type {kind}, not of pvfs")]
    NotOurs {
        /// Where.
        directory: PathBuf,
        /// What.
        kind: String,
    },
    /// The file system itself cannot be used.
    #[error(transparent)]
    Filesystem(#[from] pvfs_client::Error),
    /// The kernel refused.
    #[error("cannot {action} {directory}: {error}")]
    Kernel {
        /// What was tried.
        action: &'static str,
        /// Where.
        directory: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// Mounts a file system. It can be used when this returns.
pub fn mount(
    filesystem: Arc<pvfs_client::Filesystem<Blocking>>,
    issuer: Issuer,
    directory: &Path,
    options: MountOptions,
) -> Result<Session, MountError> {
    let directory = mount_point(directory)?;
    // The kernel calls init only when it is mounted, so whatever can fail is done before.
    let mounted = Arc::new(Mounted::new(filesystem, issuer, options.clone())?);
    let checks = mounted.kernel_checks;
    heartbeat::start(&mounted).map_err(|error| MountError::Kernel {
        action: "start a thread for",
        directory: directory.clone(),
        error,
    })?;
    let connect = |device: &OwnedFd| {
        mounted.coherence.connect(Notices::new(device.try_clone()?));
        Ok(())
    };
    let served = KernelFilesystem(mounted.clone());
    let session = serve(served, directory, table::KIND, &options, checks, connect)?;
    mounted.keep_lease();
    let caching = (options.cache == Cache::Lease).then(|| mounted.identities.own_user().ok());
    Ok(Session { caching: caching.flatten(), ..session })
}

/// Mounts any file system of this binding: what [`mount`] does, and in-memory ones for measuring.
pub(crate) fn serve(
    filesystem: impl Filesystem,
    directory: PathBuf,
    kind: &str,
    options: &MountOptions,
    kernel_checks: bool,
    connect: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> Result<Session, MountError> {
    let is_root = rustix::process::geteuid().is_root();
    let for_all = options.allow_other.unwrap_or(is_root);
    let refused = refused("mount", &directory);
    let access = Access { for_all, kernel_checks };
    let device = attach(&directory, kind, options, access).map_err(&refused)?;
    connect(&device).map_err(&refused)?;
    let queue = Queue::open(device, filesystem).map_err(|error| {
        let _ = detach(&directory, true);
        refused(error)
    })?;
    let (serving, threads) = (thread::Builder::new().name("pvfs-mount".into()), options.threads);
    let serving = serving.spawn(move || queue.serve(threads));
    let serving = serving.map_err(refused)?;
    widen_readahead(&directory);
    Ok(Session { directory, serving, caching: None })
}

/// Takes the mount off a directory, also one whose daemon is dead. Files in use stay usable until closed.
pub fn unmount(directory: &Path, lazy: bool) -> Result<(), MountError> {
    let entry = ours_at("unmount", directory)?;
    detach(&entry.directory, lazy).map_err(refused("unmount", directory))
}

/// How a directory is mounted, as far as the kernel knows.
pub fn options_at(directory: &Path) -> Result<MountOptions, MountError> {
    let entry = ours_at("remount", directory)?;
    let mut options = MountOptions::default();
    // What is forbidden is shown, and what is allowed is not.
    (options.flags.suid, options.flags.dev) = (true, true);
    for option in entry.options.split(',') {
        // What is unknown here is none of those that can be changed.
        let _ = options.set(option);
    }
    Ok(options)
}

/// Changes what the kernel itself goes by: whether a mount is read-only, and its [`KernelFlags`](crate::options::KernelFlags).
/// All else stays as it is.
pub fn remount(directory: &Path, options: &MountOptions) -> Result<(), MountError> {
    let entry = ours_at("remount", directory)?;
    alter(&entry.directory, options).map_err(refused("remount", directory))
}

/// Our mount on top of a directory, to which something is to be done.
fn ours_at(action: &'static str, directory: &Path) -> Result<table::Entry, MountError> {
    let entry = table::mounted_at(directory).map_err(refused(action, directory))?;
    let entry = entry.ok_or_else(|| MountError::NotMounted(directory.into()))?;
    if !entry.is_pvfs() {
        return Err(MountError::NotOurs { directory: entry.directory, kind: entry.kind });
    }
    Ok(entry)
}

fn refused(action: &'static str, directory: &Path) -> impl Fn(io::Error) -> MountError {
    move |error| MountError::Kernel { action, directory: directory.into(), error }
}

impl Session {
    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts; whoever still uses a file may go on until closing it.
    pub fn unmount(&self) -> Result<(), MountError> {
        match unmount(&self.directory, false) {
            Err(MountError::NotMounted(_)) => Ok(()),
            outcome => outcome,
        }
    }

    /// Whether the kernel is still being served.
    pub fn is_alive(&self) -> bool {
        !self.serving.is_finished()
    }

    /// Waits until it is unmounted and no file is in use any more.
    pub fn join(self) -> io::Result<()> {
        let served = self.serving.join();
        if let Some(user) = self.caching {
            // If the manager is not there, it waits for the lease when it is.
            let _ = block_on(user.end_lease());
        }
        served.unwrap_or_else(|_| Err(io::Error::other("a serving thread panicked")))
    }
}

/// The full path of a directory that can be mounted on.
pub(crate) fn mount_point(directory: &Path) -> Result<PathBuf, MountError> {
    let absent = || MountError::Absent(directory.into());
    let path = table::without_touching(directory).map_err(|_| absent())?;
    if let Ok(Some(entry)) = table::mounted_at(&path) {
        let source_name = entry.source.to_string_lossy().into_owned();
        return Err(MountError::Mounted { directory: path, source_name });
    }
    let metadata = fs::metadata(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => absent(),
        _ => MountError::Kernel { action: "look at", directory: path.clone(), error },
    })?;
    if !metadata.is_dir() {
        return Err(MountError::NotADirectory(path));
    }
    match fs::read_dir(&path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => path.canonicalize().map_err(|_| absent()),
        Ok(false) => Err(MountError::NotEmpty(path)),
        Err(error) => Err(MountError::Kernel { action: "look at", directory: path, error }),
    }
}

/// The kernel reads ahead 128 KiB unless told otherwise, which leaves most iods idle. Only root may.
fn widen_readahead(directory: &Path) {
    let Ok(Some(entry)) = table::mounted_at(directory) else { return };
    let setting = format!("/sys/class/bdi/{}/read_ahead_kb", entry.device);
    if let Err(error) = fs::write(&setting, READAHEAD_KIB) {
        tracing::debug!("readahead stays as it is: {setting}: {error}");
    }
}

/// A few requests' worth of every iod.
const READAHEAD_KIB: &str = "4096";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_can_be_mounted_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(mount_point(path).unwrap(), path.canonicalize().unwrap());
        assert!(matches!(mount_point(&path.join("absent")), Err(MountError::Absent(_))));
        assert!(matches!(mount_point(&path.join("absent/x")), Err(MountError::Absent(_))));
        fs::write(path.join("file"), "x").unwrap();
        assert!(matches!(mount_point(&path.join("file")), Err(MountError::NotADirectory(_))));
        assert!(matches!(mount_point(path), Err(MountError::NotEmpty(_))));
        assert!(matches!(mount_point(Path::new("/proc")), Err(MountError::Mounted { .. })));
    }

    #[test]
    fn what_is_not_our_mount_is_not_unmounted() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(unmount(directory.path(), false), Err(MountError::NotMounted(_))));
        assert!(matches!(unmount(Path::new("/proc"), false), Err(MountError::NotOurs { .. })));
    }
}
