//! Telling the kernel, unasked, that what it was told is no longer so.
//!
//! Names are expired and not taken away: a program's working directory would vanish.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::protocol::answer;

/// Sends notices; usable from any thread.
pub struct Notices {
    device: File,
    has_epochs: AtomicBool,
}

/// What became of a notice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Noticed {
    /// The kernel has dropped it.
    Dropped,
    /// The kernel does not know it; an answer that tells of it may be on its way.
    Unknown,
}

impl Notices {
    /// Notices for the mount of this device.
    pub fn new(device: OwnedFd) -> Self {
        Self { device: File::from(device), has_epochs: AtomicBool::new(true) }
    }

    /// The attributes of a node are not to be believed. Waits for nothing.
    pub fn attributes(&self, node: u64) -> Noticed {
        self.inode(node, -1)
    }

    /// Nor are the pages of its data. Waits for requests that are filling them.
    pub fn data(&self, node: u64) -> Noticed {
        self.inode(node, 0)
    }

    /// What a name means is to be asked again. Waits for requests that hold its directory.
    pub fn name(&self, dir: u64, name: &[u8]) -> Noticed {
        let length = (name.len() as u32).to_ne_bytes();
        let body = [&dir.to_ne_bytes()[..], &length, &EXPIRE_ONLY.to_ne_bytes(), name, &[0]];
        self.send(INVAL_ENTRY, &body.concat()).unwrap_or(Noticed::Dropped)
    }

    /// What any name means is to be asked again. Waits for nothing; false where the kernel cannot (before 6.16).
    pub fn all_names(&self) -> bool {
        if !self.has_epochs.load(Ordering::Relaxed) {
            return false;
        }
        let sent = self.send(INC_EPOCH, &[]).is_ok();
        if !sent {
            self.has_epochs.store(false, Ordering::Relaxed);
        }
        sent
    }

    fn inode(&self, node: u64, offset: i64) -> Noticed {
        let body = [node.to_ne_bytes(), offset.to_ne_bytes(), 0i64.to_ne_bytes()].concat();
        self.send(INVAL_INODE, &body).unwrap_or(Noticed::Dropped)
    }

    /// A mount that is gone has nothing to drop.
    fn send(&self, code: i32, body: &[u8]) -> io::Result<Noticed> {
        let header = answer::header(0, code, body.len());
        match (&self.device).write(&[&header, body].concat()) {
            Ok(_) => Ok(Noticed::Dropped),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Noticed::Unknown),
            Err(error) => {
                tracing::debug!(code, "the kernel refuses a notice: {error}");
                Err(error)
            }
        }
    }
}

/// `FUSE_NOTIFY_INVAL_INODE`
const INVAL_INODE: i32 = 2;

/// `FUSE_NOTIFY_INVAL_ENTRY`
const INVAL_ENTRY: i32 = 3;

/// `FUSE_NOTIFY_INC_EPOCH`
const INC_EPOCH: i32 = 8;

/// `FUSE_EXPIRE_ONLY`: the name is looked up again when it is used next. Kernels that do not know it (before
/// 6.2) take the name away.
const EXPIRE_ONLY: u32 = 1;
