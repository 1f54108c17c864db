//! Mkdir, Mknod, Symlink: new objects other than by opening.

use pvfs_wire::attr::{Attr, FileKind, Striping};
use pvfs_wire::ops::{Asked, Made, Mkdir, Mknod, Symlink};
use pvfs_wire::{Errno, PATH_BYTES_MAX};

use crate::acl::Lists;
use crate::execute::{Context, Execute};
use crate::namespace::{Node, Place, Slot};
use crate::record::{Body, Directory, RegularFile};

impl Execute for Mkdir {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Made, Errno> {
        let (mut place, slot) = cx.new_place(&self.target, FileKind::Directory)?;
        let parent = place.dir.object;
        let body = Body::Directory(Directory::new(parent, defaults(&place.dir).clone()));
        let mut node = new_node(cx, &place.dir, self.mode, body)?;
        node.inode.nlink = 2;
        place.dir.inode.gain_link()?;
        let directory = enter(cx, place, slot, &node);
        Ok(Made { attr: cx.attr(&node), directory })
    }
}

impl Execute for Mknod {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Made, Errno> {
        if matches!(self.kind, FileKind::Directory | FileKind::Symlink) {
            return Err(Errno::EINVAL);
        }
        let (place, slot) = cx.new_place(&self.target, self.kind)?;
        let node = match self.kind {
            FileKind::Regular => new_file(cx, &place.dir, self.mode, &Striping::default())?,
            kind => special(self, cx, &place, kind)?,
        };
        let directory = enter(cx, place, slot, &node);
        Ok(Made { attr: cx.attr(&node), directory })
    }
}

fn special(
    mknod: &Mknod,
    cx: &mut Context<'_, '_>,
    place: &Place,
    kind: FileKind,
) -> Result<Node, Errno> {
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    if is_device && !cx.who.is_root() {
        return Err(Errno::EPERM);
    }
    let rdev = if is_device { mknod.rdev } else { 0 };
    let mut node = new_node(cx, &place.dir, mknod.mode, Body::Special { kind, rdev })?;
    node.inode.nlink = 1;
    Ok(node)
}

impl Execute for Symlink {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Made, Errno> {
        match self.path.len() {
            0 => return Err(Errno::ENOENT),
            length if length > PATH_BYTES_MAX => return Err(Errno::ENAMETOOLONG),
            _ if self.path.contains(&0) => return Err(Errno::EINVAL),
            _ => {}
        }
        let (place, slot) = cx.new_place(&self.target, FileKind::Symlink)?;
        let mut node = new_node(cx, &place.dir, 0o777, Body::Symlink(self.path.0.clone()))?;
        node.inode.nlink = 1;
        node.inode.mode = 0o777;
        let directory = enter(cx, place, slot, &node);
        Ok(Made { attr: cx.attr(&node), directory })
    }
}

/// A new regular file with one name, to be entered in `dir`.
pub(super) fn new_file(
    cx: &mut Context<'_, '_>,
    dir: &Node,
    mode: u32,
    wish: &Striping,
) -> Result<Node, Errno> {
    let mut node = nameless_file(cx, dir, mode, wish)?;
    node.inode.nlink = 1;
    Ok(node)
}

/// A new regular file as it is made in `dir`, without a name.
pub(super) fn nameless_file(
    cx: &mut Context<'_, '_>,
    dir: &Node,
    mode: u32,
    wish: &Striping,
) -> Result<Node, Errno> {
    let placement = cx.place_file(wish, defaults(dir))?;
    new_node(cx, dir, mode, Body::Regular(RegularFile::new(placement)))
}

/// Saves a new object under its name, and the directory that has changed by it; returns the latter's attributes.
pub(super) fn enter(cx: &mut Context<'_, '_>, mut place: Place, slot: Slot, node: &Node) -> Attr {
    cx.insert(&mut place.dir, slot, &place.name, node.object, node.inode.kind());
    place.dir.inode.touch_data(cx.now);
    cx.save(&place.dir);
    cx.save(node);
    cx.attr(&place.dir)
}

fn new_node(cx: &mut Context<'_, '_>, dir: &Node, mode: u32, body: Body) -> Result<Node, Errno> {
    let is_directory = matches!(body, Body::Directory(_));
    let asked = Asked::of(mode);
    let (gid, mode) = cx.who.inherit(&dir.inode, asked.bits, is_directory);
    let (mode, lists) = match &dir.inode.lists.default {
        Some(default) if !matches!(body, Body::Symlink(_)) => {
            let own = default.handed_on(mode);
            let mode = mode & !PERMISSION_BITS | own.mode_bits();
            let access = (!own.is_minimal()).then(|| Box::new(own));
            let default = is_directory.then(|| default.clone());
            (mode, Lists { access, default })
        }
        _ => (mode & !asked.umask, Lists::default()),
    };
    cx.create(cx.who.uid, gid, mode, lists, body)
}

/// Those that a umask can take off and a list can give.
const PERMISSION_BITS: u32 = 0o777;

fn defaults(dir: &Node) -> &Striping {
    &dir.inode.as_directory().expect("objects are only made in directories").striping
}
