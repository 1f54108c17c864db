//! What the kernel may believe, and taking it back.
//!
//! ```text
//! reply   gate (shared): look the answer up in the cache, tell the kernel how long it holds   gate released
//! recall  cache drops it ── gate (alone), so that whoever looked before has told ── notices ── acknowledged
//! ```
//!
//! The kernel is told that something holds only if the client's cache holds it at that moment, and no longer
//! than the lease lasts. Whatever was told before a recall has reached the kernel before the notice that takes
//! it back. A mount that hears nothing from its manager tells nothing more, and what it told runs out by itself.

use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock, RwLockReadGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};

use pvfs_client::cache::{Key, Mark, Named};
use pvfs_client::{Leaseholder, Lost, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_net::runtime::Runtime;
use pvfs_wire::Handle;
use pvfs_wire::attr::Attr;
use pvfs_wire::ops::{Recall, RecallKind};

use crate::mounted::Mounted;
use crate::notices::{Noticed, Notices};
use crate::options::Cache;
use crate::workers::Workers;

/// What is shared by those who tell the kernel and those who take back.
pub struct Coherence {
    gate: RwLock<()>,
    notices: OnceLock<Notices>,
    /// For notices that wait for locks of the kernel.
    waiting: Workers,
}

/// Names of which the kernel has not been told yet.
#[derive(Default)]
struct Pending {
    count: Mutex<usize>,
    none: Condvar,
}

impl Default for Coherence {
    fn default() -> Self {
        let waiting = Workers::new("pvfs-notice", NOTICES_AT_ONCE, NOTICES_MAX);
        Self { gate: RwLock::default(), notices: OnceLock::new(), waiting }
    }
}

impl Coherence {
    /// The device that notices are written to.
    pub fn connect(&self, notices: Notices) {
        let _ = self.notices.set(notices);
    }

    /// Held from the look into the cache until the kernel is told.
    pub fn telling(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().expect(NO_PANIC)
    }

    /// Waits for those who looked before now.
    fn wait_for_tellers(&self) {
        drop(self.gate.write().expect(NO_PANIC));
    }
}

impl Mounted {
    /// The attributes of a node, if they are known to hold now.
    pub fn kept(&self, node: u64) -> Option<Attr> {
        self.filesystem.cache().attributes(node, Blocking.now()).map(|(attr, _)| attr)
    }

    /// How long these attributes hold.
    pub fn attr_ttl(&self, attr: &Attr) -> Duration {
        match self.options.cache {
            Cache::None => Duration::ZERO,
            Cache::Timeout(timeout) => timeout,
            Cache::Lease => {
                let now = Blocking.now();
                let kept = self.filesystem.cache().attributes(attr.handle.object, now);
                let kept = kept.filter(|(kept, _)| kept == attr);
                kept.map_or(Duration::ZERO, |(_, until)| now.until(until))
            }
        }
    }

    /// The like, for a kernel that is about to be told and has a reference to the node.
    pub fn believed_ttl(&self, attr: &Attr) -> Duration {
        let ttl = self.attr_ttl(attr);
        if !ttl.is_zero() {
            self.nodes.believed(attr.handle.object);
        }
        ttl
    }

    /// How long attributes are believed that the kernel could not be asked to give back.
    pub fn unasked(&self) -> Duration {
        self.options.cache.timeout()
    }

    /// Whether nothing of an object was recalled since.
    pub fn unchanged_since(&self, mark: Mark, handle: Handle) -> bool {
        self.filesystem.cache().holds_since(mark, handle.object, Blocking.now())
    }

    /// How long the name means this object, or nothing.
    pub fn name_ttl(&self, dir: u64, name: &[u8], object: Option<u64>) -> Duration {
        match self.options.cache {
            Cache::None => Duration::ZERO,
            Cache::Timeout(timeout) => timeout,
            Cache::Lease => {
                let now = Blocking.now();
                let meant = object.map_or(Named::Absent, Named::Object);
                let kept = self.filesystem.cache().name(dir, name, now);
                let kept = kept.filter(|(named, _)| *named == meant);
                kept.map_or(Duration::ZERO, |(_, until)| now.until(until))
            }
        }
    }

    /// Keeps the lease for as long as the mount lives.
    pub fn keep_lease(self: &Arc<Self>) {
        if self.options.cache != Cache::Lease {
            return;
        }
        let (mounted, user) = (Arc::downgrade(self), self.identities.own_user());
        let keep = move || match user {
            Ok(user) => keep(&mounted, Leaseholder::new(user)),
            Err(error) => tracing::warn!("nothing is cached: {error}"),
        };
        if let Err(error) = thread::Builder::new().name("pvfs-lease".into()).spawn(keep) {
            tracing::warn!("nothing is cached, there is no thread for it: {error}");
        }
    }

    /// Drops a file's attributes and pages when others may have changed it: a program relies on a lock now.
    pub fn refresh(&self, handle: Handle) {
        let node = handle.object;
        if self.nodes.is_ours(node, |mark| self.unchanged_since(mark, handle)) {
            return;
        }
        drop(self.filesystem.cache().change([Key::Object(node)]));
        self.coherence.wait_for_tellers();
        if let Some(notices) = self.coherence.notices.get() {
            notices.data(node);
        }
    }

    /// Whether a change of these names has happened is not known, so what the kernel believes of them may be wrong.
    pub fn doubt(self: &Arc<Self>, names: &[(u64, &[u8])]) {
        if self.options.cache == Cache::None {
            return;
        }
        for (dir, name) in names {
            let (mounted, dir, name) = (self.clone(), *dir, name.to_vec());
            // Not by this thread: the kernel holds the directory until it is answered.
            self.coherence.waiting.spawn(move || {
                if let Some(notices) = mounted.coherence.notices.get() {
                    notices.attributes(dir);
                    notices.name(dir, &name);
                }
            });
        }
    }

    /// Takes back what is recalled. When this returns the kernel does not believe it any more.
    fn take_back(self: &Arc<Self>, lost: &Lost) {
        self.note_recalled(lost);
        self.coherence.wait_for_tellers();
        let Some(notices) = self.coherence.notices.get() else { return };
        match lost {
            Lost::All => self.take_all_back(notices),
            Lost::Some(recalls) => {
                for recall in recalls {
                    self.take_object_back(notices, recall);
                }
                self.take_names_back(notices, recalls);
            }
        }
    }

    fn note_recalled(&self, lost: &Lost) {
        // Nobody else drops anything from the cache for being recalled, so this is after all that was so far.
        let mark = self.filesystem.cache().mark(Blocking.now());
        match lost {
            Lost::All => self.nodes.recalled(None, mark),
            Lost::Some(recalls) => {
                let of_object = |recall: &&Recall| is_of_object(recall);
                let objects = recalls.iter().filter(of_object).map(|recall| recall.object);
                self.nodes.recalled(Some(&objects.collect::<Vec<_>>()), mark);
            }
        }
    }

    /// What had a lease has run out by now, but for what a manager that was restarted still waits for.
    fn take_all_back(self: &Arc<Self>, notices: &Notices) {
        notices.all_names();
        for node in self.nodes.all() {
            if self.nodes.disbelieved(node) {
                notices.attributes(node);
            }
        }
        for node in self.nodes.open() {
            self.drop_pages(node);
        }
        for node in self.nodes.open_directories() {
            notices.data(node);
        }
    }

    /// A kernel that believes nothing of an object's attributes is told nothing. It would be harm: it ignores the
    /// answer to a question that it has asked before, and with it the size of a file that others have changed and
    /// closed, while the recall of that close is on its way here.
    fn take_object_back(self: &Arc<Self>, notices: &Notices, recall: &Recall) {
        let node = recall.object;
        if !is_of_object(recall) {
            return;
        }
        let is_believed = self.nodes.disbelieved(node);
        let deadline = Instant::now() + UNDER_WAY;
        // The kernel has a reference and yet does not know the node: an answer is on its way, or a farewell.
        while is_believed
            && notices.attributes(node) == Noticed::Unknown
            && self.nodes.handle(node).is_ok()
            && Instant::now() < deadline
        {
            thread::sleep(UNDER_WAY_PAUSE);
        }
        if recall.kind == RecallKind::Data && self.nodes.is_open(node) {
            self.drop_pages(node);
        }
        // Who reads it again from the beginning is to see what it is now.
        if self.nodes.is_open_directory(node) {
            notices.data(node);
        }
    }

    /// For programs that have the file open and read on. Nobody waits for this: pages are looked at when a file is
    /// opened, and may be filled from a slow iod. Where a program may be writing through them it would be harm
    /// ([`crate::pages`]).
    fn drop_pages(self: &Arc<Self>, node: u64) {
        if self.nodes.pages_are_written(node) {
            return;
        }
        let mounted = self.clone();
        self.coherence.waiting.spawn(move || {
            if let Some(notices) = mounted.coherence.notices.get() {
                notices.data(node);
            }
        });
    }

    /// A name is dropped under the lock of its directory, which may be held by a request of this mount that
    /// waits at the manager for another mount, and that one for us. So this is waited for only shortly; then
    /// all names are dropped, which takes no lock.
    fn take_names_back(self: &Arc<Self>, notices: &Notices, recalls: &[Recall]) {
        if recalls.iter().any(|recall| recall.kind == RecallKind::Names) && notices.all_names() {
            return;
        }
        let known = |recall: &&Recall| {
            recall.kind == RecallKind::Name && self.nodes.handle(recall.object).is_ok()
        };
        let names: Vec<&Recall> = recalls.iter().filter(known).collect();
        if names.len() > NAMES_ONE_BY_ONE && notices.all_names() {
            return;
        }
        let pending = Arc::new(Pending::default());
        *pending.count.lock().expect(NO_PANIC) = names.len();
        for recall in names {
            let (mounted, pending) = (self.clone(), pending.clone());
            let (dir, name) = (recall.object, recall.name.clone());
            self.coherence.waiting.spawn(move || {
                if let Some(notices) = mounted.coherence.notices.get() {
                    notices.name(dir, &name);
                }
                pending.done();
            });
        }
        if !pending.is_none_within(LOCKED) && !notices.all_names() {
            pending.is_none_within(LOCKED_LONG);
        }
    }
}

impl Pending {
    fn done(&self) {
        *self.count.lock().expect(NO_PANIC) -= 1;
        self.none.notify_all();
    }

    fn is_none_within(&self, time: Duration) -> bool {
        let count = self.count.lock().expect(NO_PANIC);
        let waited = self.none.wait_timeout_while(count, time, |count| *count > 0);
        *waited.expect(NO_PANIC).0 == 0
    }
}

fn is_of_object(recall: &Recall) -> bool {
    matches!(recall.kind, RecallKind::Attributes | RecallKind::Data)
}

fn keep(mounted: &Weak<Mounted>, mut holder: Leaseholder<Blocking>) {
    while mounted.strong_count() > 0 {
        let polled = block_on(holder.poll());
        let Some(mounted) = mounted.upgrade() else { return };
        match polled {
            Ok(lost) => mounted.take_back(&lost),
            Err(error) => {
                tracing::debug!("the lease on what is cached was not renewed: {error}");
                drop(mounted);
                thread::sleep(AGAIN);
            }
        }
    }
}

const NO_PANIC: &str = "no code panics while it holds this";

/// Notices that may wait for the kernel's locks at a time, and that may wait for those.
const NOTICES_AT_ONCE: usize = 8;
const NOTICES_MAX: usize = 4096;

/// More names than this are dropped with all others.
const NAMES_ONE_BY_ONE: usize = 64;

/// How long a directory's lock is waited for before all names are dropped instead.
const LOCKED: Duration = Duration::from_millis(5);

/// The like where the kernel cannot drop all names: others are not to wait for the whole lease.
const LOCKED_LONG: Duration = Duration::from_millis(500);

/// How long an answer may be on its way into the kernel.
const UNDER_WAY: Duration = Duration::from_millis(20);
const UNDER_WAY_PAUSE: Duration = Duration::from_micros(200);

/// Before the manager is asked again.
const AGAIN: Duration = Duration::from_millis(100);
