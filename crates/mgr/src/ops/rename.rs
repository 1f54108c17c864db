//! Rename, in the order in which Linux refuses.
//!
//! ```text
//! from.dir / from.name -> source          afterwards   to.dir / to.name -> source
//! to.dir   / to.name   -> victim, if any               (EXCHANGE: from.dir / from.name -> victim)
//! ```

use pvfs_wire::Errno;
use pvfs_wire::handle::ROOT_OBJECT;
use pvfs_wire::ops::{AccessBits, Rename, RenameFlags, Renamed};

use super::unlink::{drop_name, remove_directory};
use crate::execute::{Context, Execute};
use crate::namespace::{Found, Lookup, Node, Slot, parent};

/// The directories of the two names: one node when they are one directory.
struct Directories {
    from: Node,
    to: Option<Node>,
}

impl Directories {
    fn to(&self) -> &Node {
        self.to.as_ref().unwrap_or(&self.from)
    }

    fn to_mut(&mut self) -> &mut Node {
        self.to.as_mut().unwrap_or(&mut self.from)
    }

    fn are_one(&self) -> bool {
        self.to.is_none()
    }
}

/// What the new name names now.
struct Victim {
    found: Found,
    node: Node,
}

impl Execute for Rename {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Renamed, Errno> {
        let noreplace = self.flags.has(RenameFlags::NOREPLACE);
        let exchange = self.flags.has(RenameFlags::EXCHANGE);
        if noreplace && exchange {
            return Err(Errno::EINVAL);
        }
        // Both paths are walked before either is found wanting.
        let (from, to) = (cx.try_place(&self.from)?, cx.try_place(&self.to)?);
        let from = from.map_err(|_| Errno::EBUSY)?;
        let to = to.map_err(|_| if noreplace { Errno::EEXIST } else { Errno::EBUSY })?;
        let source_name = cx.lookup(from.dir.object, &from.name)?.found()?;
        let mut source = cx.load(source_name.object)?;
        let target = cx.lookup(to.dir.object, &to.name)?;
        let (victim, slot) = match target {
            Lookup::Found(_) if noreplace => return Err(Errno::EEXIST),
            Lookup::Found(found) => (Some(Victim { found, node: cx.load(found.object)? }), None),
            Lookup::Absent(_) if exchange => return Err(Errno::ENOENT),
            Lookup::Absent(slot) => (None, Some(slot)),
        };
        let source_slash = !source.inode.is_directory() && (from.slash || to.slash && !exchange);
        let victim_slash = exchange
            && to.slash
            && victim.as_ref().is_some_and(|victim| !victim.node.inode.is_directory());
        if source_slash || victim_slash {
            return Err(Errno::ENOTDIR);
        }
        let one = from.dir.object == to.dir.object;
        let mut dirs = Directories { from: from.dir, to: (!one).then_some(to.dir) };
        refuse_loops(cx, &dirs, &source, victim.as_ref(), exchange)?;
        if victim.as_ref().is_some_and(|victim| victim.node.object == source.object) {
            return Ok(Renamed { attr: cx.attr(&source) });
        }
        check_permissions(cx, &dirs, &source, victim.as_ref(), exchange)?;
        match (victim, slot) {
            (Some(victim), _) if exchange => {
                let (found, mut other) = (victim.found, victim.node);
                cx.redirect(dirs.from.object, source_name, &from.name, other.object, found.kind);
                cx.redirect(dirs.to().object, found, &to.name, source.object, source_name.kind);
                let (from_object, to_object) = (dirs.from.object, dirs.to().object);
                reparent(&mut dirs, &mut source, to_object, true);
                reparent(&mut dirs, &mut other, from_object, false);
                other.inode.touch(cx.now);
                cx.save(&other);
            }
            (Some(victim), _) => {
                replace(cx, &mut dirs, &source, victim, &to.name)?;
                take_away(cx, &mut dirs, &mut source, &from.name)?;
            }
            (None, Some(slot)) => {
                insert(cx, &mut dirs, &source, slot, &to.name);
                take_away(cx, &mut dirs, &mut source, &from.name)?;
            }
            (None, None) => unreachable!("a name is there or has a slot"),
        }
        source.inode.touch(cx.now);
        cx.save(&source);
        let Directories { mut from, to } = dirs;
        from.inode.touch_data(cx.now);
        cx.save(&from);
        if let Some(mut to) = to {
            to.inode.touch_data(cx.now);
            cx.save(&to);
        }
        Ok(Renamed { attr: cx.attr(&source) })
    }
}

/// A directory may not go below itself, nor replace one it is in.
fn refuse_loops(
    cx: &Context<'_, '_>,
    dirs: &Directories,
    source: &Node,
    victim: Option<&Victim>,
    exchange: bool,
) -> Result<(), Errno> {
    if dirs.are_one() {
        return Ok(());
    }
    if source.inode.is_directory() && is_below(cx, dirs.to(), source.object)? {
        return Err(Errno::EINVAL);
    }
    match victim {
        Some(victim)
            if victim.node.inode.is_directory()
                && is_below(cx, &dirs.from, victim.node.object)? =>
        {
            Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY })
        }
        _ => Ok(()),
    }
}

/// Whether `above` is the directory `node` or one it is in.
fn is_below(cx: &Context<'_, '_>, node: &Node, above: u64) -> Result<bool, Errno> {
    let mut node = node.clone();
    while node.object != above {
        if node.object == ROOT_OBJECT {
            return Ok(false);
        }
        node = parent(cx, &node)?;
    }
    Ok(true)
}

fn check_permissions(
    cx: &Context<'_, '_>,
    dirs: &Directories,
    source: &Node,
    victim: Option<&Victim>,
    exchange: bool,
) -> Result<(), Errno> {
    let who = cx.who;
    who.require_removal(&dirs.from.inode, &source.inode)?;
    match victim {
        None => who.require_names(&dirs.to().inode)?,
        Some(victim) => {
            who.require_removal(&dirs.to().inode, &victim.node.inode)?;
            if !exchange {
                check_kinds(source, &victim.node)?;
            }
        }
    }
    // The directory's `..` changes, which is writing to it.
    let moves = |node: &Node| !dirs.are_one() && node.inode.is_directory();
    if moves(source) {
        who.require(&source.inode, AccessBits::WRITE)?;
    }
    match victim {
        Some(victim) if exchange && moves(&victim.node) => {
            who.require(&victim.node.inode, AccessBits::WRITE)
        }
        _ => Ok(()),
    }
}

fn check_kinds(source: &Node, victim: &Node) -> Result<(), Errno> {
    match (source.inode.is_directory(), victim.inode.is_directory()) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// Lets the new name mean the source, and the old object lose it.
fn replace(
    cx: &mut Context<'_, '_>,
    dirs: &mut Directories,
    source: &Node,
    mut victim: Victim,
    name: &[u8],
) -> Result<(), Errno> {
    if victim.node.inode.is_directory() {
        remove_directory(cx, &mut victim.node)?;
        dirs.to_mut().inode.nlink -= 1;
    } else {
        drop_name(cx, &mut victim.node)?;
    }
    cx.redirect(dirs.to().object, victim.found, name, source.object, source.inode.kind());
    Ok(())
}

fn insert(
    cx: &mut Context<'_, '_>,
    dirs: &mut Directories,
    source: &Node,
    slot: Slot,
    name: &[u8],
) {
    cx.insert(dirs.to_mut(), slot, name, source.object, source.inode.kind());
}

/// Removes the old name. It is looked up again, since a new name of the same hash may be behind it.
fn take_away(
    cx: &mut Context<'_, '_>,
    dirs: &mut Directories,
    source: &mut Node,
    name: &[u8],
) -> Result<(), Errno> {
    let found = cx.lookup(dirs.from.object, name)?.found()?;
    cx.remove(&mut dirs.from, found);
    let to = dirs.to().object;
    reparent(dirs, source, to, true);
    Ok(())
}

/// A directory that moves takes its `..` along. `forward` is from the old name's directory to the
/// new name's.
fn reparent(dirs: &mut Directories, node: &mut Node, to: u64, forward: bool) {
    let Some(directory) = node.inode.as_directory_mut() else { return };
    if dirs.are_one() {
        return;
    }
    directory.parent = to;
    let (loses, gains) = (&mut dirs.from, dirs.to.as_mut().expect("there are two"));
    let (loses, gains) = if forward { (loses, gains) } else { (gains, loses) };
    loses.inode.nlink -= 1;
    gains.inode.nlink += 1;
}
