//! Rename, in the order in which Linux refuses.
//!
//! ```text
//! from / old -> source                afterwards   to   / new -> source
//! to   / new -> victim, if any                     from / old -> victim, with EXCHANGE only
//! ```

use pvfs_wire::Errno;
use pvfs_wire::handle::ROOT_OBJECT;
use pvfs_wire::ops::{AccessBits, Rename, RenameFlags, Renamed};

use super::unlink::{drop_name, remove_directory};
use crate::execute::{Context, Execute};
use crate::namespace::{Found, Lookup, Node, Place, Slot, parent};

impl Execute for Rename {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Renamed, Errno> {
        let (from, to) = places(self, cx)?;
        let (slashes, flags) = ((from.slash, to.slash), self.flags);
        let mut names = Names::find(cx, from, to, flags)?;
        names.refuse_slashes(slashes)?;
        names.refuse_loops(cx)?;
        if names.victim.as_ref().is_some_and(|victim| victim.node.object == names.source.object) {
            let (attr, directories) = (cx.attr(&names.source), Vec::new());
            return Ok(Renamed { attr, other: None, directories });
        }
        names.check_permissions(cx)?;
        let other = names.victim.as_ref().map(|victim| cx.fs.handle(victim.node.object));
        match names.goal.take() {
            Some(slot) => names.insert(cx, slot)?,
            None if names.exchange => names.swap(cx)?,
            None => names.replace(cx)?,
        }
        names.save(cx);
        let directories = [Some(&names.from), names.to.as_ref()].into_iter().flatten();
        let directories = directories.map(|dir| cx.attr(dir)).collect();
        Ok(Renamed { attr: cx.attr(&names.source), other, directories })
    }
}

/// Both paths are walked before either is found wanting.
fn places(rename: &Rename, cx: &Context<'_, '_>) -> Result<(Place, Place), Errno> {
    let noreplace = rename.flags.has(RenameFlags::NOREPLACE);
    if noreplace && rename.flags.has(RenameFlags::EXCHANGE) {
        return Err(Errno::EINVAL);
    }
    let (from, to) = (cx.try_place(&rename.from)?, cx.try_place(&rename.to)?);
    let from = from.map_err(|_| Errno::EBUSY)?;
    let to = to.map_err(|_| if noreplace { Errno::EEXIST } else { Errno::EBUSY })?;
    Ok((from, to))
}

/// The two names and all they touch.
struct Names {
    from: Node,
    /// Absent when both names are in one directory, which then is `from`.
    to: Option<Node>,
    old: Vec<u8>,
    new: Vec<u8>,
    source: Node,
    source_found: Found,
    victim: Option<Victim>,
    /// Where the new name goes when there is no victim.
    goal: Option<Slot>,
    exchange: bool,
}

/// What the new name names so far.
struct Victim {
    node: Node,
    found: Found,
}

impl Names {
    fn find(
        cx: &Context<'_, '_>,
        from: Place,
        to: Place,
        flags: RenameFlags,
    ) -> Result<Self, Errno> {
        let exchange = flags.has(RenameFlags::EXCHANGE);
        let source_found = cx.lookup(from.dir.object, &from.name)?.found()?;
        let source = cx.load(source_found.object)?;
        let (victim, goal) = match cx.lookup(to.dir.object, &to.name)? {
            Lookup::Found(_) if flags.has(RenameFlags::NOREPLACE) => return Err(Errno::EEXIST),
            Lookup::Found(found) => (Some(Victim { node: cx.load(found.object)?, found }), None),
            Lookup::Absent(_) if exchange => return Err(Errno::ENOENT),
            Lookup::Absent(slot) => (None, Some(slot)),
        };
        let same = from.dir.object == to.dir.object;
        let (old, new, to) = (from.name, to.name, (!same).then_some(to.dir));
        Ok(Self { from: from.dir, to, old, new, source, source_found, victim, goal, exchange })
    }

    fn to(&self) -> &Node {
        self.to.as_ref().unwrap_or(&self.from)
    }

    fn to_mut(&mut self) -> &mut Node {
        self.to.as_mut().unwrap_or(&mut self.from)
    }

    /// Only names of directories may end in slashes: both of what moves one way, each of an exchange.
    fn refuse_slashes(&self, (old, new): (bool, bool)) -> Result<(), Errno> {
        let is_directory = |node: &Node| node.inode.is_directory();
        let victim = self.victim.as_ref().map_or(&self.source, |victim| &victim.node);
        let arrives = if self.exchange { victim } else { &self.source };
        let wrong = old && !is_directory(&self.source) || new && !is_directory(arrives);
        if wrong { Err(Errno::ENOTDIR) } else { Ok(()) }
    }

    /// A directory may not go below itself, nor replace one it is in.
    fn refuse_loops(&self, cx: &Context<'_, '_>) -> Result<(), Errno> {
        let Some(to) = &self.to else { return Ok(()) };
        if self.source.inode.is_directory() && is_below(cx, to, self.source.object)? {
            return Err(Errno::EINVAL);
        }
        let Some(Victim { node, .. }) = &self.victim else { return Ok(()) };
        if node.inode.is_directory() && is_below(cx, &self.from, node.object)? {
            return Err(if self.exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        Ok(())
    }

    fn check_permissions(&self, cx: &Context<'_, '_>) -> Result<(), Errno> {
        let who = cx.who;
        who.require_removal(&self.from.inode, &self.source.inode)?;
        let Some(victim) = &self.victim else {
            who.require_names(&self.to().inode)?;
            return self.check_move(cx, &self.source);
        };
        who.require_removal(&self.to().inode, &victim.node.inode)?;
        if self.exchange {
            self.check_move(cx, &self.source)?;
            return self.check_move(cx, &victim.node);
        }
        check_kinds(&self.source, &victim.node)?;
        self.check_move(cx, &self.source)
    }

    /// The `..` of a directory that moves changes, which is writing to it.
    fn check_move(&self, cx: &Context<'_, '_>, node: &Node) -> Result<(), Errno> {
        if self.to.is_none() || !node.inode.is_directory() {
            return Ok(());
        }
        cx.who.require(&node.inode, AccessBits::WRITE)
    }

    fn insert(&mut self, cx: &mut Context<'_, '_>, slot: Slot) -> Result<(), Errno> {
        let (object, kind) = (self.source.object, self.source.inode.kind());
        let new = std::mem::take(&mut self.new);
        cx.insert(self.to_mut(), slot, &new, object, kind);
        self.take_away(cx)
    }

    /// Lets the new name mean the source, and the victim lose it.
    fn replace(&mut self, cx: &mut Context<'_, '_>) -> Result<(), Errno> {
        let Victim { mut node, found } = self.victim.take().expect("a name is there or has a slot");
        if node.inode.is_directory() {
            remove_directory(cx, &mut node)?;
            self.to_mut().inode.lose_link();
        } else {
            drop_name(cx, &mut node)?;
        }
        let kind = self.source.inode.kind();
        cx.redirect(self.to().object, found, &self.new, self.source.object, kind);
        self.take_away(cx)
    }

    /// Removes the old name. It is looked up again: a new name of the same hash may be behind it.
    fn take_away(&mut self, cx: &mut Context<'_, '_>) -> Result<(), Errno> {
        let found = cx.lookup(self.from.object, &self.old)?.found()?;
        cx.remove(&mut self.from, found);
        let Some(to) = &mut self.to else { return Ok(()) };
        reparent(&mut self.source, &mut self.from, to)
    }

    fn swap(&mut self, cx: &mut Context<'_, '_>) -> Result<(), Errno> {
        let Victim { mut node, found } = self.victim.take().expect("an exchange has a victim");
        let source = (self.source.object, self.source_found.kind);
        cx.redirect(self.from.object, self.source_found, &self.old, node.object, found.kind);
        cx.redirect(self.to().object, found, &self.new, source.0, source.1);
        if let Some(to) = &mut self.to {
            reparent(&mut self.source, &mut self.from, to)?;
            reparent(&mut node, to, &mut self.from)?;
        }
        node.inode.touch(cx.now);
        cx.save(&node);
        Ok(())
    }

    fn save(&mut self, cx: &mut Context<'_, '_>) {
        self.source.inode.touch(cx.now);
        cx.save(&self.source);
        for dir in [Some(&mut self.from), self.to.as_mut()].into_iter().flatten() {
            dir.inode.touch_data(cx.now);
            cx.save(dir);
        }
    }
}

fn check_kinds(source: &Node, victim: &Node) -> Result<(), Errno> {
    match (source.inode.is_directory(), victim.inode.is_directory()) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// A directory that moves takes its `..` along.
fn reparent(node: &mut Node, from: &mut Node, to: &mut Node) -> Result<(), Errno> {
    let Some(directory) = node.inode.as_directory_mut() else { return Ok(()) };
    directory.parent = to.object;
    from.inode.lose_link();
    to.inode.gain_link()
}

/// Whether `above` is the directory `node` or one it is in.
fn is_below(cx: &Context<'_, '_>, node: &Node, above: u64) -> Result<bool, Errno> {
    let mut node = node.clone();
    for _ in 0..DEPTH_MAX {
        if node.object == above {
            return Ok(true);
        }
        if node.object == ROOT_OBJECT {
            return Ok(false);
        }
        node = parent(cx, &node)?;
    }
    Err(Errno::ELOOP)
}

/// A directory deeper than this cannot be the goal of another directory's move: the writer would be
/// busy finding the root, or, with damaged records, never find it.
const DEPTH_MAX: u32 = 64 << 10;
