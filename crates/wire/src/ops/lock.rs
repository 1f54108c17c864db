//! Advisory locks: byte ranges (fcntl, OFD) and whole files (flock), cluster-wide.

use crate::handle::Handle;
use crate::{choice, record};

choice! {
    /// The two families of locks, which do not see each other, and whose they are.
    pub enum LockFamily {
        /// fcntl(2): byte ranges; a range of one owner is split and merged.
        Range = 1,
        /// flock(2): the whole file.
        Flock = 2,
        /// [`LockFamily::Range`] of an open file: `owner` is the client's number of an open. The lock belongs to all
        /// who take part in that open by [`super::Adopt`], and ends with the last of their opens.
        OpenRange = 3,
        /// [`LockFamily::Flock`] of an open file, in the same way.
        OpenFlock = 4,
    }
}

impl LockFamily {
    /// Which locks it sees.
    pub fn seen(self) -> Self {
        match self {
            Self::Range | Self::OpenRange => Self::Range,
            Self::Flock | Self::OpenFlock => Self::Flock,
        }
    }

    /// Whether its locks belong to open files.
    pub fn is_by_open(self) -> bool {
        matches!(self, Self::OpenRange | Self::OpenFlock)
    }

    /// The family that sees the same locks, of open files or of a client's own owners.
    #[must_use]
    pub fn of_open(self, by_open: bool) -> Self {
        match (self.seen(), by_open) {
            (Self::Flock, true) => Self::OpenFlock,
            (Self::Flock, false) => Self::Flock,
            (_, true) => Self::OpenRange,
            (_, false) => Self::Range,
        }
    }
}

choice! {
    /// What is done to the range.
    pub enum LockKind {
        /// Shared with other readers.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Given up.
        Unlock = 3,
    }
}

record! {
    /// Takes or gives up a lock.
    pub struct Lock {
        /// Which file.
        pub handle: Handle,
        /// Which family.
        pub family: LockFamily,
        /// The owner within this client (a process for fcntl, an open file for OFD and flock), or its number for an open.
        pub owner: u64,
        /// The process that F_GETLK names.
        pub pid: u32,
        /// What to do.
        pub kind: LockKind,
        /// First byte.
        pub start: u64,
        /// One past the last byte; `u64::MAX` reaches to the end of all files.
        pub end: u64,
        /// How long the manager may hold the request back until the lock is free; then EAGAIN.
        /// A caller that blocks for longer asks again, so that it stays interruptible.
        pub wait_ms: u32,
    }
}

record! {
    /// Would this lock be granted (F_GETLK)?
    pub struct TestLock {
        /// Which file.
        pub handle: Handle,
        /// Which family.
        pub family: LockFamily,
        /// Whose locks do not count.
        pub owner: u64,
        /// Read or write.
        pub kind: LockKind,
        /// First byte.
        pub start: u64,
        /// One past the last byte.
        pub end: u64,
    }
}

record! {
    /// The answer.
    pub struct LockTest {
        /// A lock in the way, if any.
        pub conflict: Option<HeldLock>,
    }
}

record! {
    /// A lock somebody holds.
    pub struct HeldLock {
        /// Read or write.
        pub kind: LockKind,
        /// First byte.
        pub start: u64,
        /// One past the last byte.
        pub end: u64,
        /// The process, as its node numbers it.
        pub pid: u32,
    }
}

record! {
    /// Makes the byte ranges of a process ([`LockFamily::Range`]) those of the program that it executed, which is another
    /// client. Who knows the number that the process drew for itself is that process.
    pub struct InheritLocks {
        /// The client that the process was before.
        pub from_client: u64,
        /// The owner within that client, and within this one from now on.
        pub owner: u64,
    }
}

record! {
    /// The answer.
    pub struct LocksInherited {
        /// Ranges that the owner holds now, which is none where the lease of the client before was over.
        pub ranges: u64,
    }
}
