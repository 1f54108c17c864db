//! What a process takes over from the one before it: by exec, by fork, and through sockets.

use std::os::fd::{AsFd, RawFd};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use pvfs_client::block_on;
use pvfs_net::runtime::{Runtime, before};
use pvfs_wire::Errno;
use rustix::fs::{CWD, Dir, DirEntry, Mode, OFlags};

use crate::description::{Description, Own};
use crate::errno::Stop;
use crate::handover;
use crate::numbers::{KEPT, OURS};
use crate::process::Process;
use crate::runtime::Apart;
use crate::shared;

impl Process {
    /// A process image that was just executed: finds the descriptors of ours among those it inherited.
    pub fn after_exec(&self) {
        let Inherited { open, handovers } = Inherited::of_this_process();
        open.into_iter().for_each(|fd| drop(self.discover(fd)));
        handovers.into_iter().filter_map(handover::taken).for_each(|locks| self.take_over(locks));
        self.adopt_all();
    }

    /// The process that a fork has just made. What `parent` holds is a copy that must not be used: its connections
    /// are the parent's.
    pub fn after_fork(parent: &Self) -> Self {
        for fd in KEPT.all() {
            KEPT.remove(fd);
            shared::close_copy(fd);
        }
        let process = Self::new(parent.settings.clone());
        let working = match parent.working.try_read() {
            Ok(working) => working.clone(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().clone(),
            // Another thread of the parent was changing it; its copy here never ends.
            Err(TryLockError::WouldBlock) => None,
        };
        *process.working.write().expect("nobody else has it yet") = working;
        let umask = parent.umask.load(Ordering::Relaxed);
        process.umask.store(umask, Ordering::Relaxed);
        OURS.all().into_iter().for_each(|fd| drop(process.discover(fd)));
        process.see_as(parent);
        process
    }

    /// A child sees files through the partitions that its parent had set.
    fn see_as(&self, parent: &Self) {
        let views = parent.views_at_fork();
        for description in self.descriptions() {
            let seen = views.iter().find(|(identity, _)| *identity == description.identity);
            description.set_view(seen.map(|(_, view)| *view));
        }
    }

    /// Takes part in every open it has descriptors of, so that they last when the process before this one ends.
    /// Where the manager does not answer soon it is tried again at the first use.
    pub fn adopt_all(&self) {
        let mut adopted = Vec::new();
        for description in self.descriptions() {
            if !description.record.has_opens() || adopted.contains(&description.identity) {
                continue;
            }
            let outcome = description.own(false, |flags| {
                let user = self.user()?;
                let deadline = Apart.now().after(ADOPTION_TIMEOUT);
                let inheritance = description.record.inheritance(flags);
                let file = {
                    let adopted = pin!(user.adopt(&inheritance));
                    block_on(before(&Apart, deadline, adopted))
                };
                let file = file.ok_or(Stop::Errno(Errno::ETIMEDOUT))??;
                Ok::<_, Stop>(Own { user, file: Arc::new(file) })
            });
            description.shared.note_adopted();
            if matches!(outcome, Err(Stop::Errno(Errno::ETIMEDOUT))) {
                return;
            }
            adopted.push(description.identity);
        }
    }

    /// Before a fork: the open files with locks, which must not be without anybody who takes part in them when this
    /// process lets go of them before its child has taken hold. Each with how often that was done so far.
    pub fn before_fork(&self) -> Vec<(Arc<Description>, u32)> {
        let mut locked: Vec<(Arc<Description>, u32)> = Vec::new();
        for description in self.descriptions() {
            let is_known = locked.iter().any(|(known, _)| Arc::ptr_eq(known, &description));
            if description.record.has_opens() && description.shared.is_locked() && !is_known {
                let adopted = description.shared.adopted();
                locked.push((description, adopted));
            }
        }
        locked
    }

    /// After it, in the parent: waits until the child has taken part in them, a limited time.
    pub fn await_child(locked: Vec<(Arc<Description>, u32)>) {
        let deadline = Apart.now().after(ADOPTION_TIMEOUT);
        for (description, before) in locked {
            description.shared.await_adoption(before, || Apart.now() < deadline);
        }
    }
}

/// The numbers of memfds with names of ours. The kernel keeps a name through everything.
#[derive(Default)]
struct Inherited {
    /// Open files.
    open: Vec<RawFd>,
    /// What the process before exec left to this one.
    handovers: Vec<RawFd>,
}

impl Inherited {
    fn of_this_process() -> Self {
        let mut inherited = Self::default();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = rustix::fs::openat(CWD, "/proc/self/fd", flags, Mode::empty()) else {
            // Without /proc: the few that a shell passes on.
            return Self { open: (0..64).collect(), ..inherited };
        };
        let Ok(entries) = Dir::read_from(&directory) else { return inherited };
        let number = |entry: DirEntry| entry.file_name().to_str().ok()?.parse::<RawFd>().ok();
        for fd in entries.flatten().filter_map(number) {
            let link = rustix::fs::readlinkat(directory.as_fd(), fd.to_string(), Vec::new());
            let name = link.as_ref().ok().and_then(|link| link.to_bytes().strip_prefix(b"/memfd:"));
            match name {
                Some(name) if name.starts_with(b"pvfs:") => inherited.open.push(fd),
                Some(name) if name.starts_with(handover::NAME.as_bytes()) => {
                    inherited.handovers.push(fd);
                }
                _ => {}
            }
        }
        inherited
    }
}

/// A program does not start later than this because of a manager that does not answer.
pub(crate) const ADOPTION_TIMEOUT: Duration = Duration::from_secs(3);
