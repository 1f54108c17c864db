//! A file system in memory, and words to talk to it.

use pvfs_layout::{IodId, Scheme};
use pvfs_mgr::execute::{Context, Execute, Policy, Random, apply};
use pvfs_mgr::namespace::{Filesystem, FormatOptions, check, expire_client};
use pvfs_mgr::permission::Credentials;
use pvfs_mgr::store::{MemoryStore, Store, Transaction};
use pvfs_wire::attr::{Attr, Striping, Time};
use pvfs_wire::ops::*;
use pvfs_wire::token::KeyRing;
use pvfs_wire::{Errno, Handle};

/// One manager's name space, driven one request at a time.
pub struct World {
    /// What is stored.
    pub store: MemoryStore,
    /// Which file system.
    pub fs: Filesystem,
    /// How it is run.
    pub policy: Policy,
    /// Signs capabilities.
    pub keys: KeyRing,
    /// Chance, from a seed.
    pub random: Random,
    /// The clock: one second later with every request.
    pub now: Time,
    /// The object that the last request found busy.
    pub busy: Option<u64>,
}

/// A user without supplementary groups, in the group of the same number.
pub fn user(uid: u32) -> Credentials {
    Credentials { uid, gid: uid, gids: Vec::new(), session: u64::from(uid) }
}

/// The superuser.
pub fn root() -> Credentials {
    user(0)
}

impl World {
    /// An empty file system whose root everybody may write, with four iods.
    pub fn new(seed: u64) -> Self {
        let options = FormatOptions { mode: 0o777, ..FormatOptions::new(7, 9, [3; 16]) };
        Self::with(seed, options)
    }

    /// A file system formatted like this.
    pub fn with(seed: u64, options: FormatOptions) -> Self {
        let store = MemoryStore::new();
        let snapshot = store.snapshot();
        let mut tx = Transaction::new(&*snapshot);
        let now = Time { seconds: 1_000_000, nanos: 0 };
        let fs = Filesystem::format(&mut tx, &options, now).unwrap();
        store.commit(tx.into_batch()).unwrap();
        let (keys, random) = (KeyRing::new(&[[1; 32]]), Random::new(seed));
        Self { store, fs, policy: policy(4), keys, random, now, busy: None }
    }

    /// Executes one request of client 1.
    pub fn run<O: Execute>(&mut self, who: &Credentials, operation: O) -> Result<O::Reply, Errno> {
        self.run_for(1, who, operation)
    }

    /// Executes one request.
    pub fn run_for<O: Execute>(
        &mut self,
        client: u64,
        who: &Credentials,
        operation: O,
    ) -> Result<O::Reply, Errno> {
        self.with_context(client, who, |cx| apply(&operation, cx))
    }

    /// Loses all that this client has open.
    pub fn expire(&mut self, client: u64) {
        let all = self.with_context(0, &root(), |cx| expire_client(cx, client, 1000));
        assert_eq!(all, Ok(true));
    }

    /// Runs something in a context of its own, and commits what it changed.
    pub fn with_context<T>(
        &mut self,
        client: u64,
        who: &Credentials,
        run: impl FnOnce(&mut Context<'_, '_>) -> T,
    ) -> T {
        self.now.seconds += 1;
        let snapshot = self.store.snapshot();
        let mut tx = Transaction::new(&*snapshot);
        let mut cx = Context {
            tx: &mut tx,
            fs: &self.fs,
            who,
            client,
            now: self.now,
            policy: &self.policy,
            keys: &self.keys,
            random: &mut self.random,
            busy: None,
            left: Vec::new(),
        };
        let result = run(&mut cx);
        self.busy = cx.busy;
        self.store.commit(tx.into_batch()).unwrap();
        result
    }

    /// Fails the test when an invariant is broken.
    pub fn check(&self) {
        let violations = check(&*self.store.snapshot()).unwrap();
        assert_eq!(violations, []);
    }

    /// A path from the root.
    pub fn at(&self, path: impl AsRef<[u8]>) -> Target {
        Target::below(self.root(), path)
    }

    /// The root directory.
    pub fn root(&self) -> Handle {
        Handle::root(self.fs.fsid(), self.fs.generation())
    }

    /// lstat
    pub fn stat(&mut self, who: &Credentials, path: &str) -> Result<Attr, Errno> {
        let target = self.at(path);
        Ok(self.run(who, Stat { target, follow: false, placement: false })?.attr)
    }

    fn made(&mut self, Made { attr, directory }: Made) -> Attr {
        self.is_so(&attr);
        self.is_so(&directory);
        attr
    }

    /// Fails the test unless whoever asks now is told the same.
    fn is_so(&mut self, told: &Attr) {
        let target = Target::object(told.handle);
        let stated = self.run(&root(), Stat { target, follow: false, placement: false });
        assert_eq!(stated.unwrap().attr, *told);
    }

    /// mkdir
    pub fn mkdir(&mut self, who: &Credentials, path: &str, mode: u32) -> Result<Attr, Errno> {
        let target = self.at(path);
        let made = self.run(who, Mkdir { target, mode })?;
        Ok(self.made(made))
    }

    /// A regular file that nobody has open.
    pub fn file(&mut self, who: &Credentials, path: &str, mode: u32) -> Result<Attr, Errno> {
        let (target, kind) = (self.at(path), pvfs_wire::attr::FileKind::Regular);
        let made = self.run(who, Mknod { target, kind, mode, rdev: 0 })?;
        Ok(self.made(made))
    }

    /// symlink
    pub fn symlink(&mut self, who: &Credentials, to: &str, path: &str) -> Result<Attr, Errno> {
        let target = self.at(path);
        let made = self.run(who, Symlink { target, path: to.into() })?;
        Ok(self.made(made))
    }

    /// link
    pub fn link(&mut self, who: &Credentials, old: &str, new: &str) -> Result<Attr, Errno> {
        let (existing, new) = (self.at(old), self.at(new));
        let made = self.run(who, Link { existing, follow: false, new })?;
        Ok(self.made(made))
    }

    /// unlink
    pub fn unlink(&mut self, who: &Credentials, path: &str) -> Result<Unlinked, Errno> {
        let target = self.at(path);
        let gone = self.run(who, Unlink { target })?;
        self.is_so(&gone.directory);
        Ok(gone)
    }

    /// rmdir
    pub fn rmdir(&mut self, who: &Credentials, path: &str) -> Result<Unlinked, Errno> {
        let target = self.at(path);
        let gone = self.run(who, Rmdir { target })?;
        self.is_so(&gone.directory);
        Ok(gone)
    }

    /// rename
    pub fn rename(&mut self, who: &Credentials, old: &str, new: &str) -> Result<Attr, Errno> {
        self.rename_with(who, old, new, RenameFlags::NONE)
    }

    /// renameat2
    pub fn rename_with(
        &mut self,
        who: &Credentials,
        old: &str,
        new: &str,
        flags: RenameFlags,
    ) -> Result<Attr, Errno> {
        let (from, to) = (self.at(old), self.at(new));
        let moved = self.run(who, Rename { from, to, flags })?;
        moved.directories.iter().chain([&moved.attr]).for_each(|attr| self.is_so(attr));
        Ok(moved.attr)
    }

    /// chmod
    pub fn chmod(&mut self, who: &Credentials, path: &str, mode: u32) -> Result<Attr, Errno> {
        let change = SetAttr { mode: Some(mode), ..nothing(self.at(path)) };
        Ok(self.run(who, change)?.attr)
    }

    /// chown
    pub fn chown(
        &mut self,
        who: &Credentials,
        path: &str,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<Attr, Errno> {
        let change = SetAttr { uid, gid, ..nothing(self.at(path)) };
        Ok(self.run(who, change)?.attr)
    }

    /// open, as client 1
    pub fn open(
        &mut self,
        who: &Credentials,
        path: &str,
        flags: OpenFlags,
        open: u64,
    ) -> Result<Opened, Errno> {
        self.open_for(1, who, path, flags, open)
    }

    /// open
    pub fn open_for(
        &mut self,
        client: u64,
        who: &Credentials,
        path: &str,
        flags: OpenFlags,
        open: u64,
    ) -> Result<Opened, Errno> {
        let (target, striping) = (self.at(path), Striping::default());
        let opened =
            self.run_for(client, who, Open { target, flags, mode: 0o644, striping, open })?;
        let is_entered = opened.created && !flags.has(OpenFlags::NAMELESS);
        assert_eq!(is_entered, opened.directory.is_some());
        opened.directory.iter().for_each(|directory| self.is_so(directory));
        Ok(opened)
    }

    /// close after writing up to `end`, as client 1
    pub fn close(&mut self, open: u64, end: Option<u64>) {
        self.close_for(1, open, end, false);
    }

    /// close
    pub fn close_for(&mut self, client: u64, open: u64, end: Option<u64>, uncertain: bool) {
        let mtime = self.now;
        let wrote = end.map(|end| Wrote { end, mtime, uncertain, disk_bytes: None });
        let opens = vec![ClosedOpen { open, wrote }];
        self.run_for(client, &root(), Close { opens }).unwrap();
    }

    /// All names of a directory, in pages of `entries_max`.
    pub fn list(&mut self, who: &Credentials, path: &str, entries_max: u32) -> Vec<String> {
        let dir = self.stat(who, path).unwrap().handle;
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let listing =
                self.run(who, Readdir { dir, cookie, entries_max, attributes: false }).unwrap();
            for entry in &listing.entries {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                cookie = entry.cookie;
            }
            if listing.end {
                return names;
            }
        }
    }
}

/// A change of attributes that changes none.
pub fn nothing(target: Target) -> SetAttr {
    let (mode, uid, gid, atime, mtime) = (None, None, None, None, None);
    SetAttr { target, follow: true, mode, uid, gid, atime, mtime }
}

/// As usual, over so many iods.
pub fn policy(iods: u32) -> Policy {
    Policy {
        scheme: Scheme::default(),
        pcount: None,
        iods: (0..iods).map(IodId).collect(),
        free_bytes: vec![1 << 40; iods as usize],
        capability_lifetime_s: 600,
        objects_free: 1 << 30,
        map: ClusterMap {
            version: 1,
            filesystem: "test".into(),
            iods: Vec::new(),
            dist: Scheme::default().to_string(),
            pcount: iods,
            ssize: 64 << 10,
        },
    }
}
