//! Byte-range locks on their way over exec: the process keeps them, but is another client to the manager afterwards.
//!
//! ```text
//!   before exec      memfd: this client, the number that owns its locks, the files
//!                      │    a copy of it would be of no use: it names the process
//!   after it           └──> InheritLocks to the manager, before the client of before is taken for dead
//! ```

use std::fs::File;
use std::io::Write;
use std::os::fd::{OwnedFd, RawFd};
use std::pin::pin;

use pvfs_client::{Wait, block_on};
use pvfs_net::runtime::{Runtime, before};
use pvfs_wire::ops::{Lock, LockFamily, LockKind};
use pvfs_wire::{Errno, Handle, Wire, record};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd, pread};

use crate::errno::Reach;
use crate::inherit::ADOPTION_TIMEOUT;
use crate::process::Process;
use crate::runtime::{Apart, lowest};
use crate::shared;

record! {
    /// What an executed program needs to know of the locks of its process.
    pub struct Handover {
        /// The process: another that came by the descriptor has nothing of it.
        pub process: u32,
        /// The client that it was.
        pub client: u64,
        /// The number that owns its locks.
        pub owner: u64,
        /// The files with locks that stay.
        pub kept: Vec<Handle>,
        /// Those with locks that end, since exec closes a descriptor of the file.
        pub ended: Vec<Handle>,
    }
}

impl Process {
    /// Before this process executes a program: what is to be open until then; nothing if it has no locks to be kept.
    pub fn before_exec(&self) -> Reach<Option<OwnedFd>> {
        let (owner, files) = {
            let locks = self.locks();
            (locks.owner, locks.files.iter().copied().collect::<Vec<_>>())
        };
        if files.is_empty() {
            return Ok(None);
        }
        let open = self.handles();
        let stays = |file: &Handle| {
            let mut descriptors = open.iter().filter(|(_, handle)| handle == file).peekable();
            descriptors.peek().is_some() && descriptors.all(|(fd, _)| is_inherited(*fd))
        };
        let (kept, ended) = files.into_iter().partition(stays);
        let client = self.user()?.filesystem().caller().client();
        let handover = Handover { process: own_pid(), client, owner, kept, ended };
        let made = memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        // Out of the way of a program that does not know it, and leaves it open.
        let mut made = File::from(fcntl_dupfd_cloexec(&made, lowest()).unwrap_or(made));
        made.write_all(&handover.to_bytes()).map_err(|_| Errno::ENOMEM)?;
        fcntl_setfd(&made, FdFlags::empty())?;
        Ok(Some(made.into()))
    }

    /// After it, before anything that belongs to the client of before may end with it.
    pub(crate) fn take_over(&self, handover: Handover) {
        let Handover { process, client, owner, kept, ended } = handover;
        if process != own_pid() {
            return;
        }
        let Ok(user) = self.user() else { return };
        let deadline = Apart.now().after(ADOPTION_TIMEOUT);
        let inherited = {
            let asked = pin!(user.inherit_locks(client, owner));
            block_on(before(&Apart, deadline, asked))
        };
        let are_there = matches!(inherited, Some(Ok(true)));
        user.note_inherited(&kept, !are_there);
        {
            let mut locks = self.locks();
            locks.owner = owner;
            locks.files = kept.into_iter().collect();
        }
        if !are_there {
            return;
        }
        for handle in ended {
            let (family, kind) = (LockFamily::Range, LockKind::Unlock);
            let (start, end) = (0, u64::MAX);
            let lock = Lock { handle, family, owner, pid: process, kind, start, end, wait_ms: 0 };
            // What does not arrive ends with this process.
            let _ = block_on(user.lock(lock, Wait::No));
        }
    }
}

/// What came in a descriptor of this name, which is closed.
pub(crate) fn taken(fd: RawFd) -> Option<Handover> {
    let memfd = shared::borrow(fd);
    let bytes = fstat(memfd).map_or(0, |about| about.st_size.clamp(0, BYTES_MAX)) as usize;
    let mut handover = vec![0; bytes];
    let read = pread(memfd, &mut handover, 0);
    shared::close_copy(fd);
    Handover::from_bytes(&handover[..read.ok()?]).ok()
}

fn is_inherited(fd: RawFd) -> bool {
    fcntl_getfd(shared::borrow(fd)).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}

fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

/// How the memfd is called.
pub(crate) const NAME: &str = "pvfs-locks";

/// More than the locks take that the manager lets one client have.
const BYTES_MAX: i64 = 1 << 20;
