//! The ranges held in one file, of one family: split, merged, upgraded and downgraded as fcntl(2) says.

use pvfs_wire::ops::{HeldLock, LockKind};

/// Who holds a lock: an owner within a client process, or an open file that processes share.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct Holder {
    /// The client; of an open file: the one that opened it first, which may be gone.
    pub client: u64,
    /// The client's number for a process (fcntl) or an open file (OFD, flock).
    pub owner: u64,
    /// `owner` is the number of an open: the lock ends with the last who takes part in it, not with the client.
    pub by_open: bool,
}

/// A range of bytes somebody holds, or wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Held {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Whose it is.
    pub holder: Holder,
    /// The process that F_GETLK names.
    pub pid: u32,
    /// Write (nobody else) or read (readers only).
    pub exclusive: bool,
}

/// One change of what is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Edit {
    /// This range is held from now on.
    Added(Held),
    /// This range is no longer held.
    Removed(Held),
}

/// The ranges held, by their first byte. Those of one holder never overlap, and never touch when they
/// are of one kind.
#[derive(Debug, Default)]
pub struct Ranges {
    held: Vec<Held>,
}

impl Held {
    /// Whether both contain some byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether the two cannot be held at once.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.holder != other.holder && (self.exclusive || other.exclusive) && self.overlaps(other)
    }

    /// As F_GETLK reports it.
    pub fn report(&self) -> HeldLock {
        let kind = if self.exclusive { LockKind::Write } else { LockKind::Read };
        HeldLock { kind, start: self.start, end: self.end, pid: self.pid }
    }

    fn touches(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn contains(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The parts of this range on both sides of `hole`.
    fn around(self, hole: &Self) -> impl Iterator<Item = Self> {
        let left = Self { end: hole.start.min(self.end), ..self };
        let right = Self { start: hole.end.max(self.start), ..self };
        [left, right].into_iter().filter(|part| part.start < part.end)
    }
}

impl Edit {
    /// What takes it back.
    pub fn inverse(self) -> Self {
        match self {
            Self::Added(held) => Self::Removed(held),
            Self::Removed(held) => Self::Added(held),
        }
    }
}

impl Ranges {
    /// Everything held, by first byte.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.held.iter()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What is in the way of `wanted`.
    pub fn conflicts<'a>(&'a self, wanted: &'a Held) -> impl Iterator<Item = &'a Held> {
        self.before(wanted.end).iter().filter(|held| held.conflicts(wanted))
    }

    /// The changes that give `wanted` to its holder, whatever others hold.
    pub fn taking(&self, wanted: Held) -> Vec<Edit> {
        let own: Vec<Held> = self.own_touching(&wanted).collect();
        if own.iter().any(|held| held.exclusive == wanted.exclusive && held.contains(&wanted)) {
            return Vec::new();
        }
        let (same, other): (Vec<Held>, Vec<Held>) =
            own.into_iter().partition(|held| held.exclusive == wanted.exclusive);
        let merged = same.iter().fold(wanted, |sum, held| Held {
            start: sum.start.min(held.start),
            end: sum.end.max(held.end),
            ..sum
        });
        let mut edits: Vec<Edit> = same.into_iter().map(Edit::Removed).collect();
        other.into_iter().for_each(|held| cut(held, &wanted, &mut edits));
        edits.push(Edit::Added(merged));
        edits
    }

    /// The changes that take the bytes of `given` from its holder.
    pub fn giving_up(&self, given: &Held) -> Vec<Edit> {
        let mut edits = Vec::new();
        self.own_touching(given).for_each(|held| cut(held, given, &mut edits));
        edits
    }

    /// The changes that take everything from every holder that `whose` names.
    pub fn leaving(&self, whose: impl Fn(Holder) -> bool) -> Vec<Edit> {
        self.held.iter().filter(|held| whose(held.holder)).copied().map(Edit::Removed).collect()
    }

    /// Carries out one change.
    ///
    /// # Panics
    /// When the range to be removed is not held: the change belongs to other ranges.
    pub fn apply(&mut self, edit: Edit) {
        match edit {
            Edit::Added(held) => {
                let at = self.held.partition_point(|other| other.start <= held.start);
                self.held.insert(at, held);
            }
            Edit::Removed(held) => {
                let from = self.held.partition_point(|other| other.start < held.start);
                let at = self.held[from..].iter().position(|other| *other == held);
                self.held.remove(from + at.expect("only what is held is removed"));
            }
        }
    }

    fn own_touching<'a>(&'a self, range: &'a Held) -> impl Iterator<Item = Held> + 'a {
        let before = self.before(range.end.saturating_add(1));
        before.iter().filter(|held| held.holder == range.holder && held.touches(range)).copied()
    }

    /// Those that begin before `end`.
    fn before(&self, end: u64) -> &[Held] {
        &self.held[..self.held.partition_point(|held| held.start < end)]
    }
}

/// Takes `hole` out of `held`, if they share a byte.
fn cut(held: Held, hole: &Held, edits: &mut Vec<Edit>) {
    if held.overlaps(hole) {
        edits.push(Edit::Removed(held));
        edits.extend(held.around(hole).map(Edit::Added));
    }
}
