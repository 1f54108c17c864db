//! Files that fail on request: writes after so many bytes, short writes, syncs, removals; and a
//! hook at the moments between which a crash makes a difference.

use crate::store::{LocalMedia, Media, MediaFile, Space};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// The local file system with faults.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultyMedia {
    faults: Arc<Faults>,
}

/// What goes wrong, changeable while the store is open.
#[derive(Default)]
pub(super) struct Faults {
    /// Which files are concerned: those whose name begins so.
    files: Mutex<String>,
    /// Bytes that may still be written, and the errno after that.
    write_budget: Mutex<Option<(usize, i32)>>,
    /// Most bytes per write call; 0 for no limit.
    pub(super) write_bytes_max: AtomicUsize,
    /// The errno of every sync of a file, or 0.
    pub(super) sync_errno: AtomicUsize,
    /// Whether a file cannot be cut.
    pub(super) cut_fails: AtomicBool,
    /// How many bytes are said to be free, if not 0.
    pub(super) free_bytes: AtomicU64,
    /// How many syncs of files there were.
    pub(super) syncs: AtomicUsize,
    hook: Mutex<Option<Hook>>,
}

/// Called before the store does something.
pub(super) type Hook = Arc<dyn Fn(Moment, &Path) + Send + Sync>;

/// When the hook is called.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Moment {
    Write,
    Sync,
    Remove,
    SyncDirectory,
}

impl FaultyMedia {
    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl Faults {
    /// Writes to files whose name begins with `files` fail with `errno` after `bytes` more bytes.
    pub(super) fn fail_writes(&self, files: &str, bytes: usize, errno: i32) {
        *self.files.lock().unwrap() = files.to_owned();
        *self.write_budget.lock().unwrap() = Some((bytes, errno));
    }

    pub(super) fn fail_syncs(&self, files: &str, errno: usize) {
        *self.files.lock().unwrap() = files.to_owned();
        self.sync_errno.store(errno, Ordering::SeqCst);
    }

    pub(super) fn heal(&self) {
        *self.write_budget.lock().unwrap() = None;
        self.sync_errno.store(0, Ordering::SeqCst);
        self.cut_fails.store(false, Ordering::SeqCst);
        self.free_bytes.store(0, Ordering::SeqCst);
    }

    pub(super) fn set_hook(&self, hook: impl Fn(Moment, &Path) + Send + Sync + 'static) {
        *self.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    /// Syncs, and writes to the state file, wait until the returned lock is free.
    pub(super) fn block_checkpoints(&self) -> Arc<RwLock<()>> {
        let gate = Arc::new(RwLock::new(()));
        let entered = gate.clone();
        self.set_hook(move |moment, path| {
            if moment == Moment::Sync || path.ends_with("state.redb") {
                drop(entered.read());
            }
        });
        gate
    }

    /// The hook may block, so no lock is held while it runs.
    fn at(&self, moment: Moment, path: &Path) {
        let hook = self.hook.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(moment, path);
        }
    }

    fn concerns(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(self.files.lock().unwrap().as_str())
    }

    /// How many of `bytes` may be written now.
    fn allowed(&self, path: &Path, bytes: usize) -> io::Result<usize> {
        let at_once = match self.write_bytes_max.load(Ordering::SeqCst) {
            0 => bytes,
            most => bytes.min(most),
        };
        match self.write_budget.lock().unwrap().as_mut() {
            Some((0, errno)) if self.concerns(path) => Err(io::Error::from_raw_os_error(*errno)),
            Some((budget, _)) if self.concerns(path) => {
                let allowed = at_once.min(*budget);
                *budget -= allowed;
                Ok(allowed)
            }
            _ => Ok(at_once),
        }
    }
}

impl Media for FaultyMedia {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediaFile>> {
        let (file, faults) = (LocalMedia.open(path)?, self.faults.clone());
        Ok(Arc::new(FaultyFile { path: path.to_path_buf(), file, faults }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.at(Moment::Remove, path);
        LocalMedia.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.faults.at(Moment::SyncDirectory, directory);
        LocalMedia.sync_directory(directory)
    }

    fn space(&self, directory: &Path) -> io::Result<Space> {
        let space = LocalMedia.space(directory)?;
        match self.faults.free_bytes.load(Ordering::SeqCst) {
            0 => Ok(space),
            free_bytes => Ok(Space { free_bytes, ..space }),
        }
    }
}

#[derive(Debug)]
struct FaultyFile {
    path: PathBuf,
    file: Arc<dyn MediaFile>,
    faults: Arc<Faults>,
}

impl MediaFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.faults.at(Moment::Write, &self.path);
        let allowed = self.faults.allowed(&self.path, bytes.len())?;
        self.file.write_at(&bytes[..allowed], offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if self.faults.cut_fails.load(Ordering::SeqCst) && self.faults.concerns(&self.path) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.at(Moment::Sync, &self.path);
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        match self.faults.sync_errno.load(Ordering::SeqCst) {
            errno if errno > 0 && self.faults.concerns(&self.path) => {
                Err(io::Error::from_raw_os_error(errno as i32))
            }
            _ => self.file.sync_data(),
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Faults").finish_non_exhaustive()
    }
}

pub(super) const EIO: i32 = 5;
pub(super) const ENOSPC: i32 = 28;
