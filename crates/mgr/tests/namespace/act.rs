//! What a user may do, in a form that every implementation under test understands, and chance.

use pvfs_mgr::execute::Random;
use serde::{Deserialize, Serialize};

/// One call of one user. Paths start at the root and have no leading slash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Act {
    Mkdir {
        path: String,
        mode: u32,
    },
    /// mknod of a regular file.
    File {
        path: String,
        mode: u32,
    },
    Fifo {
        path: String,
        mode: u32,
    },
    Symlink {
        to: String,
        path: String,
    },
    Link {
        old: String,
        new: String,
        follow: bool,
    },
    /// Gives an open file a name.
    LinkOpen {
        slot: u32,
        new: String,
    },
    Unlink {
        path: String,
    },
    Rmdir {
        path: String,
    },
    Rename {
        old: String,
        new: String,
        flags: u32,
    },
    Chmod {
        path: String,
        mode: u32,
    },
    Chown {
        path: String,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    },
    Times {
        path: String,
        atime: Moment,
        mtime: Moment,
    },
    Stat {
        path: String,
        follow: bool,
    },
    Readlink {
        path: String,
    },
    Access {
        path: String,
        bits: u32,
    },
    List {
        path: String,
    },
    Truncate {
        path: String,
        size: u64,
    },
    Open {
        path: String,
        how: How,
        mode: u32,
        slot: u32,
    },
    Close {
        slot: u32,
    },
    /// One byte just before `end`.
    Write {
        slot: u32,
        end: u64,
    },
    Ftruncate {
        slot: u32,
        size: u64,
    },
    /// One byte at the end.
    Append {
        slot: u32,
    },
}

/// The flags of an open.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct How {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub append: bool,
    pub nofollow: bool,
    pub directory: bool,
    /// Without O_DIRECTORY, which O_TMPFILE has in it.
    pub nameless: bool,
}

/// A time argument of utimensat(2).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Moment {
    Omit,
    Now,
    /// Seconds; below 1000, so that no clock shows it.
    At(i64),
}

/// The users that act: uid, gid, supplementary groups.
pub const USERS: [(u32, u32, &[u32]); 4] =
    [(0, 0, &[]), (1001, 1001, &[50]), (1002, 1002, &[50, 51]), (1003, 1003, &[])];

/// Chooses acts.
pub struct Chooser<'a> {
    random: &'a mut Random,
    /// Whether `..` may be anywhere, also where a rename could let it leave the root.
    dots_anywhere: bool,
    /// Paths that are there, so that not everything fails.
    pub existing: Vec<String>,
}

impl<'a> Chooser<'a> {
    pub fn new(random: &'a mut Random, dots_anywhere: bool) -> Self {
        Self { random, dots_anywhere, existing: Vec::new() }
    }

    /// A number below `count`.
    pub fn below(&mut self, count: u64) -> u64 {
        (self.random.number() >> 11) % count
    }

    /// One time in `count`.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize].clone()
    }

    /// Any act.
    pub fn act(&mut self) -> Act {
        match self.below(81) {
            0..8 => Act::Mkdir { path: self.path(), mode: self.mode(true) },
            8..13 => Act::File { path: self.path(), mode: self.mode(false) },
            13 => Act::Fifo { path: self.path(), mode: self.mode(false) },
            14..17 => Act::Symlink { to: self.target(), path: self.path() },
            17..20 => Act::Link { old: self.path(), new: self.path(), follow: self.one_in(2) },
            20..24 => Act::Unlink { path: self.path() },
            24..27 => Act::Rmdir { path: self.path() },
            27..34 => {
                let flags = self.of(&[0, 0, 0, 0, 1, 2, 2, 3]);
                Act::Rename { old: self.path(), new: self.path(), flags }
            }
            34..38 => Act::Chmod { path: self.path(), mode: self.mode(true) },
            38..41 => {
                let uid = self.of(&[None, None, Some(1001), Some(1002), Some(0)]);
                let any = [None, Some(50), Some(51), Some(1001), Some(1002)];
                // With neither, Linux only now and then agrees with itself.
                let gid = self.of(if uid.is_none() { &any[1..] } else { &any });
                Act::Chown { path: self.path(), uid, gid, follow: self.one_in(2) }
            }
            41..43 => Act::Times { path: self.path(), atime: self.moment(), mtime: self.moment() },
            43..45 => Act::Stat { path: self.path(), follow: self.one_in(2) },
            45 => Act::Readlink { path: self.path() },
            46 => Act::Access { path: self.path(), bits: self.below(8) as u32 },
            47 => Act::List { path: self.path() },
            48..50 => Act::Truncate { path: self.path(), size: self.size() },
            50..57 => {
                let (how, mode) = (self.how(), self.mode(false));
                Act::Open { path: self.path(), how, mode, slot: self.slot() }
            }
            57..61 => Act::Close { slot: self.slot() },
            61..68 => Act::Write { slot: self.slot(), end: self.size() + 1 },
            68..71 => Act::Ftruncate { slot: self.slot(), size: self.size() },
            71..74 => Act::LinkOpen { slot: self.slot(), new: self.path() },
            _ => Act::Append { slot: self.slot() },
        }
    }

    /// One of the open files, for an act that needs one.
    pub fn open_slot(&mut self, act: &mut Act, open: &[(usize, u32)]) -> Option<usize> {
        let (Act::Close { slot }
        | Act::Write { slot, .. }
        | Act::Ftruncate { slot, .. }
        | Act::LinkOpen { slot, .. }
        | Act::Append { slot }) = act
        else {
            return None;
        };
        if open.is_empty() || self.one_in(20) {
            return None;
        }
        let (user, chosen) = self.of(open);
        *slot = chosen;
        Some(user)
    }

    fn slot(&mut self) -> u32 {
        self.below(2) as u32
    }

    fn size(&mut self) -> u64 {
        self.of(&[0, 1, 100, 65_536, 300_000])
    }

    fn moment(&mut self) -> Moment {
        self.of(&[Moment::Omit, Moment::Now, Moment::Now, Moment::At(5), Moment::At(77)])
    }

    fn mode(&mut self, special: bool) -> u32 {
        let special = if special {
            self.of(&[0, 0, 0, 0, 0o1000, 0o2000, 0o3000, 0o4000, 0o6000])
        } else {
            0
        };
        special
            | self.of(&[
                0o777, 0o777, 0o777, 0o775, 0o755, 0o700, 0o750, 0o770, 0o070, 0o007, 0o555, 0o311,
                0o644,
            ])
    }

    fn how(&mut self) -> How {
        let (read, write) = self.of(&[(true, false), (false, true), (true, true)]);
        let how = How {
            read,
            write,
            create: self.one_in(2),
            exclusive: self.one_in(5),
            truncate: self.one_in(4),
            append: self.one_in(3),
            nofollow: self.one_in(5),
            directory: self.one_in(12),
            nameless: self.one_in(16),
        };
        match self.one_in(5) {
            // As it has to be for a file without a name.
            true => How { write: true, create: false, directory: true, nameless: true, ..how },
            false => how,
        }
    }

    fn name(&mut self) -> String {
        self.of(&["a", "b", "c", "d"]).to_owned()
    }

    fn path(&mut self) -> String {
        let existing = self.existing.clone();
        match self.below(8) {
            0..4 if !existing.is_empty() => self.of(&existing),
            4..6 if !existing.is_empty() => format!("{}/{}", self.of(&existing), self.name()),
            _ => self.any_path(),
        }
    }

    fn any_path(&mut self) -> String {
        let mut path = self.name();
        let more = self.of(&[0, 0, 1, 1, 1, 2, 2, 3]);
        for _ in 0..more {
            path.push_str(if self.one_in(20) { "//" } else { "/" });
            match self.below(24) {
                0 => path.push_str(".."),
                1 => path.push('.'),
                _ => path.push_str(&self.name()),
            }
        }
        if self.one_in(24) {
            path.push('/');
        }
        if self.dots_anywhere && self.one_in(24) { format!("../{path}") } else { path }
    }

    fn target(&mut self) -> String {
        match self.below(12) {
            0 if self.dots_anywhere => "/".to_owned(),
            1 if self.dots_anywhere => format!("../{}", self.any_path()),
            _ => self.any_path().replace("..", "a"),
        }
    }
}
