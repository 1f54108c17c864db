//! A file system in the most obvious way: a tree in memory, every rule spelled out where it applies.
//!
//! Nothing is cached or counted: links are counted by looking for them, parents by searching.

use std::collections::BTreeMap;

use crate::act::{Act, How, Moment, USERS};
use crate::side::{Shown, Side};

/// Error numbers.
pub mod errno {
    pub const EPERM: u32 = 1;
    pub const ENOENT: u32 = 2;
    pub const ENXIO: u32 = 6;
    pub const EBADF: u32 = 9;
    pub const EACCES: u32 = 13;
    pub const EBUSY: u32 = 16;
    pub const EEXIST: u32 = 17;
    pub const EXDEV: u32 = 18;
    pub const ENOTDIR: u32 = 20;
    pub const EISDIR: u32 = 21;
    pub const EINVAL: u32 = 22;
    pub const ENOTEMPTY: u32 = 39;
    pub const ELOOP: u32 = 40;
}
use errno::*;

type Id = usize;
type Result<T> = std::result::Result<T, u32>;

#[derive(Clone, Debug)]
enum Kind {
    Dir(BTreeMap<String, Id>),
    File(u64),
    Symlink(String),
    Fifo,
}

#[derive(Clone, Debug)]
struct Object {
    kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
    times: [i64; 2],
    /// It was made without a name, and may still get its first.
    linkable: bool,
}

/// The tree; object 0 is the root.
pub struct Model {
    objects: Vec<Object>,
    slots: BTreeMap<(usize, u32), (Id, How)>,
    time: i64,
    user: usize,
}

/// Where a name is or would be.
struct Spot {
    dir: Id,
    name: String,
    slash: bool,
}

const R: u32 = 4;
const W: u32 = 2;
const X: u32 = 1;

impl Model {
    pub fn new() -> Self {
        let times = [10_000, 10_000];
        let (kind, linkable) = (Kind::Dir(BTreeMap::new()), false);
        let root = Object { kind, mode: 0o777, uid: 0, gid: 0, times, linkable };
        Self { objects: vec![root], slots: BTreeMap::new(), time: 10_000, user: 0 }
    }

    fn uid(&self) -> u32 {
        USERS[self.user].0
    }

    fn in_group(&self, gid: u32) -> bool {
        USERS[self.user].1 == gid || USERS[self.user].2.contains(&gid)
    }

    fn children(&self, dir: Id) -> Result<&BTreeMap<String, Id>> {
        match &self.objects[dir].kind {
            Kind::Dir(children) => Ok(children),
            _ => Err(ENOTDIR),
        }
    }

    fn children_mut(&mut self, dir: Id) -> &mut BTreeMap<String, Id> {
        match &mut self.objects[dir].kind {
            Kind::Dir(children) => children,
            _ => panic!("not a directory"),
        }
    }

    fn is_dir(&self, id: Id) -> bool {
        matches!(self.objects[id].kind, Kind::Dir(_))
    }

    fn parent(&self, id: Id) -> Id {
        let holds =
            |dir: &Id| self.children(*dir).is_ok_and(|names| names.values().any(|n| *n == id));
        (0..self.objects.len()).find(holds).unwrap_or(0)
    }

    fn nlink(&self, id: Id) -> u32 {
        if self.is_dir(id) {
            let below = self.children(id).unwrap().values().filter(|child| self.is_dir(**child));
            return 2 + below.count() as u32;
        }
        let all = (0..self.objects.len()).filter_map(|dir| self.children(dir).ok());
        all.flat_map(|names| names.values()).filter(|child| **child == id).count() as u32
    }

    fn may(&self, id: Id, wanted: u32) -> bool {
        let object = &self.objects[id];
        if self.uid() == 0 {
            return wanted & X == 0 || self.is_dir(id) || object.mode & 0o111 != 0;
        }
        let bits = if self.uid() == object.uid {
            object.mode >> 6 & 7
        } else if self.in_group(object.gid) {
            object.mode >> 3 & 7
        } else {
            object.mode & 7
        };
        bits & wanted == wanted
    }

    fn require(&self, id: Id, wanted: u32) -> Result<()> {
        if self.may(id, wanted) { Ok(()) } else { Err(EACCES) }
    }

    fn owns(&self, id: Id) -> bool {
        self.uid() == 0 || self.uid() == self.objects[id].uid
    }

    /// The object that `path`, starting at `dir`, names.
    fn walk(&self, dir: Id, path: &str, follow: bool, links: &mut u32) -> Result<Id> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let slash = path.ends_with('/');
        let mut here = dir;
        for (index, name) in names.iter().enumerate() {
            let last = index + 1 == names.len();
            self.children(here)?;
            self.require(here, X)?;
            let next = match *name {
                "." => here,
                ".." => self.parent(here),
                name => *self.children(here)?.get(name).ok_or(ENOENT)?,
            };
            here = match &self.objects[next].kind {
                Kind::Symlink(target) if !last || follow || slash => {
                    *links += 1;
                    if *links > 40 {
                        return Err(ELOOP);
                    }
                    if target.starts_with('/') {
                        return Err(EXDEV);
                    }
                    self.walk(here, target, true, links)?
                }
                _ => next,
            };
        }
        if slash && !self.is_dir(here) { Err(ENOTDIR) } else { Ok(here) }
    }

    fn find(&self, path: &str, follow: bool) -> Result<Id> {
        self.walk(0, path, follow, &mut 0)
    }

    /// The directory and name at the end of a path. The error is for paths that end in dots.
    fn spot_from(
        &self,
        dir: Id,
        path: &str,
        links: &mut u32,
    ) -> Result<std::result::Result<Spot, String>> {
        let bare = path.trim_end_matches('/');
        let slash = bare.len() < path.len();
        let (above, name) = bare.rsplit_once('/').map_or(("", bare), |(above, name)| (above, name));
        let dir = if above.is_empty() { dir } else { self.walk(dir, above, true, links)? };
        self.children(dir)?;
        self.require(dir, X)?;
        if name == "." || name == ".." {
            return Ok(Err(name.to_owned()));
        }
        Ok(Ok(Spot { dir, name: name.to_owned(), slash }))
    }

    fn spot(&self, path: &str, otherwise: impl FnOnce(&str) -> u32) -> Result<Spot> {
        self.spot_from(0, path, &mut 0)?.map_err(|dots| otherwise(&dots))
    }

    fn at(&self, spot: &Spot) -> Option<Id> {
        self.children(spot.dir).unwrap().get(&spot.name).copied()
    }

    fn changed(&mut self, id: Id) {
        self.objects[id].times[1] = self.time;
    }

    fn data_changed(&mut self, id: Id) {
        self.objects[id].times = [self.time, self.time];
    }

    /// Creation by name, with all that is refused.
    fn create(&mut self, path: &str, mode: u32, kind: Kind) -> Result<Id> {
        let spot = self.spot(path, |_| EEXIST)?;
        let is_dir = matches!(kind, Kind::Dir(_));
        if self.at(&spot).is_some() {
            return Err(EEXIST);
        }
        if spot.slash && !is_dir {
            return Err(ENOENT);
        }
        self.require(spot.dir, W | X)?;
        Ok(self.create_at(&spot, mode, kind))
    }

    fn create_at(&mut self, spot: &Spot, mode: u32, kind: Kind) -> Id {
        let id = self.create_in(spot.dir, mode, kind);
        self.children_mut(spot.dir).insert(spot.name.clone(), id);
        self.data_changed(spot.dir);
        id
    }

    /// An object as it is made in this directory, without a name.
    fn create_in(&mut self, dir: Id, mut mode: u32, kind: Kind) -> Id {
        let dir = &self.objects[dir];
        let mut gid = USERS[self.user].1;
        let is_dir = matches!(kind, Kind::Dir(_));
        if is_dir {
            mode &= 0o1777;
        }
        if dir.mode & 0o2000 != 0 {
            gid = dir.gid;
            if is_dir {
                mode |= 0o2000;
            } else if mode & 0o2010 == 0o2010 && self.uid() != 0 && !self.in_group(gid) {
                mode &= !0o2000;
            }
        }
        let times = [self.time, self.time];
        self.objects.push(Object { kind, mode, uid: self.uid(), gid, times, linkable: false });
        self.objects.len() - 1
    }

    fn may_remove(&self, dir: Id, victim: Id) -> Result<()> {
        self.require(dir, W | X)?;
        let sticky = self.objects[dir].mode & 0o1000 != 0;
        if sticky && !self.owns(dir) && !self.owns(victim) { Err(EPERM) } else { Ok(()) }
    }

    fn unlink(&mut self, path: &str) -> Result<()> {
        let spot = self.spot(path, |_| EISDIR)?;
        let victim = self.at(&spot).ok_or(ENOENT)?;
        if spot.slash {
            return Err(if self.is_dir(victim) { EISDIR } else { ENOTDIR });
        }
        self.may_remove(spot.dir, victim)?;
        if self.is_dir(victim) {
            return Err(EISDIR);
        }
        self.take(&spot);
        self.changed(victim);
        Ok(())
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        let spot = self.spot(path, |dots| if dots == "." { EINVAL } else { ENOTEMPTY })?;
        let victim = self.at(&spot).ok_or(ENOENT)?;
        self.may_remove(spot.dir, victim)?;
        if !self.children(victim)?.is_empty() {
            return Err(ENOTEMPTY);
        }
        self.take(&spot);
        Ok(())
    }

    fn take(&mut self, spot: &Spot) {
        self.children_mut(spot.dir).remove(&spot.name);
        self.data_changed(spot.dir);
    }

    fn is_below(&self, mut id: Id, above: Id) -> bool {
        while id != above {
            if id == 0 {
                return false;
            }
            id = self.parent(id);
        }
        true
    }

    fn rename(&mut self, old: &str, new: &str, flags: u32) -> Result<()> {
        let (noreplace, exchange) = (flags & 1 != 0, flags & 2 != 0);
        if noreplace && exchange {
            return Err(EINVAL);
        }
        let from = self.spot_from(0, old, &mut 0)?;
        let to = self.spot_from(0, new, &mut 0)?;
        let from = from.map_err(|_| EBUSY)?;
        let to = to.map_err(|_| if noreplace { EEXIST } else { EBUSY })?;
        let source = self.at(&from).ok_or(ENOENT)?;
        let victim = self.at(&to);
        if noreplace && victim.is_some() {
            return Err(EEXIST);
        }
        if exchange {
            let victim = victim.ok_or(ENOENT)?;
            if !self.is_dir(victim) && to.slash {
                return Err(ENOTDIR);
            }
        }
        if !self.is_dir(source) && (from.slash || !exchange && to.slash) {
            return Err(ENOTDIR);
        }
        if from.dir != to.dir && self.is_dir(source) && self.is_below(to.dir, source) {
            return Err(EINVAL);
        }
        if let Some(victim) = victim {
            if from.dir != to.dir && self.is_dir(victim) && self.is_below(from.dir, victim) {
                return Err(if exchange { EINVAL } else { ENOTEMPTY });
            }
            if source == victim {
                return Ok(());
            }
        }
        self.may_remove(from.dir, source)?;
        match victim {
            None => self.require(to.dir, W | X)?,
            Some(victim) => {
                self.may_remove(to.dir, victim)?;
                if !exchange && self.is_dir(source) && !self.is_dir(victim) {
                    return Err(ENOTDIR);
                }
                if !exchange && !self.is_dir(source) && self.is_dir(victim) {
                    return Err(EISDIR);
                }
            }
        }
        if from.dir != to.dir {
            if self.is_dir(source) {
                self.require(source, W)?;
            }
            if let Some(victim) = victim.filter(|victim| exchange && self.is_dir(*victim)) {
                self.require(victim, W)?;
            }
        }
        let filled = |id: Id| self.children(id).is_ok_and(|names| !names.is_empty());
        if !exchange && victim.is_some_and(filled) {
            return Err(ENOTEMPTY);
        }
        self.take(&from);
        self.children_mut(to.dir).insert(to.name.clone(), source);
        self.data_changed(to.dir);
        self.changed(source);
        if let Some(victim) = victim {
            self.changed(victim);
            if exchange {
                self.children_mut(from.dir).insert(from.name.clone(), victim);
            }
        }
        Ok(())
    }

    fn link(&mut self, old: &str, new: &str, follow: bool) -> Result<()> {
        let source = self.find(old, follow)?;
        self.link_object(source, new)
    }

    fn link_object(&mut self, source: Id, new: &str) -> Result<()> {
        let spot = self.spot(new, |_| EEXIST)?;
        if self.at(&spot).is_some() {
            return Err(EEXIST);
        }
        if spot.slash {
            return Err(ENOENT);
        }
        self.require(spot.dir, W | X)?;
        if self.is_dir(source) {
            return Err(EPERM);
        }
        if self.nlink(source) == 0 && !self.objects[source].linkable {
            return Err(ENOENT);
        }
        self.objects[source].linkable = false;
        self.children_mut(spot.dir).insert(spot.name.clone(), source);
        self.data_changed(spot.dir);
        self.changed(source);
        Ok(())
    }

    fn chmod(&mut self, path: &str, mode: u32) -> Result<()> {
        let id = self.find(path, true)?;
        if !self.owns(id) {
            return Err(EPERM);
        }
        let foreign = self.uid() != 0 && !self.in_group(self.objects[id].gid);
        self.objects[id].mode = if foreign { mode & !0o2000 } else { mode };
        self.changed(id);
        Ok(())
    }

    fn chown(
        &mut self,
        path: &str,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    ) -> Result<()> {
        let id = self.find(path, follow)?;
        let object = &self.objects[id];
        if self.uid() != 0 {
            let owner = self.uid() == object.uid;
            let uid_allowed = uid.is_none_or(|uid| owner && uid == object.uid);
            let gid_allowed =
                gid.is_none_or(|gid| owner && (gid == object.gid || self.in_group(gid)));
            if !uid_allowed || !gid_allowed {
                return Err(EPERM);
            }
        }
        if uid.is_some() || gid.is_some() {
            self.drop_privileges(id, self.uid() == 0 || self.in_group(self.objects[id].gid));
        }
        let object = &mut self.objects[id];
        object.uid = uid.unwrap_or(object.uid);
        object.gid = gid.unwrap_or(object.gid);
        self.changed(id);
        Ok(())
    }

    fn drop_privileges(&mut self, id: Id, in_group: bool) {
        if self.is_dir(id) {
            return;
        }
        let mode = &mut self.objects[id].mode;
        *mode &= !0o4000;
        if *mode & 0o010 != 0 || !in_group {
            *mode &= !0o2000;
        }
    }

    fn times(&mut self, path: &str, atime: Moment, mtime: Moment) -> Result<()> {
        if (atime, mtime) == (Moment::Omit, Moment::Omit) {
            return Ok(()); // The kernel does not even look.
        }
        let id = self.find(path, true)?;
        if (atime, mtime) == (Moment::Now, Moment::Now) {
            if !self.owns(id) {
                self.require(id, W)?;
            }
        } else if !self.owns(id) {
            return Err(EPERM);
        }
        match mtime {
            Moment::Omit => {}
            Moment::Now => self.objects[id].times[0] = self.time,
            Moment::At(seconds) => self.objects[id].times[0] = seconds,
        }
        self.changed(id);
        Ok(())
    }

    fn open(&mut self, path: &str, how: How, mode: u32, slot: u32) -> Result<()> {
        if how.create && how.directory {
            return Err(EINVAL);
        }
        if how.nameless {
            return self.open_nameless(path, how, mode, slot);
        }
        let id = match self.goal(0, path, how, &mut 0)? {
            Ok(id) => id,
            Err(spot) => {
                self.require(spot.dir, W | X)?;
                let id = self.create_at(&spot, mode, Kind::File(0));
                self.slots.insert((self.user, slot), (id, how));
                return Ok(());
            }
        };
        if self.is_dir(id) {
            if how.create || how.write || how.truncate {
                return Err(EISDIR);
            }
        } else if how.directory {
            return Err(ENOTDIR);
        }
        if matches!(self.objects[id].kind, Kind::Symlink(_)) {
            return Err(ELOOP);
        }
        let wanted = [(how.read, R), (how.write || how.truncate, W)];
        let wanted = wanted.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum();
        self.require(id, wanted)?;
        match self.objects[id].kind {
            Kind::File(_) => {}
            Kind::Dir(_) => return Ok(()),
            _ => return Err(ENXIO),
        }
        if how.truncate {
            self.cut(id, 0);
        }
        self.slots.insert((self.user, slot), (id, how));
        Ok(())
    }

    fn open_nameless(&mut self, path: &str, how: How, mode: u32, slot: u32) -> Result<()> {
        if !how.directory || !how.write {
            return Err(EINVAL);
        }
        let dir = self.find(path, !how.nofollow)?;
        if !self.is_dir(dir) {
            return Err(ENOTDIR);
        }
        self.require(dir, W | X)?;
        let id = self.create_in(dir, mode, Kind::File(0));
        self.objects[id].linkable = !how.exclusive;
        self.slots.insert((self.user, slot), (id, how));
        Ok(())
    }

    /// What an open leads to: an object, or the spot for a new one.
    fn goal(
        &self,
        dir: Id,
        path: &str,
        how: How,
        links: &mut u32,
    ) -> Result<std::result::Result<Id, Spot>> {
        let spot = match self.spot_from(dir, path, links)? {
            Ok(spot) => spot,
            Err(_) if how.create && how.exclusive => return Err(EEXIST),
            Err(_) => return self.walk(dir, path, true, links).map(Ok),
        };
        if how.create && spot.slash {
            return Err(EISDIR);
        }
        let Some(id) = self.at(&spot) else {
            return if how.create { Ok(Err(spot)) } else { Err(ENOENT) };
        };
        if how.create && how.exclusive {
            return Err(EEXIST);
        }
        match &self.objects[id].kind {
            Kind::Symlink(target) if spot.slash || !how.nofollow => {
                *links += 1;
                if *links > 40 {
                    return Err(ELOOP);
                }
                if target.starts_with('/') {
                    return Err(EXDEV);
                }
                let target = if spot.slash { format!("{target}/") } else { target.clone() };
                self.goal(spot.dir, &target, how, links)
            }
            Kind::Dir(_) => Ok(Ok(id)),
            _ if spot.slash => Err(ENOTDIR),
            _ => Ok(Ok(id)),
        }
    }

    fn cut(&mut self, id: Id, size: u64) {
        self.objects[id].kind = Kind::File(size);
        self.data_changed(id);
        if self.uid() != 0 {
            self.drop_privileges(id, self.in_group(self.objects[id].gid));
        }
    }

    fn truncate(&mut self, path: &str, size: u64) -> Result<()> {
        let id = self.find(path, true)?;
        match self.objects[id].kind {
            Kind::Dir(_) => return Err(EISDIR),
            Kind::File(_) => {}
            _ => return Err(EINVAL),
        }
        self.require(id, W)?;
        self.cut(id, size);
        Ok(())
    }

    fn slot(&self, slot: u32) -> Result<(Id, How)> {
        self.slots.get(&(self.user, slot)).copied().ok_or(EBADF)
    }

    fn write(&mut self, slot: u32, end: Option<u64>) -> Result<()> {
        let (id, how) = self.slot(slot)?;
        let Kind::File(size) = self.objects[id].kind else { panic!("not a file") };
        let at_end = how.append || end.is_none();
        let end = end.filter(|_| !at_end).unwrap_or(size + 1);
        self.objects[id].kind = Kind::File(size.max(end));
        self.data_changed(id);
        if self.uid() != 0 {
            self.drop_privileges(id, false);
        }
        Ok(())
    }

    fn show(&self, id: Id) -> Shown {
        let object = &self.objects[id];
        let (kind, size, target) = match &object.kind {
            Kind::Dir(_) => ('d', 0, String::new()),
            Kind::File(size) => ('f', *size, String::new()),
            Kind::Symlink(target) => ('l', target.len() as u64, target.clone()),
            Kind::Fifo => ('p', 0, String::new()),
        };
        Shown {
            kind,
            mode: object.mode,
            nlink: self.nlink(id),
            uid: object.uid,
            gid: object.gid,
            size,
            target,
            object: id as u64,
            times: object.times,
            written: self.slots.values().any(|(open, how)| *open == id && how.write),
        }
    }

    fn gather(&self, dir: Id, above: &str, into: &mut BTreeMap<String, Shown>) {
        for (name, id) in self.children(dir).unwrap() {
            let path = format!("{above}/{name}");
            into.insert(path.clone(), self.show(*id));
            if self.is_dir(*id) {
                self.gather(*id, &path, into);
            }
        }
    }

    /// The size of the regular file at `path`, whoever asks.
    pub fn size_of(&mut self, path: &str) -> Option<u64> {
        self.user = 0;
        match self.objects[self.find(path, true).ok()?].kind {
            Kind::File(size) => Some(size),
            _ => None,
        }
    }

    /// Whether Linux, when told to protect hard links, refuses to make one of `id`.
    fn is_protected(&self, id: Id) -> bool {
        let object = &self.objects[id];
        let harmless = matches!(object.kind, Kind::File(_))
            && object.mode & 0o6000 == 0
            && self.may(id, R | W);
        !self.owns(id) && !harmless
    }

    /// Whether `id` is open for writing by anybody.
    fn is_written(&self, id: Id) -> bool {
        self.slots.values().any(|(open, how)| *open == id && how.write)
    }
}

impl Side for Model {
    fn name(&self) -> &'static str {
        "the model"
    }

    /// What Linux forbids beyond POSIX by its setting protected_hardlinks, what would block, and
    /// what depends on when a written file loses its privileges.
    fn is_unfair(&mut self, user: usize, act: &Act) -> bool {
        self.user = user;
        match act {
            Act::Link { old, follow, .. } => {
                self.find(old, *follow).is_ok_and(|id| self.is_protected(id))
            }
            Act::LinkOpen { slot, .. } => {
                self.slot(*slot).is_ok_and(|(id, _)| self.is_protected(id))
            }
            Act::Open { how: How { nameless: true, .. }, .. } => false,
            Act::Open { path, how, .. } => {
                let goal = self.goal(0, path, *how, &mut 0);
                goal.is_ok_and(|goal| {
                    goal.is_ok_and(|id| matches!(self.objects[id].kind, Kind::Fifo))
                })
            }
            Act::Chmod { path, mode } => {
                *mode & 0o6000 != 0 && self.find(path, true).is_ok_and(|id| self.is_written(id))
            }
            Act::Access { bits: 0, .. } => false,
            _ => false,
        }
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    fn open_slots(&self) -> Vec<(usize, u32)> {
        self.slots.keys().copied().collect()
    }

    fn act(&mut self, user: usize, act: &Act) -> std::result::Result<String, u32> {
        self.user = user;
        self.time += 1;
        let done = |()| String::new();
        match act {
            Act::Mkdir { path, mode } => {
                self.create(path, *mode, Kind::Dir(BTreeMap::new())).map(|_| String::new())
            }
            Act::File { path, mode } => {
                self.create(path, *mode, Kind::File(0)).map(|_| String::new())
            }
            Act::Fifo { path, mode } => self.create(path, *mode, Kind::Fifo).map(|_| String::new()),
            Act::Symlink { to, path } => {
                self.create(path, 0o777, Kind::Symlink(to.clone())).map(|_| String::new())
            }
            Act::Link { old, new, follow } => self.link(old, new, *follow).map(done),
            Act::LinkOpen { slot, new } => {
                let (id, _) = self.slot(*slot)?;
                self.link_object(id, new).map(done)
            }
            Act::Unlink { path } => self.unlink(path).map(done),
            Act::Rmdir { path } => self.rmdir(path).map(done),
            Act::Rename { old, new, flags } => self.rename(old, new, *flags).map(done),
            Act::Chmod { path, mode } => self.chmod(path, *mode).map(done),
            Act::Chown { path, uid, gid, follow } => {
                self.chown(path, *uid, *gid, *follow).map(done)
            }
            Act::Times { path, atime, mtime } => self.times(path, *atime, *mtime).map(done),
            Act::Stat { path, follow } => {
                let id = self.find(path, *follow)?;
                Ok(if self.is_dir(id) { "directory" } else { "other" }.to_owned())
            }
            Act::Readlink { path } => match &self.objects[self.find(path, false)?].kind {
                Kind::Symlink(target) => Ok(target.clone()),
                _ => Err(EINVAL),
            },
            Act::Access { path, bits } => {
                let id = self.find(path, true)?;
                self.require(id, *bits).map(done)
            }
            Act::List { path } => {
                let id = self.find(path, true)?;
                self.children(id)?;
                self.require(id, R)?;
                Ok(self.children(id)?.keys().cloned().collect::<Vec<_>>().join(" "))
            }
            Act::Truncate { path, size } => self.truncate(path, *size).map(done),
            Act::Open { path, how, mode, slot } => {
                self.slots.remove(&(user, *slot));
                self.open(path, *how, *mode, *slot).map(done)
            }
            Act::Close { slot } => {
                self.slots.remove(&(user, *slot)).map(|_| String::new()).ok_or(EBADF)
            }
            Act::Write { slot, end } => match self.slot(*slot)?.1.write {
                true => self.write(*slot, Some(*end)).map(done),
                false => Err(EBADF),
            },
            Act::Append { slot } => match self.slot(*slot)?.1 {
                How { write: true, append: true, .. } => self.write(*slot, None).map(done),
                _ => Err(EBADF),
            },
            Act::Ftruncate { slot, size } => {
                let (id, how) = self.slot(*slot)?;
                if !how.write {
                    return Err(EINVAL);
                }
                self.cut(id, *size);
                Ok(String::new())
            }
        }
    }

    fn tree(&mut self) -> BTreeMap<String, Shown> {
        let mut tree = BTreeMap::from([(String::new(), self.show(0))]);
        self.gather(0, "", &mut tree);
        tree
    }
}
