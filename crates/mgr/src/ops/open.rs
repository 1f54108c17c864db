//! Open, Close, Renew.

use pvfs_wire::attr::{Attr, FileKind, SizeState};
use pvfs_wire::ops::{Close, Closed, Open, OpenFlags, Opened, Renew, Renewed};
use pvfs_wire::{Bytes, Errno};

use super::create::{enter, nameless_file, new_file};
use crate::execute::{Context, Execute};
use crate::keys;
use crate::namespace::{
    Ending, Last, Lookup, Node, Place, Slot, Walk, parent, permissions, rights,
};
use crate::permission::without_privileges;
use crate::record::{Body, RegularFile};
use crate::store::View;

/// What the path of an open leads to.
enum Goal {
    Existing(Node),
    New(Place, Slot),
}

impl Execute for Open {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Opened, Errno> {
        check_flags(self.flags)?;
        if cx.tx.contains(&keys::open(cx.client, self.open))? {
            return Err(Errno::EINVAL); // Numbers are used once.
        }
        if self.flags.has(OpenFlags::NAMELESS) {
            return open_nameless(self, cx);
        }
        match goal(self, cx)? {
            Goal::Existing(node) => open_existing(self, cx, node),
            Goal::New(place, slot) => open_new(self, cx, place, slot),
        }
    }
}

fn check_flags(flags: OpenFlags) -> Result<(), Errno> {
    let purpose = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::EXECUTE;
    let contradictory = flags.has(OpenFlags::CREATE | OpenFlags::DIRECTORY);
    // As open(2) has it for O_TMPFILE; what nobody can write would stay empty.
    let fits_nameless =
        flags.has(OpenFlags::DIRECTORY | OpenFlags::WRITE) && !flags.has(OpenFlags::EXECUTE);
    let wrongly_nameless = flags.has(OpenFlags::NAMELESS) && !fits_nameless;
    let impossible = contradictory || wrongly_nameless || flags.has(OpenFlags::ADOPTED);
    if !flags.any(purpose) || impossible { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Walks the path; symlinks are followed to where the file is, or is to be created.
fn goal(open: &Open, cx: &Context<'_, '_>) -> Result<Goal, Errno> {
    let creates = open.flags.has(OpenFlags::CREATE);
    let exclusive = open.flags.has(OpenFlags::CREATE | OpenFlags::EXCLUSIVE);
    let mut walk = Walk::new(cx, &open.target)?;
    loop {
        let last = walk.to_last(cx)?;
        let slash = walk.slash;
        let node = match last {
            Last::Name(_) if creates && slash => return Err(Errno::EISDIR),
            Last::Name(name) => match cx.lookup(walk.node.object, &name)? {
                Lookup::Absent(slot) if creates => {
                    return Ok(Goal::New(Place { dir: walk.node, name, slash }, slot));
                }
                Lookup::Absent(_) => return Err(Errno::ENOENT),
                Lookup::Found(found) => cx.load(found.object)?,
            },
            Last::DotDot => parent(cx, &walk.node)?,
            Last::Itself | Last::Dot => walk.node.clone(),
        };
        if exclusive {
            return Err(Errno::EEXIST);
        }
        match &node.inode.body {
            Body::Symlink(path) if slash || !open.flags.has(OpenFlags::NOFOLLOW) => {
                walk.follow(path)?;
            }
            Body::Directory(_) => return Ok(Goal::Existing(node)),
            _ if slash => return Err(Errno::ENOTDIR),
            _ => return Ok(Goal::Existing(node)),
        }
    }
}

fn open_new(
    open: &Open,
    cx: &mut Context<'_, '_>,
    place: Place,
    slot: Slot,
) -> Result<Opened, Errno> {
    cx.who.require_names(&place.dir.inode)?;
    let mut node = new_file(cx, &place.dir, open.mode, &open.striping)?;
    cx.begin_open(&mut node, open.open, open.flags);
    let directory = enter(cx, place, slot, &node);
    Ok(Opened { directory: Some(directory), ..opened_new(open.flags, cx, &node)? })
}

/// Makes a file that lives as long as it is open, or until it is given a name; the directory does not change.
fn open_nameless(open: &Open, cx: &mut Context<'_, '_>) -> Result<Opened, Errno> {
    let dir = cx.find(&open.target, !open.flags.has(OpenFlags::NOFOLLOW))?;
    if !dir.inode.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    cx.who.require_names(&dir.inode)?;
    let mut node = nameless_file(cx, &dir, open.mode, &open.striping)?;
    let file = node.inode.as_file_mut().expect("a regular file was made");
    file.linkable = !open.flags.has(OpenFlags::EXCLUSIVE);
    cx.begin_open(&mut node, open.open, open.flags);
    cx.save(&node);
    opened_new(open.flags, cx, &node)
}

/// Nobody has written it yet, whatever its opener will do.
fn opened_new(flags: OpenFlags, cx: &Context<'_, '_>, node: &Node) -> Result<Opened, Errno> {
    let attr = Attr { size_state: SizeState::Settled, ..cx.attr(node) };
    opened(flags, cx, node, attr, true)
}

fn open_existing(open: &Open, cx: &mut Context<'_, '_>, mut node: Node) -> Result<Opened, Errno> {
    check_kind(open.flags, node.inode.kind())?;
    cx.who.require(&node.inode, permissions(open.flags))?;
    match node.inode.kind() {
        FileKind::Regular => {}
        FileKind::Directory => return Ok(opened_directory(cx, &node)),
        _ => return Err(Errno::ENXIO), // Devices, pipes and sockets are the kernel's.
    }
    // What was settled is exact for this open's reply: what it will write comes after it.
    let size_state = node.inode.as_file().map_or(SizeState::Settled, RegularFile::size_state);
    cx.begin_open(&mut node, open.open, open.flags);
    let truncation = match open.flags.has(OpenFlags::TRUNCATE) {
        true => truncate(open, cx, &mut node)?,
        false => None,
    };
    cx.save(&node);
    let attr = Attr { size_state, ..cx.attr(&node) };
    Ok(Opened { truncation, ..opened(open.flags, cx, &node, attr, false)? })
}

fn check_kind(flags: OpenFlags, kind: FileKind) -> Result<(), Errno> {
    let changes = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
    match kind {
        FileKind::Directory if flags.any(changes) => Err(Errno::EISDIR),
        FileKind::Directory if flags.has(OpenFlags::EXECUTE) => Err(Errno::EACCES),
        FileKind::Directory => Ok(()),
        _ if flags.has(OpenFlags::DIRECTORY) => Err(Errno::ENOTDIR),
        FileKind::Symlink => Err(Errno::ELOOP),
        _ => Ok(()),
    }
}

/// Cuts the file to zero: at once when no iod can hold anything, else with a ticket.
fn truncate(open: &Open, cx: &mut Context<'_, '_>, node: &mut Node) -> Result<Option<u64>, Errno> {
    let file = node.inode.as_file().ok_or(Errno::EINVAL)?;
    let own_writer = u32::from(open.flags.has(OpenFlags::WRITE));
    let others_write = file.writing.writers > own_writer || file.writing.truncation.is_some();
    let is_empty = file.size == 0 && file.disk_bytes.is_none();
    if is_empty && !file.unsettled && !others_write {
        note_cut(cx, node);
        return Ok(None);
    }
    cx.begin_truncation(node, 0, Some(open.open), own_writer).map(Some)
}

/// A cut changes the data, and takes set-user-ID away from a file.
pub(super) fn note_cut(cx: &Context<'_, '_>, node: &mut Node) {
    if !cx.who.is_root() {
        let in_group = cx.who.is_in(node.inode.gid);
        node.inode.mode = without_privileges(node.inode.mode, in_group);
    }
    node.inode.touch_data(cx.now);
}

pub(super) fn opened(
    flags: OpenFlags,
    cx: &Context<'_, '_>,
    node: &Node,
    attr: Attr,
    created: bool,
) -> Result<Opened, Errno> {
    let (capability, expiry) = cx.capability(node, rights(flags))?;
    let (placement, capability) = (cx.stated(node, true).placement, Bytes(capability));
    let (directory, truncation) = (None, None);
    Ok(Opened { attr, placement, capability, expiry, created, directory, truncation })
}

/// Opens of directories are not recorded: a listing names the directory, not an open.
fn opened_directory(cx: &Context<'_, '_>, node: &Node) -> Opened {
    Opened {
        attr: cx.attr(node),
        placement: None,
        capability: Bytes::default(),
        expiry: 0,
        created: false,
        directory: None,
        truncation: None,
    }
}

impl Execute for Close {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Closed, Errno> {
        if self.opens.len() > OPENS_MAX {
            return Err(Errno::E2BIG);
        }
        let mut unsettled = Vec::new();
        for closed in &self.opens {
            let ending = Ending::Closed(closed.wrote);
            let left = cx.end_open(cx.client, closed.open, ending)?;
            unsettled.extend(left.filter(|attr| attr.size_state == SizeState::Abandoned));
        }
        // Who closes so many does not look at them any more.
        unsettled.truncate(UNSETTLED_TOLD_MAX);
        Ok(Closed { unsettled })
    }
}

impl Execute for Renew {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Renewed, Errno> {
        let open = cx.open_file(self.open)?;
        let node = cx.load(open.object)?;
        let (capability, expiry) = cx.capability(&node, rights(open.flags))?;
        Ok(Renewed { capability: Bytes(capability), expiry })
    }
}

/// Opens that one request may close, so that a round stays within what the log takes at once.
const OPENS_MAX: usize = 16 << 10;

/// Files that one answer asks to be settled.
const UNSETTLED_TOLD_MAX: usize = 64;
