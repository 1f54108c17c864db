//! Who may do what to an object: the rules of POSIX where it has them, Linux's where it is silent.

use pvfs_wire::Errno;
use pvfs_wire::ops::AccessBits;
use pvfs_wire::token::Session;

use crate::record::Inode;

/// Who is asking.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Credentials {
    /// User; 0 may nearly everything.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub gids: Vec<u32>,
    /// The session, for capabilities.
    pub session: u64,
}

/// Set-user-ID.
pub const SETUID: u32 = 0o4000;
/// Set-group-ID; on directories: what is created here gets this group.
pub const SETGID: u32 = 0o2000;
/// On directories: only owners remove names.
pub const STICKY: u32 = 0o1000;
/// All bits that a mode may have.
pub const MODE_BITS: u32 = 0o7777;
const GROUP_EXECUTE: u32 = 0o010;
const ANY_EXECUTE: u32 = 0o111;

impl Credentials {
    /// Whether permissions do not matter.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.gids.contains(&group)
    }

    /// Whether the object is the user's, or the user is root.
    pub fn owns(&self, inode: &Inode) -> bool {
        self.is_root() || self.uid == inode.uid
    }

    /// Refuses with EPERM what only the owner may do.
    pub fn require_owner(&self, inode: &Inode) -> Result<(), Errno> {
        if self.owns(inode) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Refuses with EACCES what the mode does not allow.
    pub fn require(&self, inode: &Inode, wanted: AccessBits) -> Result<(), Errno> {
        if self.may(inode, wanted) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Refuses to change the names of a directory that is not writable and searchable.
    pub fn require_names(&self, directory: &Inode) -> Result<(), Errno> {
        self.require(directory, AccessBits::WRITE | AccessBits::EXECUTE)
    }

    /// Refuses to take the name of `victim` out of `directory`.
    pub fn require_removal(&self, directory: &Inode, victim: &Inode) -> Result<(), Errno> {
        self.require_names(directory)?;
        let sticky = directory.mode & STICKY != 0;
        if sticky && !self.owns(directory) && !self.owns(victim) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Whether the mode allows all of `wanted`.
    pub fn may(&self, inode: &Inode, wanted: AccessBits) -> bool {
        if self.is_root() {
            let executable = inode.is_directory() || inode.mode & ANY_EXECUTE != 0;
            return executable || !wanted.has(AccessBits::EXECUTE);
        }
        let in_group = self.is_in(inode.gid);
        let shift = match &inode.lists.access {
            _ if self.uid == inode.uid => 6,
            Some(list) => return list.allows(self, in_group, wanted),
            None if in_group => 3,
            None => 0,
        };
        (inode.mode >> shift) & wanted.bits() == wanted.bits()
    }

    /// The group and mode of what is created in `directory`.
    pub fn inherit(&self, directory: &Inode, mode: u32, is_directory: bool) -> (u32, u32) {
        let mode = mode & MODE_BITS;
        let inherited = directory.mode & SETGID != 0;
        if is_directory {
            // As mkdir(2) on Linux: of the special bits only sticky is taken from the caller.
            let mode = mode & !(SETUID | SETGID);
            return if inherited { (directory.gid, mode | SETGID) } else { (self.gid, mode) };
        }
        if !inherited {
            return (self.gid, mode);
        }
        let gives_group = mode & (SETGID | GROUP_EXECUTE) == SETGID | GROUP_EXECUTE;
        let foreign = !self.is_root() && !self.is_in(directory.gid);
        (directory.gid, if gives_group && foreign { mode & !SETGID } else { mode })
    }

    /// The mode after the owner asked for `mode`: no set-group-ID for a group the user is not in.
    pub fn chmod(&self, mode: u32, gid: u32) -> u32 {
        let allowed = self.is_root() || self.is_in(gid);
        mode & MODE_BITS & if allowed { MODE_BITS } else { !SETGID }
    }

    /// Refuses a change of owner or group: only root gives away, owners change to groups of theirs.
    pub fn require_chown(
        &self,
        inode: &Inode,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Errno> {
        let uid_stays = uid.is_none_or(|uid| uid == inode.uid && self.uid == inode.uid);
        let gid_is_own =
            gid.is_none_or(|gid| self.uid == inode.uid && (gid == inode.gid || self.is_in(gid)));
        if self.is_root() || (uid_stays && gid_is_own) { Ok(()) } else { Err(Errno::EPERM) }
    }
}

impl From<&Session> for Credentials {
    fn from(session: &Session) -> Self {
        Self { uid: session.uid, gid: session.gid, gids: session.gids.clone(), session: session.id }
    }
}

/// The mode of a file whose data or owner was changed by somebody who is `in_group` of it (root is
/// in all). Set-user-ID goes. Set-group-ID goes where it would let others run as the group; without
/// group execution it once meant mandatory locking, and members keep it.
pub fn without_privileges(mode: u32, in_group: bool) -> u32 {
    let keeps_group = in_group && mode & GROUP_EXECUTE == 0;
    mode & !if keeps_group { SETUID } else { SETUID | SETGID }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Lists;
    use crate::record::{Body, Directory};
    use pvfs_wire::attr::{FileKind, Striping, Time};

    fn inode(mode: u32, is_directory: bool) -> Inode {
        let time = Time::default();
        let fifo = Body::Special { kind: FileKind::Fifo, rdev: 0 };
        let body = match is_directory {
            true => Body::Directory(Directory::new(1, Striping::default())),
            false => fifo,
        };
        Inode {
            mode,
            nlink: 1,
            uid: 10,
            gid: 20,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            change: 1,
            xattrs: 0,
            lists: Lists::default(),
            body,
        }
    }

    /// Every mode, every wish, everyone: only the first class that fits counts, even when a later one
    /// would allow more.
    #[test]
    fn the_first_class_that_fits_decides() {
        let somebody =
            |uid, gid, gids: &[u32]| Credentials { uid, gid, gids: gids.into(), session: 0 };
        let everyone = [
            (somebody(10, 20, &[]), 6),
            (somebody(10, 99, &[]), 6),
            (somebody(11, 20, &[]), 3),
            (somebody(11, 99, &[7, 20]), 3),
            (somebody(11, 99, &[7]), 0),
        ];
        for (mode, wanted) in (0..0o1000).flat_map(|mode| (0..8).map(move |wanted| (mode, wanted)))
        {
            let bits = AccessBits::from_bits(wanted).unwrap();
            for (who, shift) in &everyone {
                let allowed = mode >> shift & 7 & wanted == wanted;
                assert_eq!(
                    who.may(&inode(mode, false), bits),
                    allowed,
                    "{who:?} {mode:o} {wanted}"
                );
            }
            let root = somebody(0, 0, &[]);
            let executable = wanted & 1 == 0 || mode & 0o111 != 0;
            assert_eq!(root.may(&inode(mode, false), bits), executable, "root {mode:o} {wanted}");
            assert!(root.may(&inode(mode, true), bits));
        }
    }
}
