//! One process: its users, its descriptors, its place in the name space.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use pvfs_client::credentials::{Identity, Issuer};
use pvfs_client::{Filesystem, Options, User, View, block_on};
use pvfs_config::Cluster;
use pvfs_net::blocking::Blocking;
use pvfs_net::runtime::Runtime;
use pvfs_wire::token::SessionRights;
use pvfs_wire::{Errno, Handle};
use rustix::fs::OFlags;

use crate::description::{Description, Own};
use crate::errno::{Reach, Stop};
use crate::numbers::{IS_KEPT_SAFE, OURS};
use crate::open::is_nameless;
use crate::paths::Prefix;
use crate::record::Record;
use crate::runtime::Apart;
use crate::settings::Settings;
use crate::shared;
use crate::working::Working;

/// A process that uses the file system.
pub struct Process {
    pub(crate) prefix: Prefix,
    pub(crate) settings: Settings,
    pub(crate) working: RwLock<Option<Working>>,
    pub(crate) umask: AtomicU32,
    pub(crate) locks: Mutex<RangeLocks>,
    connected: Mutex<Connected>,
    table: RwLock<BTreeMap<RawFd, Entry>>,
}

/// The byte-range locks of this process (F_SETLK).
pub(crate) struct RangeLocks {
    /// The number by which it owns them, drawn by lot: who knows it is this process, or what it executed.
    pub(crate) owner: u64,
    /// Files on which it took some.
    pub(crate) files: HashSet<Handle>,
}

/// What a number was, when somebody looked last.
struct Entry {
    description: Arc<Description>,
    /// When that was, by the clock that steps a few hundred times a second; 0 for never.
    seen: AtomicU64,
}

/// What talks to the daemons, made when first needed.
#[derive(Default)]
struct Connected {
    filesystem: Option<(Arc<Filesystem<Apart>>, Issuer)>,
    users: HashMap<(u32, u32), User<Apart>>,
}

impl Process {
    /// Contacts nobody yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            prefix: Prefix::new(&settings.prefix).and(settings.also.as_deref()),
            settings,
            working: RwLock::new(None),
            umask: AtomicU32::new(UNKNOWN),
            locks: Mutex::new(RangeLocks { owner: Apart.random(), files: HashSet::new() }),
            connected: Mutex::default(),
            table: RwLock::default(),
        }
    }

    /// Where the file system appears.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The user this process acts as now.
    pub fn user(&self) -> Result<User<Apart>, Errno> {
        let who = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut connected = self.connected.lock().expect(NO_PANIC);
        if let Some(user) = connected.users.get(&who) {
            return Ok(user.clone());
        }
        let (filesystem, issuer) = connected.filesystem(&self.settings)?;
        let principal = issuer
            .principal(Identity::of_process(), SessionRights::NONE)
            .map_err(|error| crate::program_errno(&error))?;
        let user = User::new(filesystem, principal);
        connected.users.insert(who, user.clone());
        Ok(user)
    }

    /// The root directory.
    pub(crate) fn root(&self, user: &User<Apart>) -> Reach<Handle> {
        Ok(block_on(user.root())?)
    }

    /// What the umask is. Who says so once says every change too.
    pub fn note_umask(&self, umask: u32) {
        self.umask.store(umask & 0o777, Ordering::Relaxed);
    }

    /// What is taken off the permissions of objects that an open makes.
    pub(crate) fn umask_of(&self, flags: OFlags) -> u32 {
        let makes = flags.contains(OFlags::CREATE) || is_nameless(flags);
        if makes { self.umask() } else { 0 }
    }

    /// What is taken off the permissions of new objects. The kernel tells only by setting it, which other threads would
    /// see, or in /proc; what it told is old when the program calls umask(2) and nobody notes it.
    pub(crate) fn umask(&self) -> u32 {
        let known = self.umask.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return known;
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let umask = line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
        umask.unwrap_or(0o022)
    }

    /// Puts a new description behind a descriptor of its own.
    pub(crate) fn install(
        &self,
        record: Record,
        own: Option<Arc<Own>>,
        status: u32,
        close_on_exec: bool,
    ) -> Reach<OwnedFd> {
        use pvfs_wire::Wire;
        let name = format!("pvfs:{:08x}", record.handle.fsid);
        let (fd, shared) = shared::create(&name, &record.to_bytes(), close_on_exec)?;
        shared.set_status(status);
        let identity = shared::identity(fd.as_raw_fd()).ok_or(Errno::EBADF)?;
        let mark = shared::mark(fd.as_raw_fd());
        let description = Arc::new(Description::new(record, shared, identity, mark));
        if let Some(own) = own {
            description.opened(own);
        }
        if !self.enter(fd.as_raw_fd(), description) {
            return Err(Errno::EMFILE.into());
        }
        Ok(fd)
    }

    /// A number means this description from now on.
    pub(crate) fn enter(&self, fd: RawFd, description: Arc<Description>) -> bool {
        if !OURS.insert(fd) {
            return false;
        }
        description.descriptors.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { description, seen: AtomicU64::new(0) };
        let before = self.table.write().expect(NO_PANIC).insert(fd, entry);
        // Closed behind our back: the lease of this process ends what nobody closes.
        drop(before);
        true
    }

    /// What a descriptor is of. `NotOurs` when its number means something else by now.
    pub fn description(&self, fd: RawFd) -> Reach<Arc<Description>> {
        let known = self.table.read().expect(NO_PANIC).get(&fd).map(|entry| entry.look(fd));
        match known {
            Some(Some(known)) => Ok(known),
            Some(None) => {
                self.forget(fd);
                self.discover(fd)
            }
            None => self.discover(fd),
        }
    }

    /// A number was given out: what it meant before is looked at again.
    pub fn doubt(&self, fd: RawFd) {
        if let Some(entry) = self.table.read().expect(NO_PANIC).get(&fd) {
            entry.seen.store(0, Ordering::Relaxed);
        }
    }

    /// Finds out whether a descriptor that came from elsewhere is one of ours.
    pub fn discover(&self, fd: RawFd) -> Reach<Arc<Description>> {
        let identity = shared::identity(fd).ok_or(Stop::NotOurs);
        let found = identity.and_then(|identity| {
            if let Some(known) = self.known(identity) {
                return Ok(known);
            }
            let (bytes, shared) = shared::open(shared::borrow(fd).as_fd())?;
            let record = Record::decode(&bytes)?;
            Ok(Arc::new(Description::new(record, shared, identity, shared::mark(fd))))
        });
        match found {
            Ok(description) if self.enter(fd, description.clone()) => Ok(description),
            _ => {
                OURS.remove(fd);
                Err(Stop::NotOurs)
            }
        }
    }

    /// The description behind another descriptor of the same memfd.
    fn known(&self, identity: (u64, u64)) -> Option<Arc<Description>> {
        let table = self.table.read().expect(NO_PANIC);
        let mut descriptions = table.values().map(|entry| &entry.description);
        descriptions.find(|description| description.identity == identity).cloned()
    }

    /// A second descriptor of the same description: dup(2) and its kin have made it.
    pub fn duplicated(&self, from: RawFd, to: RawFd) -> Reach<()> {
        let description = self.description(from)?;
        if self.enter(to, description) { Ok(()) } else { Err(Errno::EBADF.into()) }
    }

    /// A descriptor is about to be closed, or to be made another's. Ends what hangs on it; the number itself is
    /// the caller's to close.
    pub fn release(&self, fd: RawFd) -> Reach<()> {
        let Some(description) = self.forget(fd) else { return Ok(()) };
        let _ = self.drop_range_locks(&description);
        if description.descriptors.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        self.end(&description)
    }

    /// The last descriptor here is gone: this process has the file open no more.
    fn end(&self, description: &Description) -> Reach<()> {
        self.drop_own_locks(description);
        let mut outcome = Ok(());
        for own in description.take_own() {
            if let Some((user, file)) = Own::unused(own) {
                outcome = outcome.and(block_on(user.close(file)).map_err(Stop::from));
            }
        }
        outcome
    }

    /// Closes at the manager whatever is open, before the process ends. What is used later is opened again.
    pub fn end_all(&self) {
        for description in self.descriptions() {
            let ended = self.drop_range_locks(&description).and_then(|()| self.end(&description));
            // Where one is not answered in its time the others would wait as long; the lease ends them.
            if ended == Err(Errno::EIO.into()) {
                return;
            }
        }
    }

    fn forget(&self, fd: RawFd) -> Option<Arc<Description>> {
        OURS.remove(fd);
        let Entry { description, .. } = self.table.write().expect(NO_PANIC).remove(&fd)?;
        description.descriptors.fetch_sub(1, Ordering::Relaxed);
        Some(description)
    }

    /// close(2), for callers that have no kernel call of their own to make.
    pub fn close(&self, fd: RawFd) -> Reach<()> {
        if !OURS.has(fd) {
            return Err(Stop::NotOurs);
        }
        let released = self.release(fd);
        shared::close_copy(fd);
        released
    }

    /// Runs an operation on this process's own open of a file. One that the manager has forgotten (its lease
    /// was lost while it was idle) is made once more.
    pub(crate) fn with_own<T>(
        &self,
        description: &Description,
        appending: bool,
        operation: impl Fn(&Own) -> pvfs_client::Result<T>,
    ) -> Reach<T> {
        let own = self.own(description, appending)?;
        match operation(&own) {
            Err(error) if error.errno() == Errno::EBADF => {
                description.disown();
                let own = self.own(description, appending)?;
                Ok(operation(&own)?)
            }
            done => Ok(done?),
        }
    }

    /// This process's own open of a file.
    pub(crate) fn own(&self, description: &Description, appending: bool) -> Reach<Arc<Own>> {
        if description.record.path_only {
            return Err(Errno::EBADF.into());
        }
        if !description.record.is_file() {
            return Err(Errno::EISDIR.into());
        }
        let group = &description.record.group;
        if !group.is_empty() && appending {
            return Err(Errno::EINVAL.into());
        }
        description.own(appending, |flags| {
            let user = self.user()?;
            if !group.is_empty() {
                let file = Arc::new(user.openfh(group)?);
                return Ok(Own { user, file });
            }
            let file = block_on(user.adopt(&description.record.inheritance(flags)))?;
            Ok::<_, Stop>(Own { user, file: Arc::new(file) })
        })
    }

    pub(crate) fn locks(&self) -> MutexGuard<'_, RangeLocks> {
        self.locks.lock().expect(NO_PANIC)
    }

    /// The partitions that are set, for the child of a fork: where another thread was changing the table, none.
    pub(crate) fn views_at_fork(&self) -> Vec<((u64, u64), View)> {
        let Ok(table) = self.table.try_read() else { return Vec::new() };
        let open = table.values().map(|entry| &entry.description);
        open.filter_map(|open| Some((open.identity, open.view_of_parent()?))).collect()
    }

    /// The descriptors, and the files that they are of.
    pub(crate) fn handles(&self) -> Vec<(RawFd, Handle)> {
        let table = self.table.read().expect(NO_PANIC);
        table.iter().map(|(fd, entry)| (*fd, entry.description.record.handle)).collect()
    }

    /// What is open: a description once for each of its descriptors.
    pub(crate) fn descriptions(&self) -> Vec<Arc<Description>> {
        let table = self.table.read().expect(NO_PANIC);
        table.values().map(|entry| entry.description.clone()).collect()
    }
}

impl Entry {
    /// The description, if the number still means it.
    ///
    /// The kernel is asked, which costs a tenth of a small write. Where all calls that close or replace a descriptor come
    /// through us it is asked once in each step of a clock: what may still happen behind our back is a system call that the
    /// program makes without the C library, and then a call of the library on the new file within the same step. The
    /// numbers of standard input and output the C library itself replaces (daemon(3), login_tty(3)).
    fn look(&self, fd: RawFd) -> Option<Arc<Description>> {
        let is_safe = IS_KEPT_SAFE.load(Ordering::Relaxed) && fd > rustix::stdio::raw_stderr();
        let now = if is_safe { Blocking.now_about().0 } else { 0 };
        if now == 0 || self.seen.load(Ordering::Relaxed) != now {
            self.description.is_behind(fd).then_some(())?;
            self.seen.store(now, Ordering::Relaxed);
        }
        Some(self.description.clone())
    }
}

impl Connected {
    fn filesystem(
        &mut self,
        settings: &Settings,
    ) -> Result<(Arc<Filesystem<Apart>>, Issuer), Errno> {
        if let Some(known) = &self.filesystem {
            return Ok(known.clone());
        }
        let path = match &settings.config {
            Some(path) => path.clone(),
            None => pvfs_config::find(None).map_err(|_| Errno::ENODEV)?,
        };
        let cluster = Cluster::load(&path).map_err(|_| Errno::ENODEV)?;
        let errno = |error: pvfs_client::Error| crate::program_errno(&error);
        let issuer = Issuer::of(&cluster).map_err(errno)?;
        // It is the preload library that sees to that.
        let is_preloaded = IS_KEPT_SAFE.load(Ordering::Relaxed);
        let program = if is_preloaded { "pvfs preload" } else { "pvfs library" };
        let options = Options::of(&cluster).named(program);
        let filesystem = Filesystem::new(Apart, &cluster, options).map_err(errno)?;
        self.filesystem = Some((filesystem.clone(), issuer.clone()));
        Ok((filesystem, issuer))
    }
}

/// Gives up ownership: the number is the program's from now on.
pub(crate) fn number(fd: OwnedFd) -> RawFd {
    fd.into_raw_fd()
}

/// No umask has so many bits.
pub(crate) const UNKNOWN: u32 = u32::MAX;

pub(crate) const NO_PANIC: &str = "no code panics while it holds this";
