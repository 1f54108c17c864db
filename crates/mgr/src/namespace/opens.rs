//! Open files: recording, closing, and the capabilities that go with them.

use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, Time};
use pvfs_wire::ops::{AccessBits, OpenFlags, Wrote};
use pvfs_wire::token::{CLOCK_SKEW_S, Capability, Holder, Rights};

use super::Node;
use crate::execute::Context;
use crate::keys;
use crate::permission::without_privileges;
use crate::record::{First, OpenFile, Record, Truncation, VERSION, Written};
use crate::store::{StoreError, View};

/// How an open ends.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// Closed by its client, which reports what it wrote.
    Closed(Option<Wrote>),
    /// Its client is gone, and with it the knowledge of what it wrote.
    Expired,
}

impl Context<'_, '_> {
    /// The open of this number, to be used by whoever opened it.
    pub fn open_file(&self, open: u64) -> Result<OpenFile, Errno> {
        let opened: OpenFile = self.record(&keys::open(self.client, open))?.ok_or(Errno::EBADF)?;
        if opened.uid != self.who.uid && !self.who.is_root() {
            return Err(Errno::EPERM);
        }
        Ok(opened)
    }

    /// Records an open of a regular file, whose inode the caller saves.
    pub fn begin_open(&mut self, node: &mut Node, number: u64, flags: OpenFlags) {
        let open = OpenFile { object: node.object, flags, uid: self.who.uid };
        self.tx.put(keys::open(self.client, number), open.encode());
        node.inode.as_file_mut().expect("only regular files are opened").begin_open(&open);
    }

    /// The open of this number, of a file somebody else opened, shares with that open what belongs to open files: locks.
    pub fn take_part(&mut self, number: u64, object: u64, from: First) -> Result<(), Errno> {
        let first = self.first_of(from.client, from.open)?.unwrap_or(from);
        let opened: Option<OpenFile> = self.record(&keys::open(first.client, first.open))?;
        if opened.is_some_and(|opened| opened.object != object) {
            return Err(Errno::EINVAL);
        }
        self.tx.put(keys::taken(self.client, number), first.encode());
        let partaker = keys::partaker((first.client, first.open), self.client, number);
        self.tx.put(partaker, vec![VERSION]);
        Ok(())
    }

    fn first_of(&self, client: u64, number: u64) -> Result<Option<First>, Errno> {
        self.record(&keys::taken(client, number))
    }

    /// An open ends: the open file has one less who takes part in it.
    fn leave(&mut self, client: u64, number: u64, open: &OpenFile) -> Result<(), Errno> {
        let own = First { client, open: number };
        if !open.flags.has(OpenFlags::ADOPTED) {
            self.left.push(own);
            return Ok(());
        }
        let first = self.first_of(client, number)?.unwrap_or(own);
        self.tx.delete(keys::taken(client, number));
        self.tx.delete(keys::partaker((first.client, first.open), client, number));
        self.left.push(first);
        Ok(())
    }

    /// Ends one open; an unknown one has ended before. Returns what is left of a file that it could write.
    pub fn end_open(
        &mut self,
        client: u64,
        number: u64,
        ending: Ending,
    ) -> Result<Option<Attr>, Errno> {
        let key = keys::open(client, number);
        let Some(open) = self.record::<OpenFile>(&key)? else { return Ok(None) };
        self.tx.delete(key);
        self.leave(client, number, &open)?;
        let mut node = self.load(open.object)?;
        if let (Ending::Closed(Some(wrote)), true) = (ending, open.writes()) {
            note_written(&mut node, open.uid, wrote.mtime.min(latest(self.now)));
        }
        let file = node.inode.as_file_mut().ok_or(Errno::EIO)?;
        let holder = file.writing.truncation.map(|cut| (cut.client, cut.open));
        if holder == Some((client, Some(number))) {
            file.drop_truncation();
            node.inode.touch(self.now); // What the iods were asked before is no news any more.
        }
        let file = node.inode.as_file_mut().ok_or(Errno::EIO)?;
        match ending {
            Ending::Closed(Some(wrote)) if open.writes() => {
                let Wrote { end, uncertain, disk_bytes, .. } = wrote;
                file.end_open(&open, Some(Written { end, certain: !uncertain, disk_bytes }));
            }
            Ending::Expired if open.writes() => {
                file.end_open(&open, Some(UNKNOWN));
                node.inode.touch(self.now);
            }
            _ => file.end_open(&open, None),
        }
        let left = self.attr(&node);
        self.save_or_remove(&node)?;
        Ok((open.writes() && left.nlink > 0).then_some(left))
    }

    /// Begins a truncation of a file; EAGAIN with [`Context::busy`] while another one is under way.
    pub fn begin_truncation(
        &mut self,
        node: &mut Node,
        size: u64,
        open: Option<u64>,
        opens_for_it: u32,
    ) -> Result<u64, Errno> {
        let file = node.inode.as_file_mut().ok_or(Errno::EINVAL)?;
        if !file.truncation_is_over(self.now) {
            self.busy = Some(node.object);
            return Err(Errno::EAGAIN);
        }
        if let Some(forgotten) = file.writing.truncation {
            self.tx.delete(keys::ticket(forgotten.client, node.object));
        }
        let ticket = self.random.number();
        let client = self.client;
        let began = self.now;
        let truncation = Truncation { ticket, client, open, size, began, disturbed: false };
        file.begin_truncation(truncation, opens_for_it);
        if open.is_none() {
            let value = [&[VERSION][..], &ticket.to_le_bytes()].concat();
            self.tx.put(keys::ticket(client, node.object), value);
        }
        Ok(ticket)
    }

    /// A capability for a regular file, and when it expires.
    pub fn capability(&self, node: &Node, rights: Rights) -> Result<(Vec<u8>, u64), Errno> {
        self.shared_capability(node, rights, Holder::Session(self.who.session), u64::MAX)
    }

    /// The like for other holders than who is asking, good until `expiry_max` at the latest.
    pub fn shared_capability(
        &self,
        node: &Node,
        rights: Rights,
        holder: Holder,
        expiry_max: u64,
    ) -> Result<(Vec<u8>, u64), Errno> {
        let file = node.inode.as_file().ok_or(Errno::EINVAL)?;
        let now_s = u64::try_from(self.now.seconds).unwrap_or(0);
        let expiry = (now_s + self.policy.capability_lifetime_s).min(expiry_max);
        let capability = Capability {
            handle: self.fs.handle(node.object),
            rights,
            dist: file.placement.dist.clone(),
            holder,
            layout_epoch: file.layout_epoch,
            expiry,
        };
        Ok((self.keys.sign_capability(&capability), expiry))
    }

    /// Ends up to `opens_max` opens and truncations of a client that is gone. Says whether that was
    /// all; if not, ask again in another round.
    fn expire(&mut self, client: u64, opens_max: usize) -> Result<bool, Errno> {
        let opens = self.some_keys(&keys::opens(client), opens_max)?;
        for key in &opens {
            let number = keys::second_number(key).ok_or(Errno::EIO)?;
            self.end_open(client, number, Ending::Expired)?;
        }
        let tickets = self.some_keys(&keys::tickets(client), opens_max - opens.len())?;
        for key in &tickets {
            self.drop_ticket(key)?;
        }
        Ok(opens.len() + tickets.len() < opens_max)
    }

    fn some_keys(&self, prefix: &[u8], keys_max: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.tx.scan_prefix(prefix).take(keys_max).map(|entry| Ok(entry?.0)).collect()
    }

    fn drop_ticket(&mut self, key: &[u8]) -> Result<(), Errno> {
        let object = keys::second_number(key).ok_or(Errno::EIO)?;
        let mut node = self.load(object)?;
        let now = self.now;
        self.tx.delete(key);
        node.inode.as_file_mut().ok_or(Errno::EIO)?.drop_truncation();
        node.inode.touch(now);
        self.save_or_remove(&node)
    }
}

/// Ends the opens and truncations of a client that is gone, at most `opens_max` in this round. Says
/// whether that was all. An entry that cannot be read fails the round and leaves it undone.
pub fn expire_client(
    cx: &mut Context<'_, '_>,
    client: u64,
    opens_max: usize,
) -> Result<bool, Errno> {
    let savepoint = cx.tx.savepoint();
    let result = cx.expire(client, opens_max);
    if result.is_err() {
        cx.tx.rollback(savepoint);
    }
    result
}

/// The rights that go with an open.
pub fn rights(flags: OpenFlags) -> Rights {
    Rights::NONE
        .with_if(flags.any(OpenFlags::READ | OpenFlags::EXECUTE), Rights::READ)
        .with_if(flags.has(OpenFlags::WRITE), Rights::WRITE | Rights::TRUNCATE)
        .with_if(flags.has(OpenFlags::TRUNCATE), Rights::TRUNCATE)
}

/// The permissions that an open needs.
pub fn permissions(flags: OpenFlags) -> AccessBits {
    AccessBits::NONE
        .with_if(flags.has(OpenFlags::READ), AccessBits::READ)
        .with_if(flags.has(OpenFlags::EXECUTE), AccessBits::EXECUTE)
        .with_if(flags.any(OpenFlags::WRITE | OpenFlags::TRUNCATE), AccessBits::WRITE)
}

/// What is known of writes only when they are over: the times, and that privileges go.
fn note_written(node: &mut Node, uid: u32, written: Time) {
    let inode = &mut node.inode;
    if uid != 0 {
        inode.mode = without_privileges(inode.mode, false);
    }
    let mtime = inode.mtime;
    inode.mtime = inode.as_file_mut().map_or(mtime, |file| file.mtime_after(mtime, written));
    inode.touch(inode.ctime.max(written));
}

/// The latest time that a clock of the cluster can show now.
pub fn latest(now: Time) -> Time {
    Time { seconds: now.seconds.saturating_add(CLOCK_SKEW_S as i64), ..now }
}

/// Of an open whose client is gone.
const UNKNOWN: Written = Written { end: 0, certain: false, disk_bytes: None };
