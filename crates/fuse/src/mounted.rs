//! A mounted file system: everything that requests share.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pvfs_client::credentials::Issuer;
use pvfs_client::{Error, Filesystem, Result, User, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_net::buffer::Pool;
use pvfs_net::call::{CallError, Server};
use pvfs_net::runtime::{Runtime, before};
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, FileKind, Placement, SizeState};
use pvfs_wire::handle::ROOT_OBJECT;
use pvfs_wire::ops::Target;

use crate::attributes::silent_server;
use crate::coherence::Coherence;
use crate::directory::OpenDirectory;
use crate::handles::{Handles, OpenEntry};
use crate::identity::{Identities, Requester, kernel_checks};
use crate::locks::{Owners, WAITING_AT_ONCE};
use crate::nodes::Nodes;
use crate::ops::Pin;
use crate::options::{Cache, MountOptions};
use crate::recent::Recent;
use crate::replaced::Replaced;
use crate::signals;
use crate::silence::Silence;
use crate::workers::Workers;

/// What the kernel's requests are carried out on.
pub struct Mounted {
    pub filesystem: Arc<Filesystem<Blocking>>,
    pub options: MountOptions,
    pub identities: Identities,
    /// Whether the kernel checks permissions too.
    pub kernel_checks: bool,
    /// Whether a file that is read and written past the kernel's pages can be mapped and shared (Linux 6.6).
    pub maps_past_pages: AtomicBool,
    pub nodes: Nodes,
    pub recent: Recent,
    pub replaced: Replaced<Pin>,
    pub coherence: Coherence,
    pub silence: Arc<Silence>,
    /// What the root's attributes last were.
    root: Mutex<Option<Attr>>,
    pub files: Handles<OpenEntry>,
    pub directories: Handles<OpenDirectory>,
    pub owners: Owners,
    pub buffers: Pool,
    /// For data requests beyond what the reading threads may wait for.
    pub data: Workers,
    /// For locks that are waited for.
    pub waiting: Workers,
    /// For closes, which no program waits for.
    pub closing: Workers,
}

impl Mounted {
    /// Asks the manager once, so that a mount whose manager is unreachable fails with its reason.
    pub fn new(
        filesystem: Arc<Filesystem<Blocking>>,
        issuer: Issuer,
        options: MountOptions,
    ) -> Result<Self> {
        if options.cache == Cache::Lease {
            filesystem.cache().enable();
        }
        let kernel_checks = kernel_checks(&issuer, options.cache);
        let identities = Identities::new(filesystem.clone(), issuer, options.cache)?;
        let me = Requester::of_process();
        let root = identities.act(me, |user| block_on(user.root()))?;
        let reserved = (options.threads / 3).max(1);
        Ok(Self {
            identities,
            kernel_checks,
            maps_past_pages: AtomicBool::new(false),
            nodes: Nodes::new(root),
            recent: Recent::default(),
            replaced: Replaced::default(),
            coherence: Coherence::default(),
            silence: Arc::default(),
            root: Mutex::default(),
            files: Handles::default(),
            directories: Handles::default(),
            owners: Owners::default(),
            buffers: Pool::new(),
            data: Workers::new("pvfs-data", DATA_THREADS_MAX, DATA_QUEUE_MAX)
                .with_inline(options.threads - reserved),
            waiting: Workers::new("pvfs-lock", WAITING_AT_ONCE, LOCK_QUEUE_MAX),
            // What is closed was opened: nothing else bounds it, and none may be lost.
            closing: Workers::new("pvfs-close", CLOSING_THREADS_MAX, usize::MAX),
            filesystem,
            options,
        })
    }

    /// Does something as the requester, who may be killed meanwhile.
    pub fn act<T, F>(&self, requester: Requester, action: impl Fn(User<Blocking>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.identities.act(requester, |user| wait(requester.pid, action(user.clone())))
    }

    /// A name in a directory the kernel knows.
    pub fn below(&self, parent: u64, name: &OsStr) -> Result<Target> {
        let handle = self.nodes.handle(parent)?;
        if name.len() > pvfs_wire::NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        Ok(Target::below(handle, name.as_bytes()))
    }

    /// An object the kernel knows.
    pub fn object(&self, node: u64) -> Result<Target> {
        Ok(Target::object(self.nodes.handle(node)?))
    }

    /// Attributes. Where an iod does not tell a size in time, the last one known is shown; EIO when none ever was, for
    /// whoever copies a file that is said to be empty loses what is in it.
    pub fn stat(&self, requester: Requester, target: &Target) -> Result<Attr> {
        let known = self.stat_known(requester, target)?;
        match self.completed(requester, known)? {
            Shown::Unknown(_) => Err(Errno::EIO.into()),
            shown => Ok(shown.attr()),
        }
    }

    /// The root's attributes. While no manager answers nothing changes, and who looks at the mount itself, as df does, is
    /// shown what they last were.
    pub fn stat_root(&self, requester: Requester) -> Result<Attr> {
        const NO_PANIC: &str = "no code panics while it holds the attributes";
        let root = self.nodes.handle(ROOT_OBJECT)?;
        let last = *self.root.lock().expect(NO_PANIC);
        if let Some(last) = last.filter(|_| self.is_silent(self.filesystem.manager())) {
            return Ok(last);
        }
        let told = self.act(requester, |user| async move {
            match last {
                Some(_) => user.attributes_now(root).await,
                None => user.attributes(root).await,
            }
        });
        match told {
            Ok((attr, ..)) => {
                let seen = self.nodes.seen(attr);
                *self.root.lock().expect(NO_PANIC) = Some(seen);
                Ok(seen)
            }
            Err(error) => match last.zip(silent_server(&error)) {
                Some((last, manager)) => {
                    self.begin_silence(&error, manager);
                    Ok(last)
                }
                None => Err(error),
            },
        }
    }

    /// Attributes whose size is certain, or an error: what is read depends on it.
    pub fn stat_exactly(&self, requester: Requester, target: &Target) -> Result<Attr> {
        let (attr, placement) = self.stat_known(requester, target)?;
        let placement = placement.as_ref();
        let attr =
            self.act(
                requester,
                |user| async move { user.completed_patiently(attr, placement).await },
            )?;
        Ok(self.nodes.seen(attr))
    }

    /// Completes what the manager told, as far as the iods answer.
    pub fn completed(&self, requester: Requester, known: Known) -> Result<Shown> {
        let (attr, placement) = known;
        let Some(placement) = placement.filter(|_| needs_iods(&attr)) else {
            return Ok(Shown::Exact(self.nodes.seen(attr)));
        };
        let last_known = || match self.nodes.with_known_size(attr) {
            Some(attr) => Ok(Shown::LastKnown(attr)),
            None => Ok(Shown::Unknown(attr)),
        };
        if self.covers_silent(&placement) {
            return last_known();
        }
        let placement = Some(&placement);
        match self.act(requester, |user| async move { user.completed(attr, placement).await }) {
            Ok(attr) => Ok(Shown::Exact(self.nodes.seen(attr))),
            Err(error) if self.note_silence(&error) => last_known(),
            Err(error) => Err(error),
        }
    }

    /// Whether it is an iod that did not answer, which only sizes and data need. One that was waited for is
    /// not waited for again soon; one that refuses connections costs no time.
    pub fn note_silence(&self, error: &Error) -> bool {
        let Some(server) = silent_server(error) else { return false };
        let is_iod = self.filesystem.iods().iter().any(|iod| iod.name() == server);
        if is_iod {
            self.begin_silence(error, server);
        }
        is_iod
    }

    fn begin_silence(&self, error: &Error, server: &str) {
        if matches!(error, Error::Call(CallError::Timeout { .. })) {
            tracing::warn!("{error}; what it last said is shown until it does");
            if let Ok(user) = self.identities.user(Requester::of_process()) {
                self.silence.note(server, user);
            }
        }
    }

    /// Whether asking for a file's size would only be waiting.
    pub fn covers_silent(&self, placement: &Placement) -> bool {
        let iods = self.filesystem.iods();
        self.silence.covers(placement.iods.iter().map(|iod| iods[iod.0 as usize].name()))
    }

    /// Whether asking a daemon would only be waiting.
    pub fn is_silent(&self, server: &Server<Blocking>) -> bool {
        self.silence.covers(std::iter::once(server.name()))
    }

    fn stat_known(&self, requester: Requester, target: &Target) -> Result<Known> {
        self.act(requester, |user| async move {
            if !target.path.is_empty() {
                return user.stat_known(target.clone(), false).await;
            }
            let (attr, placement, _) = user.attributes(target.dir).await?;
            Ok((attr, placement))
        })
    }
}

/// Attributes, and how good their size is.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// As it was when it was asked for.
    Exact(Attr),
    /// An iod did not tell: the largest that this mount and the manager know of.
    LastKnown(Attr),
    /// An iod did not tell, and nobody else ever has.
    Unknown(Attr),
}

impl Shown {
    /// The attributes, be the size what it may.
    pub fn attr(self) -> Attr {
        match self {
            Self::Exact(attr) | Self::LastKnown(attr) | Self::Unknown(attr) => attr,
        }
    }
}

/// Attributes as the manager knows them, and where to ask for the size if it does not.
pub type Known = (Attr, Option<Placement>);

fn needs_iods(attr: &Attr) -> bool {
    attr.kind == FileKind::Regular && attr.size_state != SizeState::Settled
}

/// Waits for an operation on behalf of a thread. When that thread is killed nobody is left to be answered.
pub fn wait<T>(thread: u32, operation: impl Future<Output = Result<T>>) -> Result<T> {
    let mut operation = pin!(operation);
    block_on(async {
        loop {
            let look = Blocking.now().after(LOOK);
            match before(&Blocking, look, operation.as_mut()).await {
                Some(outcome) => return outcome,
                None if signals::pending(thread).kill => return Err(Errno::EINTR.into()),
                None => {}
            }
        }
    })
}

/// How long a request waits before, and between, looks at whether its program was killed.
const LOOK: Duration = Duration::from_millis(500);

/// Data requests under way at once, besides those of the reading threads.
const DATA_THREADS_MAX: usize = 64;

/// Data requests that wait for a thread; a write among them holds up to 1 MiB.
const DATA_QUEUE_MAX: usize = 256;

/// Programs that wait for a lock.
const LOCK_QUEUE_MAX: usize = 1 << 14;

const CLOSING_THREADS_MAX: usize = 4;
