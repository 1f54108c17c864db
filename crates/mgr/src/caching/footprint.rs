//! What one request has read and changed, as far as clients cache it.

use pvfs_wire::Bytes;
use pvfs_wire::Handle;
use pvfs_wire::attr::SizeState;
use pvfs_wire::ops::{Recall, RecallKind};

use super::Key;
use crate::keys;
use crate::record::{Dentry, Inode, Record};
use crate::store::Difference;

/// The traces of a request.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// Who asked; 0 for nobody.
    pub client: u64,
    /// The client's slot, when a repetition of the request may come.
    pub slot: Option<u16>,
    /// What it read.
    pub read: Vec<Key>,
    /// What is not as it was.
    pub changed: Vec<Changed>,
}

/// A key that is not as it was told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// The key.
    pub key: Key,
    /// What to tell those who hold it.
    pub recalls: Vec<Recall>,
}

impl Changed {
    /// What a difference in the store means to those who were told the record; nothing, when what they were
    /// told is still so.
    pub fn of(difference: &Difference) -> Option<Self> {
        let key = Key::of(&difference.key)?;
        let recalls = match (difference.key[0], key) {
            (keys::INODE, Key::Object(object)) => attributes(object, difference)?,
            (keys::DENTRY, Key::Name(dir, _)) => names(dir, difference)?,
            _ => return None,
        };
        Some(Self { key, recalls })
    }
}

fn recall(kind: RecallKind, object: u64) -> Recall {
    Recall { kind, object, name: Bytes::default() }
}

fn attributes(object: u64, difference: &Difference) -> Option<Vec<Recall>> {
    let kind = match (&difference.before, &difference.after) {
        (None, None) => return None,
        (None, Some(_)) => return Some(Vec::new()), // It is new: nobody was told of it.
        (Some(_), None) => RecallKind::Attributes,
        (Some(before), Some(after)) => match (Inode::decode(before), Inode::decode(after)) {
            (Ok(before), Ok(after)) => difference_of(&before, &after)?,
            _ => RecallKind::Data,
        },
    };
    Some(vec![recall(kind, object)])
}

/// What of an inode's attributes has changed. Opens that only read change nothing that clients are told.
fn difference_of(before: &Inode, after: &Inode) -> Option<RecallKind> {
    let told = |inode: &Inode| inode.attr(Handle::default());
    let writing = |inode: &Inode| inode.as_file().map_or(Default::default(), |file| file.writing);
    let (was, is) = (told(before), told(after));
    // The size of a file with a writer may have been told to that writer, which then is not the only one.
    let joined = writing(after).writers > writing(before).writers;
    let cut = writing(after).truncation.is_some() && writing(after) != writing(before);
    let unsettled = was.size_state == SizeState::Settled && is.size_state != SizeState::Settled;
    let resized = was.size != is.size && after.as_file().is_some();
    if joined || cut || unsettled || resized {
        return Some(RecallKind::Data);
    }
    (was != is).then_some(RecallKind::Attributes)
}

fn names(dir: u64, difference: &Difference) -> Option<Vec<Recall>> {
    let decoded = |bytes: &Option<Vec<u8>>| match bytes {
        Some(bytes) => Dentry::decode(bytes).map(Some).map_err(|_| ()),
        None => Ok(None),
    };
    let (Ok(before), Ok(after)) = (decoded(&difference.before), decoded(&difference.after)) else {
        return Some(vec![recall(RecallKind::Names, dir)]);
    };
    let named = |dentry: &Option<Dentry>| dentry.as_ref().and_then(|dentry| dentry.named.clone());
    let (was, is) = (named(&before), named(&after));
    if was == is {
        return None;
    }
    // Names of one hash are held under one key, so all of them go.
    let alone = |dentry: &Option<Dentry>| dentry.as_ref().is_none_or(|dentry| !dentry.more);
    let first = keys::dentry_cookie(&difference.key).is_some_and(|cookie| cookie & 7 == 0);
    if !(first && alone(&before) && alone(&after)) {
        return Some(vec![recall(RecallKind::Names, dir)]);
    }
    let mut names: Vec<Vec<u8>> = [was, is].into_iter().flatten().map(|named| named.name).collect();
    names.dedup();
    let recall = |name| Recall { kind: RecallKind::Name, object: dir, name: Bytes(name) };
    Some(names.into_iter().map(recall).collect())
}
