//! OpenShared, RenewShared, CloseShared, CountShared.
//!
//! A shared open is an open of a client that does not exist: its number stands where a client's identity would. So
//! all that is true of opens is true of it (unlinked files stay, sizes are unsettled while it may write), but
//! it ends at a time instead of with a lease.

use pvfs_wire::attr::Placement;
use pvfs_wire::group_handle::GroupHandle;
use pvfs_wire::ops::{
    CloseShared, Closed, Count, CountShared, Counted, Open, OpenFlags, OpenShared, Opened,
    OpenedShared, RenewShared, SHARED_OPEN_NUMBER, Sharers,
};
use pvfs_wire::token::{CLOCK_SKEW_S, Holder};
use pvfs_wire::{Bytes, Errno};

use crate::execute::{Context, Execute};
use crate::keys;
use crate::namespace::{Ending, Node, rights};
use crate::permission::Credentials;
use crate::record::{Record, SharedOpen, VERSION};
use crate::store::View;

impl Execute for OpenShared {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<OpenedShared, Errno> {
        if self.flags.any(OpenFlags::TRUNCATE | OpenFlags::APPEND | OpenFlags::DIRECTORY) {
            return Err(Errno::EINVAL);
        }
        check_room(cx)?;
        let number = cx.random.number();
        if cx.tx.contains(&keys::shared(number))? {
            return Err(Errno::EAGAIN);
        }
        let Opened { attr, created, .. } = open_as(self, cx, number)?;
        let node = cx.load(attr.handle.object)?;
        if node.inode.as_file().is_none() {
            return Err(Errno::EISDIR);
        }
        let lifetime_s = u64::from(self.lifetime_s.clamp(LIFETIME_S_MIN, LIFETIME_S_MAX));
        let expiry = now_s(cx) + lifetime_s;
        let holder = holder(self.sharers, cx.who);
        let (object, flags, uid) = (node.object, self.flags, cx.who.uid);
        let shared = SharedOpen { object, flags, uid, holder, lifetime_s, expiry };
        cx.tx.put(keys::shared(number), shared.encode());
        given(cx, number, &shared, &node, created)
    }
}

impl Execute for RenewShared {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<OpenedShared, Errno> {
        let (number, mut shared) = find(cx, &self.handle)?;
        check_admitted(&shared, cx.who)?;
        shared.expiry = shared.expiry.max(now_s(cx) + shared.lifetime_s);
        cx.tx.put(keys::shared(number), shared.encode());
        let node = cx.load(shared.object)?;
        given(cx, number, &shared, &node, false)
    }
}

impl Execute for CloseShared {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Closed, Errno> {
        match find(cx, &self.handle) {
            Err(Errno::ESTALE) => return Ok(Closed::default()),
            Err(error) => return Err(error),
            Ok((_, shared)) if shared.uid != cx.who.uid && !cx.who.is_root() => {
                return Err(Errno::EPERM);
            }
            Ok((number, _)) => end_shared(cx, number)?,
        }
        Ok(Closed::default())
    }
}

impl Execute for CountShared {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Counted, Errno> {
        let (number, shared) = find(cx, &self.handle)?;
        check_admitted(&shared, cx.who)?;
        let before = counted(cx, number)?;
        let after = match self.count {
            Count::Add => before.checked_add(self.number).ok_or(Errno::EOVERFLOW)?,
            Count::Set => self.number,
        };
        if after < 0 {
            return Err(Errno::EINVAL);
        }
        if after != before {
            cx.tx.put(keys::count(number), [&[VERSION][..], &after.to_le_bytes()].concat());
        }
        Ok(Counted { before })
    }
}

/// The number that the users of a shared open share.
fn counted(cx: &Context<'_, '_>, number: u64) -> Result<i64, Errno> {
    let Some(value) = cx.tx.get(&keys::count(number))? else { return Ok(0) };
    let count = value.strip_prefix(&[VERSION]).and_then(|count| count.try_into().ok());
    count.map(i64::from_le_bytes).ok_or(Errno::EIO)
}

fn check_admitted(shared: &SharedOpen, who: &Credentials) -> Result<(), Errno> {
    let is_admitted = shared.holder.admits(who.session, who.uid, |group| who.is_in(group));
    if is_admitted || who.is_root() { Ok(()) } else { Err(Errno::EACCES) }
}

/// Ends a shared open. What was written through it is known to the iods only.
pub fn end_shared(cx: &mut Context<'_, '_>, number: u64) -> Result<(), Errno> {
    cx.end_open(number, SHARED_OPEN_NUMBER, Ending::Expired)?;
    cx.tx.delete(keys::count(number));
    cx.tx.delete(keys::shared(number));
    Ok(())
}

/// Shared opens whose time is over, at most `count_max`: no capability that came with them is good any more.
pub fn due_shared(view: &dyn View, now_s: u64, count_max: usize) -> Result<Vec<u64>, Errno> {
    let mut due = Vec::new();
    for entry in view.scan(&crate::store::KeyRange::prefix(&[keys::SHARED])) {
        let (key, value) = entry?;
        let shared = SharedOpen::decode(&value).map_err(|_| Errno::EIO)?;
        if shared.expiry.saturating_add(2 * CLOCK_SKEW_S) < now_s && due.len() < count_max {
            due.extend(keys::first_number(&key));
        }
    }
    Ok(due)
}

fn open_as(open: &OpenShared, cx: &mut Context<'_, '_>, number: u64) -> Result<Opened, Errno> {
    let OpenShared { target, flags, mode, striping, .. } = open.clone();
    let open = Open { target, flags, mode, striping, open: SHARED_OPEN_NUMBER };
    let client = std::mem::replace(&mut cx.client, number);
    let opened = open.execute(cx);
    cx.client = client;
    opened
}

fn holder(sharers: Sharers, who: &Credentials) -> Holder {
    match sharers {
        Sharers::User => Holder::User(who.uid),
        Sharers::Group => Holder::Group(who.gid),
        Sharers::Anyone => Holder::Anyone,
    }
}

/// The shared open of a handle that one of us sealed.
fn find(cx: &Context<'_, '_>, bytes: &[u8]) -> Result<(u64, SharedOpen), Errno> {
    GroupHandle::check_seal(bytes, cx.keys).map_err(|error| error.errno())?;
    // An expired one may have been renewed by others: the record decides.
    let handle =
        GroupHandle::read(bytes, cx.fs.handle(0).fsid, 0).map_err(|error| error.errno())?;
    let shared = cx.record(&keys::shared(handle.number))?.ok_or(Errno::ESTALE)?;
    Ok((handle.number, shared))
}

fn given(
    cx: &Context<'_, '_>,
    number: u64,
    shared: &SharedOpen,
    node: &Node,
    created: bool,
) -> Result<OpenedShared, Errno> {
    let rights = rights(shared.flags);
    let (capability, _) = cx.shared_capability(node, rights, shared.holder, shared.expiry)?;
    let (attr, handle) = (cx.attr(node), cx.fs.handle(node.object));
    let placement: Placement = cx.stated(node, true).placement.ok_or(Errno::EINVAL)?;
    let sealed = GroupHandle {
        fsid: handle.fsid,
        flags: shared.flags,
        rights,
        holder: shared.holder,
        handle,
        number,
        placement,
        attr,
        capability: Bytes(capability),
        expiry: shared.expiry,
    };
    Ok(OpenedShared { attr, created, handle: Bytes(sealed.seal(cx.keys)) })
}

/// They outlive their openers, so nobody may have too many.
fn check_room(cx: &Context<'_, '_>) -> Result<(), Errno> {
    let (mut all, mut own) = (0, 0);
    for entry in cx.tx.scan_prefix(&[keys::SHARED]) {
        let value = entry?.1;
        let shared = SharedOpen::decode(&value).map_err(|_| Errno::EIO)?;
        all += 1;
        own += usize::from(shared.uid == cx.who.uid);
    }
    match () {
        () if all >= SHARED_MAX => Err(Errno::ENFILE),
        () if own >= SHARED_PER_USER_MAX => Err(Errno::EMFILE),
        () => Ok(()),
    }
}

fn now_s(cx: &Context<'_, '_>) -> u64 {
    u64::try_from(cx.now.seconds).unwrap_or(0)
}

const LIFETIME_S_MIN: u32 = 10;
const LIFETIME_S_MAX: u32 = 24 * 3600;
const SHARED_MAX: usize = 4096;
const SHARED_PER_USER_MAX: usize = 512;
