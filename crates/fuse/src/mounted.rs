//! A mounted file system: everything that requests share.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pvfs_client::credentials::Issuer;
use pvfs_client::{Error, Filesystem, Result, User, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_net::buffer::Pool;
use pvfs_net::runtime::{Runtime, before};
use pvfs_wire::attr::{Attr, FileKind, SizeState};
use pvfs_wire::ops::Target;
use pvfs_wire::{Errno, Handle};

use crate::attributes::silent_server;
use crate::directory::OpenDirectory;
use crate::handles::{Handles, OpenEntry};
use crate::identity::{Identities, Requester};
use crate::locks::Owners;
use crate::nodes::Nodes;
use crate::options::MountOptions;
use crate::signals;
use crate::silence::Silence;
use crate::workers::Workers;

/// What the kernel's requests are carried out on.
pub struct Mounted {
    pub filesystem: Arc<Filesystem<Blocking>>,
    pub options: MountOptions,
    pub identities: Identities,
    pub nodes: Nodes,
    pub silence: Silence,
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
        let identities = Identities::new(filesystem.clone(), issuer)?;
        let me = Requester::of_process();
        let root = identities.act(me, |user| block_on(user.root()))?;
        let reserved = (options.threads / 3).max(1);
        Ok(Self {
            identities,
            nodes: Nodes::new(root),
            silence: Silence::default(),
            files: Handles::default(),
            directories: Handles::default(),
            owners: Owners::default(),
            buffers: Pool::new(),
            data: Workers::new("pvfs-data", DATA_THREADS_MAX, options.threads - reserved),
            waiting: Workers::new("pvfs-lock", crate::locks::WAITING_AT_ONCE, 0),
            closing: Workers::new("pvfs-close", CLOSING_THREADS_MAX, 0),
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

    /// Attributes. Where an iod does not tell a size in time, the last one known is shown.
    pub fn stat(&self, requester: Requester, target: &Target) -> Result<Attr> {
        let attr =
            self.act(requester, |user| async move { user.stat_lite(target.clone(), false).await })?;
        if attr.kind != FileKind::Regular || attr.size_state == SizeState::Settled {
            return Ok(attr);
        }
        if self.silence.lasts(attr.handle.object) {
            return Ok(self.nodes.with_known_size(attr));
        }
        let whole = self.act(requester, |user| async move {
            user.stat(Target::object(attr.handle), false).await
        });
        match whole {
            Err(error) if self.is_silent_iod(&error) => Ok(self.last_known(attr)),
            whole => whole,
        }
    }

    /// Attributes after a change that is done, though completing them may have failed.
    pub fn changed(
        &self,
        requester: Requester,
        handle: Handle,
        outcome: Result<Attr>,
    ) -> Result<Attr> {
        match outcome {
            Err(error) if self.is_silent_iod(&error) => {
                self.silence.note(handle.object);
                self.stat(requester, &Target::object(handle))
            }
            outcome => outcome,
        }
    }

    fn last_known(&self, attr: Attr) -> Attr {
        self.silence.note(attr.handle.object);
        self.nodes.with_known_size(attr)
    }

    /// Whether it is an iod that did not answer, which only sizes and data need.
    fn is_silent_iod(&self, error: &Error) -> bool {
        silent_server(error).is_some_and(|server| server != self.filesystem.manager().name())
    }
}

impl Requester {
    fn of_process() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: std::process::id(),
        }
    }
}

/// Waits for an operation on behalf of a thread. When that thread is killed nobody is left to be answered.
pub fn wait<T>(thread: u32, operation: impl Future<Output = Result<T>>) -> Result<T> {
    block_on(async {
        let mut operation = pin!(operation);
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

const CLOSING_THREADS_MAX: usize = 4;
