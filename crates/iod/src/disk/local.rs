//! Objects as sparse files of a local file system.
//!
//! ```text
//! root/pvfs-iod                                       what this is, see format
//! root/pvfs-iod.boot                                  since when nothing was lost, see boot
//! root/<fsid>/objects/<xx>/<yy>/<object>.<generation>  one object; all in hexadecimal
//! ```
//!
//! `xx` and `yy` are the third and second byte of the object id: ids are handed out in order, so 256
//! neighbours share a directory and a new directory is needed once in 256 creations.
//!
//! Descriptors are kept open, at most so many; one that was used lately is kept rather than one that was not.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pvfs_wire::attr::Time;
use pvfs_wire::ops::{Allocation, LoanFor, ObjectStat, StoreStat};
use pvfs_wire::{Errno, Handle};
use rustix::fs::{self as sys, AtFlags, FallocateFlags, Mode, OFlags, ResolveFlags, SeekFrom};
use rustix::io::ReadWriteFlags;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::boot::Boot;
use super::windows::{Slot, Windows};
use super::{Disk, FormatError, Object, StoreName, View, Waiting, copy_bytes, format};
use crate::loans::WRITING;
use crate::lock::spread;
use crate::recent::Recent;

/// A store on a local file system.
pub struct LocalDisk {
    store: Arc<Store>,
    shards: Box<[Shard]>,
}

/// Some of the open objects.
type Shard = Mutex<Recent<Handle, Arc<LocalObject>>>;

/// What the disk and its open objects share.
struct Store {
    root: PathBuf,
    directory: OwnedFd,
    /// Whether reads can be asked not to wait; false where the file system does not know how.
    nowait: AtomicBool,
    /// Whether the file system is memory, so that no read waits.
    in_memory: bool,
    /// Closed with writes not synced: an error of writing them back may not be told to the next
    /// descriptor, only to [`Store::sync_all`].
    closed_dirty: Mutex<HashSet<Handle>>,
    /// Of those, the ones that were not synced when the store failed to be.
    lost: Mutex<HashSet<Handle>>,
    /// Directories of objects whose own names are on stable storage; 65,536 at most.
    reachable: Mutex<HashSet<String>>,
    windows: Windows,
    opened: Instant,
    /// What others may write, and until when: what is opened again has to know. At most [`LENT_MAX`].
    lent: Mutex<HashMap<Handle, u64>>,
    boot: Boot,
    _locked: File,
}

struct LocalObject {
    store: Arc<Store>,
    handle: Handle,
    file: OwnedFd,
    dirty: AtomicBool,
    /// The file's size, or [`UNKNOWN`]: while it is lent for writing, too. Else nobody but this daemon changes it, and
    /// not while another of its threads uses the object.
    size: AtomicU64,
    /// Until when others may write it, in milliseconds after the store was opened.
    lent_until_ms: AtomicU64,
    /// Whether its name is known to be on stable storage.
    name_synced: AtomicBool,
    window: Arc<Slot>,
}

impl LocalDisk {
    /// Makes an empty directory the store of `iod`.
    pub fn format(root: &Path, iod: &str) -> Result<StoreName, FormatError> {
        format::format(root, iod)
    }

    /// Opens the store of `iod`, alone.
    pub fn open(root: &Path, iod: &str) -> Result<Self, FormatError> {
        Self::with_descriptors(root, iod, descriptors_max())
    }

    /// Opens the store of `iod`, which will keep about `descriptors_max` objects open.
    pub fn with_descriptors(
        root: &Path,
        iod: &str,
        descriptors_max: usize,
    ) -> Result<Self, FormatError> {
        let (locked, _) = format::open(root, iod)?;
        let store = Store::open(root, locked)
            .map_err(|source| FormatError::System { path: root.to_owned(), source })?;
        let per_shard = descriptors_max.div_ceil(SHARDS);
        let shards = (0..SHARDS).map(|_| Mutex::new(Recent::new(per_shard))).collect();
        Ok(Self { store: Arc::new(store), shards })
    }

    fn shard(&self, handle: Handle) -> MutexGuard<'_, Recent<Handle, Arc<LocalObject>>> {
        let shard = (spread(handle) >> 32) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self, handle: Handle) -> Option<Arc<LocalObject>> {
        self.shard(handle).get(&handle).cloned()
    }

    /// Keeps a new descriptor, unless another thread was faster; then its object is used.
    fn keep(&self, handle: Handle, file: OwnedFd) -> Arc<LocalObject> {
        let mut shard = self.shard(handle);
        if let Some(object) = shard.get(&handle) {
            return Arc::clone(object);
        }
        let object = Arc::new(LocalObject::new(Arc::clone(&self.store), handle, file));
        if let Some(closed) = shard.insert(handle, Arc::clone(&object)) {
            closed.will_close();
        }
        object
    }

    /// Opens a file, making room for its descriptor when the process has none left.
    fn open_with(
        &self,
        mut attempt: impl FnMut() -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<OwnedFd> {
        match attempt() {
            Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                self.close_some();
                attempt()
            }
            outcome => outcome,
        }
    }

    fn close_some(&self) {
        for shard in &self.shards {
            let closed = shard.lock().unwrap_or_else(PoisonError::into_inner).evict(None);
            if let Some(object) = closed {
                object.will_close();
            }
        }
    }
}

impl Disk for LocalDisk {
    fn find(&self, handle: Handle, waiting: Waiting) -> Result<Option<Arc<dyn Object>>, Errno> {
        if let Some(object) = self.cached(handle) {
            return Ok(Some(object));
        }
        match self.open_with(|| self.store.open_existing(handle, FILE, waiting)) {
            Ok(file) => Ok(Some(self.keep(handle, file))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }

    fn find_to_read(
        &self,
        handle: Handle,
        waiting: Waiting,
    ) -> Result<Option<Arc<dyn Object>>, Errno> {
        match self.find(handle, waiting) {
            Err(Errno::EROFS) => {
                let open = || self.store.open_existing(handle, FILE_TO_READ, waiting);
                let file = self.open_with(open).map_err(errno)?;
                // It is not kept: once the store can be written again, writers open it anew.
                Ok(Some(Arc::new(LocalObject::new(Arc::clone(&self.store), handle, file))))
            }
            found => Ok(found?),
        }
    }

    fn create(&self, handle: Handle) -> Result<Arc<dyn Object>, Errno> {
        if let Some(object) = self.cached(handle) {
            return Ok(object);
        }
        let file = self.open_with(|| self.store.open_or_create(handle)).map_err(errno)?;
        Ok(self.keep(handle, file))
    }

    fn others_may_write_some(&self) -> bool {
        self.store.others_may_write_some()
    }

    fn others_may_write_all(&self) -> bool {
        self.store.others_may_write_all()
    }

    fn stat(&self, handle: Handle) -> Result<ObjectStat, Errno> {
        if let Some(object) = self.cached(handle) {
            return object.stat();
        }
        match sys::statat(&self.store.directory, path(handle), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(object_stat(&stat)),
            Err(rustix::io::Errno::NOENT) => Ok(ObjectStat::default()),
            Err(error) => Err(errno(error)),
        }
    }

    fn remove(&self, handle: Handle) -> Result<(), Errno> {
        self.shard(handle).remove(&handle);
        self.store.closed_dirty().remove(&handle);
        match sys::unlinkat(&self.store.directory, path(handle), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(errno(error)),
        }
    }

    fn list(&self, fsid: u32, visit: &mut dyn FnMut(Handle, ObjectStat)) -> Result<(), Errno> {
        let top = self.store.root.join(format!("{fsid:08x}/objects"));
        for middle in children(&top)? {
            for leaf in children(&middle)? {
                for file in children(&leaf)? {
                    let name = file.file_name().and_then(|name| name.to_str());
                    if let Some(handle) = name.and_then(|name| parse_name(fsid, name)) {
                        visit(handle, self.stat(handle)?);
                    }
                }
            }
        }
        Ok(())
    }

    fn commit(&self) -> Result<(), Errno> {
        self.store.sync_all()
    }

    fn boot(&self) -> u64 {
        self.store.boot.number()
    }

    fn end_boot(&self) {
        self.store.boot.end();
    }

    fn keep_boot(&self) -> Result<(), Errno> {
        self.store.boot.keep().map_err(|error| Errno(error.raw_os_error().unwrap_or(5) as u32))
    }

    fn space(&self) -> Result<StoreStat, Errno> {
        let space = sys::fstatvfs(&self.store.directory).map_err(errno)?;
        Ok(StoreStat {
            disk: self.store.boot.disk(),
            total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
            free_bytes: space.f_bfree.saturating_mul(space.f_frsize),
            available_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        })
    }

    fn is_memory(&self) -> bool {
        self.store.in_memory
    }

    fn open_objects(&self) -> usize {
        let count = |shard: &Mutex<Recent<_, _>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.shards.iter().map(count).sum()
    }
}

impl Store {
    fn open(root: &Path, locked: File) -> std::io::Result<Self> {
        let directory = sys::open(root, DIRECTORY, Mode::empty())?;
        let boot = Boot::begin(root, &directory)?;
        let in_memory = sys::fstatfs(&directory)?.f_type as u64 == TMPFS_MAGIC;
        Ok(Self {
            root: root.to_owned(),
            directory,
            nowait: AtomicBool::new(true),
            in_memory,
            closed_dirty: Mutex::default(),
            lost: Mutex::default(),
            reachable: Mutex::default(),
            windows: Windows::new(),
            opened: Instant::now(),
            lent: Mutex::default(),
            boot,
            _locked: locked,
        })
    }

    fn open_existing(
        &self,
        handle: Handle,
        how: OFlags,
        waiting: Waiting,
    ) -> rustix::io::Result<OwnedFd> {
        use rustix::io::Errno as Refusal;
        let (path, mode, cached) = (path(handle), Mode::empty(), ResolveFlags::CACHED);
        match waiting {
            Waiting::Allowed => sys::openat(&self.directory, path, how, mode),
            Waiting::Never => match sys::openat2(&self.directory, path, how, mode, cached) {
                // Older kernels and sandboxes do not have it: whoever may wait opens it.
                Err(Refusal::NOSYS | Refusal::PERM | Refusal::INVAL) => Err(Refusal::AGAIN),
                outcome => outcome,
            },
        }
    }

    fn open_or_create(&self, handle: Handle) -> rustix::io::Result<OwnedFd> {
        let mode = Mode::RUSR | Mode::WUSR;
        let attempt = || sys::openat(&self.directory, path(handle), FILE | OFlags::CREATE, mode);
        match attempt() {
            Err(rustix::io::Errno::NOENT) => {
                self.make_directories(handle)?;
                attempt()
            }
            outcome => outcome,
        }
    }

    fn make_directories(&self, handle: Handle) -> rustix::io::Result<()> {
        for directory in directories(handle) {
            match sys::mkdirat(&self.directory, directory, Mode::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Syncs the object's directory and, once for each directory, those that lead there.
    fn sync_name(&self, handle: Handle) -> rustix::io::Result<()> {
        let [filesystem, objects, middle, leaf] = directories(handle);
        self.sync_directory(&leaf)?;
        if self.reachable().contains(&leaf) {
            return Ok(());
        }
        for directory in [&middle, &objects, &filesystem] {
            self.sync_directory(directory)?;
        }
        sys::fsync(&self.directory)?;
        self.reachable().insert(leaf);
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> rustix::io::Result<()> {
        sys::fsync(sys::openat(&self.directory, directory, DIRECTORY, Mode::empty())?)
    }

    fn reachable(&self) -> MutexGuard<'_, HashSet<String>> {
        self.reachable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel tells of a failure once, so all that may be meant is noted then.
    fn sync_all(&self) -> Result<(), Errno> {
        let closed = std::mem::take(&mut *self.closed_dirty());
        let outcome = sys::syncfs(&self.directory).map_err(errno);
        if outcome.is_err() {
            self.lost().extend(closed);
        }
        outcome
    }

    /// Milliseconds since it was opened.
    fn age_ms(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }

    /// Others may write the object; returns until when. EAGAIN when there are too many.
    fn lend_for_writing(&self, handle: Handle) -> Result<u64, Errno> {
        let (now, mut lent) = (self.age_ms(), self.lent());
        if lent.len() >= LENT_MAX {
            lent.retain(|_, until| now < *until);
        }
        if lent.len() >= LENT_MAX {
            return Err(Errno::EAGAIN);
        }
        let until = now + WRITING.as_millis() as u64;
        lent.insert(handle, until);
        Ok(until)
    }

    /// Until when others may write the object. After a daemon that was killed that may be any.
    fn lent_until_ms(&self, handle: Handle) -> Option<u64> {
        let until_all = self.others_may_write_all().then_some(WRITING.as_millis() as u64);
        self.lent().get(&handle).copied().max(until_all)
    }

    fn others_may_write_some(&self) -> bool {
        let now = self.age_ms();
        self.others_may_write_all() || self.lent().values().any(|until| now < *until)
    }

    fn others_may_write_all(&self) -> bool {
        self.boot.was_killed() && self.opened.elapsed() < WRITING
    }

    fn lent(&self) -> MutexGuard<'_, HashMap<Handle, u64>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed_dirty(&self) -> MutexGuard<'_, HashSet<Handle>> {
        self.closed_dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, HashSet<Handle>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalObject {
    fn new(store: Arc<Store>, handle: Handle, file: OwnedFd) -> Self {
        let [dirty, name_synced] = [false, false].map(AtomicBool::new);
        let (size, lent_until_ms) = (AtomicU64::new(UNKNOWN), AtomicU64::new(0));
        let (lent, window) = (store.lent_until_ms(handle), Arc::default());
        let object = Self { store, handle, file, dirty, size, lent_until_ms, name_synced, window };
        if let Some(until_ms) = lent {
            object.others_write(until_ms);
        }
        object
    }

    /// Others may write it until then.
    fn others_write(&self, until_ms: u64) {
        self.lent_until_ms.store(until_ms, Relaxed);
        self.size.store(UNKNOWN, Relaxed);
    }

    fn is_written_by_others(&self) -> bool {
        match self.lent_until_ms.load(Relaxed) {
            0 => false,
            until => self.store.age_ms() < until,
        }
    }

    fn will_close(&self) {
        // What others write does not show here.
        let was_lent = self.lent_until_ms.load(Relaxed) > 0;
        if self.dirty.load(Relaxed) || was_lent {
            self.store.closed_dirty().insert(self.handle);
        }
    }

    fn read_waiting(&self, local: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.file, &mut into[done..], local + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(done)
    }

    fn read_at_once(&self, local: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let pieces = &mut [std::io::IoSliceMut::new(into)];
        match rustix::io::preadv2(&self.file, pieces, local, ReadWriteFlags::NOWAIT) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                self.store.nowait.store(false, Relaxed);
                Err(Errno::EAGAIN)
            }
            outcome => outcome.map_err(errno),
        }
    }

    fn write_all(&self, local: u64, from: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < from.len() {
            match rustix::io::pwrite(&self.file, &from[done..], local + done as u64) {
                Ok(0) => return Err(Errno::EIO),
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(())
    }

    fn fallocate(&self, flags: FallocateFlags, range: &Range<u64>) -> Result<(), Errno> {
        loop {
            match sys::fallocate(&self.file, flags, range.start, range.end - range.start) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => return outcome.map_err(errno),
            }
        }
    }

    /// lseek(2); the position of the descriptor, which others move too, is of no use to anybody. A file
    /// system that does not know holes has none: `otherwise` is the answer.
    fn seek(&self, to: SeekFrom, otherwise: u64) -> Result<Option<u64>, Errno> {
        match sys::seek(&self.file, to) {
            Ok(found) => Ok(Some(found)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(otherwise)),
            Err(error) => Err(errno(error)),
        }
    }

    fn sync_file(&self) -> Result<(), Errno> {
        if self.store.closed_dirty().contains(&self.handle) {
            self.store.sync_all()?;
        }
        if self.store.lost().contains(&self.handle) {
            return Err(Errno::EIO);
        }
        sys::fdatasync(&self.file).map_err(errno)?;
        if !self.name_synced.load(Relaxed) {
            self.store.sync_name(self.handle).map_err(errno)?;
            self.name_synced.store(true, Relaxed);
        }
        Ok(())
    }
}

impl Drop for LocalObject {
    /// Whoever else remembers the window does not keep the file in use.
    fn drop(&mut self) {
        self.window.close();
    }
}

impl Object for LocalObject {
    fn read_at(&self, local: u64, into: &mut [u8], waiting: Waiting) -> Result<usize, Errno> {
        match waiting {
            Waiting::Never if self.store.in_memory => self.read_waiting(local, into),
            Waiting::Never if self.store.nowait.load(Relaxed) => self.read_at_once(local, into),
            Waiting::Never => Err(Errno::EAGAIN),
            Waiting::Allowed => self.read_waiting(local, into),
        }
    }

    fn write_at(&self, local: u64, from: &[u8]) -> Result<(), Errno> {
        if from.is_empty() {
            return Ok(());
        }
        self.dirty.store(true, Relaxed);
        let known = self.size.swap(UNKNOWN, Relaxed);
        self.write_all(local, from)?;
        if known != UNKNOWN && !self.is_written_by_others() {
            self.size.store(known.max(local + from.len() as u64), Relaxed);
        }
        Ok(())
    }

    fn allocate(&self, how: Allocation, range: Range<u64>, grow: bool) -> Result<(), Errno> {
        if range.is_empty() {
            return Ok(());
        }
        self.dirty.store(true, Relaxed);
        self.size.store(UNKNOWN, Relaxed);
        let keep = if grow { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match how {
            Allocation::Reserve => self.fallocate(keep, &range),
            Allocation::Punch => self.fallocate(punch, &range),
            Allocation::Zero => match self.fallocate(FallocateFlags::ZERO_RANGE | keep, &range) {
                // tmpfs knows the one and the other, but not both at once.
                Err(Errno::EOPNOTSUPP) => {
                    self.fallocate(punch, &range)?;
                    self.fallocate(keep, &range)
                }
                outcome => outcome,
            },
        }
    }

    fn next_data(&self, local: u64) -> Result<Option<u64>, Errno> {
        self.seek(SeekFrom::Data(local), local)
    }

    fn next_hole(&self, local: u64) -> Result<Option<u64>, Errno> {
        let end = self.local_size()?;
        Ok(self.seek(SeekFrom::Hole(local), end)?.filter(|_| local < end))
    }

    fn copy_from(
        &self,
        source: &dyn Object,
        from: u64,
        local: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        self.dirty.store(true, Relaxed);
        self.size.store(UNKNOWN, Relaxed);
        let (mut from, mut to) = (from, local);
        let end = local + bytes;
        while to < end {
            let Some(descriptor) = source.descriptor() else { break };
            let left = (end - to) as usize;
            match sys::copy_file_range(descriptor, Some(&mut from), &self.file, Some(&mut to), left)
            {
                Ok(0) => return Err(Errno::EIO),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // The local file system cannot, or not here: byte by byte then.
                Err(
                    rustix::io::Errno::OPNOTSUPP
                    | rustix::io::Errno::NOSYS
                    | rustix::io::Errno::INVAL
                    | rustix::io::Errno::XDEV,
                ) => break,
                Err(error) => return Err(errno(error)),
            }
        }
        copy_bytes(source, from, self, to, end - to)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn truncate(&self, local_size: u64) -> Result<(), Errno> {
        self.dirty.store(true, Relaxed);
        self.size.store(UNKNOWN, Relaxed);
        sys::ftruncate(&self.file, local_size).map_err(errno)
    }

    fn sync(&self) -> Result<(), Errno> {
        let was_dirty = self.dirty.swap(false, Relaxed);
        let outcome = self.sync_file();
        if outcome.is_err() && was_dirty {
            self.dirty.store(true, Relaxed);
        }
        outcome
    }

    fn stat(&self) -> Result<ObjectStat, Errno> {
        sys::fstat(&self.file).map(|stat| object_stat(&stat)).map_err(errno)
    }

    fn lend(&self, purpose: LoanFor) -> Result<OwnedFd, Errno> {
        let access = match purpose {
            LoanFor::Reading => OFlags::RDONLY,
            LoanFor::Writing => OFlags::WRONLY,
        };
        if purpose == LoanFor::Writing {
            self.others_write(self.store.lend_for_writing(self.handle)?);
        }
        let again = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        sys::open(again, access | OFlags::CLOEXEC, Mode::empty()).map_err(errno)
    }

    fn view(&self, range: Range<u64>) -> Option<View> {
        if range.end - range.start < VIEWED_BYTES_MIN || self.is_written_by_others() {
            return None;
        }
        let window = self.store.windows.find((self.handle, &self.file), &self.window, &range)?;
        window.is_in_memory(&range).then_some(View { window, range })
    }

    fn local_size(&self) -> Result<u64, Errno> {
        match self.size.load(Relaxed) {
            UNKNOWN => {
                let size = self.stat()?.local_size;
                if !self.is_written_by_others() {
                    self.size.store(size, Relaxed);
                }
                Ok(size)
            }
            size => Ok(size),
        }
    }
}

/// The object's file, from the store's root.
fn path(handle: Handle) -> String {
    let (middle, leaf) = hashed(handle);
    let Handle { fsid, generation, object } = handle;
    format!("{fsid:08x}/objects/{middle:02x}/{leaf:02x}/{object:016x}.{generation:08x}")
}

/// The directories that lead to the object, outermost first.
fn directories(handle: Handle) -> [String; 4] {
    let (middle, leaf) = hashed(handle);
    let fsid = handle.fsid;
    [
        format!("{fsid:08x}"),
        format!("{fsid:08x}/objects"),
        format!("{fsid:08x}/objects/{middle:02x}"),
        format!("{fsid:08x}/objects/{middle:02x}/{leaf:02x}"),
    ]
}

fn hashed(handle: Handle) -> (u8, u8) {
    ((handle.object >> 16) as u8, (handle.object >> 8) as u8)
}

/// The handle of a file name, if it is one of ours.
fn parse_name(fsid: u32, name: &str) -> Option<Handle> {
    let (object, generation) = name.split_once('.')?;
    let handle = Handle {
        fsid,
        generation: u32::from_str_radix(generation, 16).ok()?,
        object: u64::from_str_radix(object, 16).ok()?,
    };
    path(handle).ends_with(&format!("/{name}")).then_some(handle)
}

/// What is in a directory; nothing when there is none.
fn children(directory: &Path) -> Result<Vec<PathBuf>, Errno> {
    let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(5) as u32);
    match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
        }
    }
}

fn object_stat(stat: &sys::Stat) -> ObjectStat {
    ObjectStat {
        local_size: stat.st_size as u64,
        disk_bytes: stat.st_blocks as u64 * 512,
        mtime: Time { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error() as u32)
}

/// Half of what the process may open, after it was allowed all it can be; the rest is for connections.
fn descriptors_max() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Keeping the lower limit is no harm: there are only fewer descriptors to keep.
    let _ = setrlimit(Resource::Nofile, limit);
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX * 2);
    (allowed / 2).clamp(SHARDS as u64, DESCRIPTORS_MAX) as usize
}

const FILE: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

const FILE_TO_READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Of a size: larger than any file.
const UNKNOWN: u64 = u64::MAX;
/// Below, one copy more costs less than asking what is in memory.
const VIEWED_BYTES_MIN: u64 = 32 << 10;

const TMPFS_MAGIC: u64 = 0x0102_1994;
/// So that reactors and workers rarely meet at one.
const SHARDS: usize = 16;

/// Objects lent for writing at once.
const LENT_MAX: usize = 16 << 10;
/// An open file costs the kernel about a kilobyte besides its inode.
const DESCRIPTORS_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::conformance;

    fn open(root: &Path) -> LocalDisk {
        LocalDisk::with_descriptors(root, "io0", 32).unwrap()
    }

    fn formatted() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        LocalDisk::format(dir.path(), "io0").unwrap();
        dir
    }

    fn handle(object: u64) -> Handle {
        Handle { fsid: 7, generation: 1, object }
    }

    #[test]
    fn behaves_as_a_disk_should() {
        conformance::all(|| {
            let dir = formatted();
            let disk = open(dir.path());
            (Box::new(disk), Box::new(dir))
        });
    }

    #[test]
    fn an_object_is_where_the_document_says() {
        let dir = formatted();
        let object = Handle { fsid: 0xa, generation: 0xb, object: 0x0102_0304 };
        open(dir.path()).create(object).unwrap().write_at(0, b"x").unwrap();
        let file = "0000000a/objects/02/03/0000000001020304.0000000b";
        assert_eq!(std::fs::read(dir.path().join(file)).unwrap(), b"x");
    }

    #[test]
    fn objects_survive_a_restart_and_are_listed() {
        let dir = formatted();
        let disk = open(dir.path());
        for object in [1, 300, 70_000] {
            disk.create(handle(object)).unwrap().write_at(object, b"abc").unwrap();
        }
        drop(disk);
        let mut found = Vec::new();
        open(dir.path()).list(7, &mut |at, stat| found.push((at.object, stat.local_size))).unwrap();
        found.sort_unstable();
        assert_eq!(found, [(1, 4), (300, 303), (70_000, 70_003)]);
    }

    #[test]
    fn few_descriptors_serve_many_objects_and_their_syncs() {
        let dir = formatted();
        let disk = open(dir.path());
        for object in 0..500 {
            disk.create(handle(object)).unwrap().write_at(0, &object.to_le_bytes()).unwrap();
        }
        assert!(disk.open_objects() <= 32, "{} open", disk.open_objects());
        assert!(disk.store.closed_dirty().len() >= 468);
        disk.find(handle(0), Waiting::Allowed).unwrap().unwrap().sync().unwrap();
        assert!(disk.store.closed_dirty().len() <= 32, "one sync of the whole store cleared it");
        for object in 0..500u64 {
            let mut bytes = [0; 8];
            let found = disk.find(handle(object), Waiting::Allowed).unwrap().unwrap();
            assert_eq!(found.read_at(0, &mut bytes, Waiting::Allowed), Ok(8));
            assert_eq!(u64::from_le_bytes(bytes), object);
        }
    }

    #[test]
    fn what_is_lent_for_writing_may_be_written_by_others() {
        let dir = formatted();
        let disk = open(dir.path());
        let object = disk.create(handle(1)).unwrap();
        object.lend(LoanFor::Reading).unwrap();
        assert!(!disk.others_may_write_some());
        let lent = object.lend(LoanFor::Writing).unwrap();
        assert!(disk.others_may_write_some() && !disk.others_may_write_all());
        assert_eq!(object.local_size(), Ok(0));
        sys::ftruncate(&lent, 9).unwrap();
        assert_eq!(object.local_size(), Ok(9), "no size is kept");
        drop((object, disk));
        let next = open(dir.path());
        assert!(next.others_may_write_all() && next.others_may_write_some(), "it was killed");
        next.keep_boot().unwrap();
        drop(next);
        assert!(!open(dir.path()).others_may_write_some());
    }

    #[test]
    fn a_removed_object_gives_its_space_back_and_stays_away() {
        let dir = formatted();
        let disk = open(dir.path());
        disk.create(handle(1)).unwrap().write_at(0, &[1; 100]).unwrap();
        disk.remove(handle(1)).unwrap();
        assert!(disk.find(handle(1), Waiting::Allowed).unwrap().is_none());
        assert_eq!(disk.open_objects(), 0);
        assert!(!dir.path().join(path(handle(1))).exists());
    }
}
