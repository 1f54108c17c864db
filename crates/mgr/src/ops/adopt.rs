//! Adopt.

use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, SizeState};
use pvfs_wire::ops::{Adopt, OpenFlags, Opened};
use pvfs_wire::token::{CLOCK_SKEW_S, Holder};

use super::open::opened;
use crate::execute::{Context, Execute};
use crate::keys;
use crate::namespace::rights;
use crate::record::{First, OpenFile, RegularFile};
use crate::store::View;

impl Execute for Adopt {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Opened, Errno> {
        let known = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::APPEND | OpenFlags::EXECUTE;
        let purpose = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::EXECUTE;
        if !known.has(self.flags) || !self.flags.any(purpose) {
            return Err(Errno::EINVAL);
        }
        if cx.tx.contains(&keys::open(cx.client, self.open))? {
            return Err(Errno::EINVAL); // Numbers are used once.
        }
        check_proof(self, cx)?;
        let mut node = cx.node(self.handle)?;
        if node.inode.as_file().is_none() {
            return Err(Errno::EKEYREJECTED); // No capability is for anything else.
        }
        let size_state = node.inode.as_file().map_or(SizeState::Settled, RegularFile::size_state);
        cx.begin_open(&mut node, self.open, self.flags.with(OpenFlags::ADOPTED));
        let from = First { client: self.from_client, open: self.from_open };
        cx.take_part(self.open, node.object, from)?;
        cx.save(&node);
        let attr = Attr { size_state, ..cx.attr(&node) };
        opened(self.flags, cx, &node, attr, false)
    }
}

/// The capability is ours, is for this file, allows as much, and is in time, or its open lasts.
fn check_proof(adopt: &Adopt, cx: &Context<'_, '_>) -> Result<(), Errno> {
    let any_time = 0;
    let capability = cx.keys.check_capability(&adopt.capability.0, any_time);
    let capability = capability.map_err(|_| Errno::EKEYREJECTED)?;
    if capability.handle != adopt.handle || !capability.rights.has(rights(adopt.flags)) {
        return Err(Errno::EACCES);
    }
    // One of a session stands for a descriptor, which others may have been given; one that names others does not.
    let who = cx.who;
    let is_meant = capability.holder.admits(who.session, who.uid, |group| who.is_in(group));
    if !is_meant && !matches!(capability.holder, Holder::Session(_)) {
        return Err(Errno::EACCES);
    }
    let now_s = u64::try_from(cx.now.seconds).unwrap_or(0);
    let in_time = capability.expiry.saturating_add(CLOCK_SKEW_S) >= now_s;
    if in_time || first_open_lasts(adopt, cx)? { Ok(()) } else { Err(Errno::EKEYEXPIRED) }
}

fn first_open_lasts(adopt: &Adopt, cx: &Context<'_, '_>) -> Result<bool, Errno> {
    let first: Option<OpenFile> = cx.record(&keys::open(adopt.from_client, adopt.from_open))?;
    Ok(first.is_some_and(|first| first.object == adopt.handle.object))
}
