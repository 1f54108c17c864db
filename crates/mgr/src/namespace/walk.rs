//! From a target to the object it names, or to the directory where a name is to be changed.
//!
//! ```text
//! a/../b/link/c/      a directory each, searched with the caller's permissions
//!             ^       the last component: `to_last` stops before it and the operation decides
//! ```
//!
//! The whole path is walked in one request. A symlink's target takes the place of the component that
//! named it; an absolute one leaves the file system (EXDEV). `..` of the root is the root.

use std::borrow::Cow;
use std::ops::Range;

use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::{AccessBits, Target};
use pvfs_wire::{Errno, PATH_BYTES_MAX};

use super::{Lookup, Node};
use crate::execute::Context;
use crate::record::Body;

/// A path being walked.
pub struct Walk<'t> {
    /// The directory reached; before the first component, any object.
    pub node: Node,
    path: Cow<'t, [u8]>,
    at: usize,
    symlinks: u32,
    /// Whether the path ended in a slash, so that it must name a directory.
    pub slash: bool,
}

/// What is left when all but the last component has been walked.
#[derive(Debug, Eq, PartialEq)]
pub enum Last {
    /// Nothing: the target is the object itself.
    Itself,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// A name to look up in [`Walk::node`].
    Name(Vec<u8>),
}

/// A directory and a name in it, there or not.
pub struct Place {
    /// The directory.
    pub dir: Node,
    /// The name.
    pub name: Vec<u8>,
    /// Whether slashes followed the name.
    pub slash: bool,
}

impl<'t> Walk<'t> {
    /// Begins at the target's directory.
    pub fn new(cx: &Context<'_, '_>, target: &'t Target) -> Result<Self, Errno> {
        check_path(&target.path)?;
        let node = cx.node(target.dir)?;
        let path = Cow::Borrowed(target.path.0.as_slice());
        Ok(Self { node, path, at: 0, symlinks: 0, slash: false })
    }

    /// Walks all components but the last.
    pub fn to_last(&mut self, cx: &Context<'_, '_>) -> Result<Last, Errno> {
        loop {
            let component = self.next_component();
            if component.is_empty() {
                return Ok(Last::Itself);
            }
            require_search(cx, &self.node)?;
            let rest = &self.path[component.end..];
            if rest.iter().all(|byte| *byte == b'/') {
                self.slash = !rest.is_empty();
                return Ok(last(&self.path[component]));
            }
            self.enter(cx, component)?;
        }
    }

    /// Walks the rest and returns the object; a symlink as the last component only if `follow`.
    pub fn to_object(mut self, cx: &Context<'_, '_>, follow: bool) -> Result<Node, Errno> {
        loop {
            let node = match self.to_last(cx)? {
                Last::Itself | Last::Dot => self.node.clone(),
                Last::DotDot => parent(cx, &self.node)?,
                Last::Name(name) => cx.load(cx.lookup(self.node.object, &name)?.found()?.object)?,
            };
            match &node.inode.body {
                Body::Symlink(path) if follow || self.slash => self.follow(path)?,
                Body::Directory(_) => return Ok(node),
                _ if self.slash => return Err(Errno::ENOTDIR),
                _ => return Ok(node),
            }
        }
    }

    /// Goes on with the path in a symlink, which was the last component or one before it.
    pub fn follow(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.symlinks += 1;
        if self.symlinks > SYMLINKS_MAX {
            return Err(Errno::ELOOP);
        }
        if path.first() == Some(&b'/') {
            return Err(Errno::EXDEV);
        }
        // The slash that ended the component, if any, is still ahead.
        self.path = Cow::Owned([path, &self.path[self.at..]].concat());
        self.at = 0;
        Ok(())
    }

    fn enter(&mut self, cx: &Context<'_, '_>, component: Range<usize>) -> Result<(), Errno> {
        let next = match &self.path[component] {
            b"." => return Ok(()),
            b".." => parent(cx, &self.node)?,
            name => match cx.lookup(self.node.object, name)? {
                Lookup::Found(found) => cx.load(found.object)?,
                Lookup::Absent(_) => return Err(Errno::ENOENT),
            },
        };
        match &next.inode.body {
            Body::Symlink(path) => self.follow(path),
            _ => {
                self.node = next;
                Ok(())
            }
        }
    }

    /// The next component, without slashes; empty at the end.
    fn next_component(&mut self) -> Range<usize> {
        let rest = &self.path[self.at..];
        let start = self.at + rest.iter().take_while(|byte| **byte == b'/').count();
        let length = self.path[start..].iter().take_while(|byte| **byte != b'/').count();
        self.slash = start > self.at && length == 0;
        self.at = start + length;
        start..self.at
    }
}

impl Context<'_, '_> {
    /// The object a target names.
    pub fn find(&self, target: &Target, follow: bool) -> Result<Node, Errno> {
        if target.path.is_empty() {
            return self.node(target.dir);
        }
        Walk::new(self, target)?.to_object(self, follow)
    }

    /// The directory and name of a target whose name is to be made or removed; `otherwise` says
    /// what is wrong with a target that has no name.
    pub fn place(
        &self,
        target: &Target,
        otherwise: impl FnOnce(Last) -> Errno,
    ) -> Result<Place, Errno> {
        self.try_place(target)?.map_err(otherwise)
    }

    /// The directory and name of a target, or what it ends in instead of a name.
    pub fn try_place(&self, target: &Target) -> Result<Result<Place, Last>, Errno> {
        let mut walk = Walk::new(self, target)?;
        Ok(match walk.to_last(self)? {
            Last::Name(name) => Ok(Place { dir: walk.node, name, slash: walk.slash }),
            last => Err(last),
        })
    }

    /// The place for a new object. As on Linux, only a directory's name may end in a slash.
    pub fn new_place(
        &self,
        target: &Target,
        kind: FileKind,
    ) -> Result<(Place, super::Slot), Errno> {
        let place = self.place(target, |_| Errno::EEXIST)?;
        let slot = self.lookup(place.dir.object, &place.name)?.absent()?;
        if place.slash && kind != FileKind::Directory {
            return Err(Errno::ENOENT);
        }
        self.who.require_names(&place.dir.inode)?;
        Ok((place, slot))
    }
}

/// The directory that `..` names in this one; the root is in itself.
pub fn parent(cx: &Context<'_, '_>, node: &Node) -> Result<Node, Errno> {
    let directory = node.inode.as_directory().ok_or(Errno::ENOTDIR)?;
    cx.load(directory.parent)
}

fn require_search(cx: &Context<'_, '_>, node: &Node) -> Result<(), Errno> {
    if !node.inode.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    cx.who.require(&node.inode, AccessBits::EXECUTE)
}

fn check_path(path: &[u8]) -> Result<(), Errno> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    if path.contains(&0) { Err(Errno::EINVAL) } else { Ok(()) }
}

fn last(component: &[u8]) -> Last {
    match component {
        b"." => Last::Dot,
        b".." => Last::DotDot,
        name => Last::Name(name.to_vec()),
    }
}

/// As on Linux.
const SYMLINKS_MAX: u32 = 40;
