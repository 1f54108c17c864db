//! An open file description, as this process takes part in it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pvfs_client::{OpenFile, User, View};
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::OpenFlags;
use rustix::fs::OFlags;

use crate::record::Record;
use crate::runtime::Apart;
use crate::shared::{self, Shared};

/// What kind of thing is open.
pub type Kind = FileKind;

/// An open file, directory or place, shared by all descriptors of it here and in other processes.
pub struct Description {
    pub(crate) record: Record,
    pub(crate) shared: Shared,
    /// Device and inode of the memfd, by which its descriptors are known.
    pub(crate) identity: (u64, u64),
    /// Its mark, when it was found.
    mark: Option<u64>,
    /// Descriptors of it in this process.
    pub(crate) descriptors: AtomicUsize,
    /// Whether locks were taken through it that are its own (flock, OFD).
    pub(crate) locked: AtomicBool,
    held: Mutex<Held>,
    /// What this process sees of the file, when not all of it.
    view: Mutex<Option<View>>,
    /// Whether it ever had a view: most never do, and need not look.
    was_viewed: AtomicBool,
}

/// This process's own opens, as far as it needed them.
#[derive(Default)]
struct Held {
    file: Option<Arc<Own>>,
    /// A second one when O_APPEND was set after the open.
    appending: Option<Arc<Own>>,
}

/// An open of this process, and the user who made it.
pub(crate) struct Own {
    pub(crate) user: User<Apart>,
    pub(crate) file: Arc<OpenFile>,
}

impl Own {
    /// The like, for operations that move together with others.
    pub(crate) fn beside(&self, together: &User<Apart>) -> Arc<Self> {
        Arc::new(Self { user: self.user.beside(together), file: self.file.clone() })
    }

    /// What is to be closed, and by whom. `None` while a call under way in another thread uses it; the lease ends
    /// it then.
    pub(crate) fn unused(own: Arc<Self>) -> Option<(User<Apart>, OpenFile)> {
        let Self { user, file } = Arc::into_inner(own)?;
        Some((user, Arc::into_inner(file)?))
    }
}

impl Description {
    pub(crate) fn new(
        record: Record,
        shared: Shared,
        identity: (u64, u64),
        mark: Option<u64>,
    ) -> Self {
        Self {
            record,
            shared,
            identity,
            mark,
            descriptors: AtomicUsize::new(0),
            locked: AtomicBool::new(false),
            held: Mutex::default(),
            view: Mutex::default(),
            was_viewed: AtomicBool::new(false),
        }
    }

    /// Whether this descriptor, which was, still is one of it.
    pub(crate) fn is_behind(&self, fd: RawFd) -> bool {
        self.mark.is_some() && shared::mark(fd) == self.mark
            || shared::identity(fd) == Some(self.identity)
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.record.kind
    }

    /// The path it was opened by.
    pub fn path(&self) -> &[u8] {
        &self.record.path.0
    }

    /// How it was opened, with the flags that were changed since.
    pub fn flags(&self) -> OFlags {
        OFlags::from_bits_retain(self.record.access | self.shared.status())
    }

    /// The partition through which this process sees the file.
    pub(crate) fn view(&self) -> Option<View> {
        match self.was_viewed.load(Ordering::Acquire) {
            true => *self.view.lock().expect(NO_PANIC),
            false => None,
        }
    }

    pub(crate) fn set_view(&self, view: Option<View>) {
        *self.view.lock().expect(NO_PANIC) = view;
        self.was_viewed.store(true, Ordering::Release);
    }

    /// The view as the parent of a forked process had it, unless a thread of the parent was changing it.
    pub(crate) fn view_of_parent(&self) -> Option<View> {
        self.view.try_lock().ok().and_then(|view| *view)
    }

    pub(crate) fn may_read(&self) -> bool {
        self.flags().intersection(OFlags::ACCMODE) != OFlags::WRONLY
    }

    pub(crate) fn may_write(&self) -> bool {
        self.flags().intersection(OFlags::ACCMODE) != OFlags::RDONLY
    }

    /// The open was made by this process just now.
    pub(crate) fn opened(&self, own: Arc<Own>) {
        self.held.lock().expect(NO_PANIC).file = Some(own);
    }

    /// This process's open; `adopt` makes it where there is none yet.
    pub(crate) fn own<E: From<Errno>>(
        &self,
        appending: bool,
        adopt: impl FnOnce(OpenFlags) -> Result<Own, E>,
    ) -> Result<Arc<Own>, E> {
        let mut held = self.held.lock().expect(NO_PANIC);
        let second = appending && !self.record.flags.has(OpenFlags::APPEND);
        let flags = self.record.flags.with_if(second, OpenFlags::APPEND);
        let own = if second { &mut held.appending } else { &mut held.file };
        if own.is_none() {
            *own = Some(Arc::new(adopt(flags)?));
        }
        own.clone().ok_or_else(|| Errno::EBADF.into())
    }

    /// Forgets the opens, which the manager does not know any more.
    pub(crate) fn disown(&self) {
        self.take_own();
    }

    /// Takes the opens out, to be closed.
    pub(crate) fn take_own(&self) -> Vec<Arc<Own>> {
        let held = std::mem::take(&mut *self.held.lock().expect(NO_PANIC));
        held.file.into_iter().chain(held.appending).collect()
    }
}

const NO_PANIC: &str = "no code panics while it holds this";
