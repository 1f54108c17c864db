//! One client's directory as it should be: names, hard links, modes. Small enough to be obviously right.

use std::collections::BTreeMap;

use pvfs_wire::Errno;

/// Something done to a directory whose names are numbers.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Create(u8, u32),
    Mkdir(u8, u32),
    Rename(u8, u8, Replacing),
    Unlink(u8),
    Rmdir(u8),
    Link(u8, u8),
    Chmod(u8, u32),
    Stat(u8),
    List,
}

/// What a rename does to a name that is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Replacing {
    Yes,
    No,
    Exchange,
}

/// What the caller is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Told {
    Done,
    Seen(Node),
    Names(Vec<(u8, bool)>),
}

/// An object: its mode tells it from others.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub struct Node {
    pub is_dir: bool,
    pub mode: u32,
    pub nlink: u32,
}

/// A directory. Objects are numbered by the act that made them, so equal histories are equal models.
#[derive(Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd)]
pub struct Model {
    names: BTreeMap<u8, u32>,
    nodes: BTreeMap<u32, Node>,
}

impl Model {
    /// Does it, or says why not. `number` is the act's own.
    pub fn apply(&mut self, act: Act, number: u32) -> Result<Told, Errno> {
        match act {
            Act::Create(name, mode) => self.make(name, number, false, mode),
            Act::Mkdir(name, mode) => self.make(name, number, true, mode),
            Act::Rename(from, to, replacing) => self.rename(from, to, replacing),
            Act::Unlink(name) => self.remove(name, false),
            Act::Rmdir(name) => self.remove(name, true),
            Act::Link(from, to) => self.link(from, to),
            Act::Chmod(name, mode) => {
                self.node(name)?.mode = mode;
                Ok(Told::Done)
            }
            Act::Stat(name) => Ok(Told::Seen(*self.node(name)?)),
            Act::List => {
                let is_dir = |id: &u32| self.nodes[id].is_dir;
                Ok(Told::Names(self.names.iter().map(|(name, id)| (*name, is_dir(id))).collect()))
            }
        }
    }

    fn id(&self, name: u8) -> Result<u32, Errno> {
        self.names.get(&name).copied().ok_or(Errno::ENOENT)
    }

    fn node(&mut self, name: u8) -> Result<&mut Node, Errno> {
        let id = self.id(name)?;
        Ok(self.nodes.get_mut(&id).expect("a name names a node"))
    }

    fn make(&mut self, name: u8, id: u32, is_dir: bool, mode: u32) -> Result<Told, Errno> {
        if self.names.contains_key(&name) {
            return Err(Errno::EEXIST);
        }
        let nlink = if is_dir { 2 } else { 1 };
        self.names.insert(name, id);
        self.nodes.insert(id, Node { is_dir, mode, nlink });
        Ok(Told::Done)
    }

    fn link(&mut self, from: u8, to: u8) -> Result<Told, Errno> {
        let id = self.id(from)?;
        if self.names.contains_key(&to) {
            return Err(Errno::EEXIST);
        }
        let node = self.node(from)?;
        if node.is_dir {
            return Err(Errno::EPERM);
        }
        node.nlink += 1;
        self.names.insert(to, id);
        Ok(Told::Done)
    }

    fn remove(&mut self, name: u8, wants_dir: bool) -> Result<Told, Errno> {
        let node = *self.node(name)?;
        match (node.is_dir, wants_dir) {
            (true, false) => Err(Errno::EISDIR),
            (false, true) => Err(Errno::ENOTDIR),
            _ => {
                self.drop_name(name);
                Ok(Told::Done)
            }
        }
    }

    fn drop_name(&mut self, name: u8) {
        let Some(id) = self.names.remove(&name) else { return };
        let node = self.nodes.get_mut(&id).expect("a name names a node");
        node.nlink -= 1;
        if node.nlink == 0 || node.is_dir {
            self.nodes.remove(&id);
        }
    }

    fn rename(&mut self, from: u8, to: u8, replacing: Replacing) -> Result<Told, Errno> {
        let source = self.id(from)?;
        let target = self.id(to);
        match (target, replacing) {
            (Err(_), Replacing::Exchange) => return Err(Errno::ENOENT),
            (Ok(target), Replacing::Exchange) => {
                self.names.insert(from, target);
                self.names.insert(to, source);
                return Ok(Told::Done);
            }
            (Ok(_), Replacing::No) => return Err(Errno::EEXIST),
            (Ok(target), Replacing::Yes) if target == source => return Ok(Told::Done),
            (Ok(target), Replacing::Yes) => {
                match (self.nodes[&source].is_dir, self.nodes[&target].is_dir) {
                    (true, false) => return Err(Errno::ENOTDIR),
                    (false, true) => return Err(Errno::EISDIR),
                    _ => self.drop_name(to),
                }
            }
            (Err(_), _) => {}
        }
        self.names.remove(&from);
        self.names.insert(to, source);
        Ok(Told::Done)
    }
}
