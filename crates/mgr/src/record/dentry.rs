//! A directory entry, and how names of equal hash are told apart.
//!
//! ```text
//! key (dir, hash << 3 | 0)   more   "a"      two names of one hash: the first one says so
//! key (dir, hash << 3 | 1)          "b"
//! ```
//!
//! The key is the cookie of a listing, so an entry keeps its place for as long as it lives (M4). A
//! lookup reads one key, and goes on to the next index only where the entry says `more`. An entry
//! that goes while there may be more behind it leaves a gap: an entry without a name.

use pvfs_wire::attr::FileKind;
use pvfs_wire::codec::{Reader, Wire};
use pvfs_wire::{DecodeError, NAME_BYTES_MAX};

use super::Record;

/// What is stored under a cookie of a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dentry {
    /// Whether a name of the same hash may be stored under the next index.
    pub more: bool,
    /// The entry; `None` is a gap.
    pub named: Option<Named>,
}

/// A name and what it names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// The object.
    pub object: u64,
    /// What it is, so that listings without attributes need not ask.
    pub kind: FileKind,
    /// The name.
    pub name: Vec<u8>,
}

impl Record for Dentry {
    fn put(&self, out: &mut Vec<u8>) {
        self.more.put(out);
        let Some(named) = &self.named else { return out.push(GAP) };
        named.kind.put(out);
        named.object.put(out);
        out.extend_from_slice(&named.name);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let more = bool::get(from)?;
        if from.rest() == [GAP] {
            from.set_rest(&[]);
            return Ok(Self { more, named: None });
        }
        let kind = FileKind::get(from)?;
        let object = u64::get(from)?;
        let name = from.take(from.rest().len())?.to_vec();
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(DecodeError::Value);
        }
        Ok(Self { more, named: Some(Named { object, kind, name }) })
    }
}

/// Where the kind would be; no kind has this code.
const GAP: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_documented() {
        let named = Named { object: 0x0102, kind: FileKind::Directory, name: b"ab".to_vec() };
        let dentry = Dentry { more: true, named: Some(named) };
        let bytes = [1, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, b'a', b'b'];
        assert_eq!(dentry.encode(), bytes);
        assert_eq!(Dentry::decode(&bytes), Ok(dentry));
        let gap = Dentry { more: true, named: None };
        assert_eq!(gap.encode(), [1, 1, 0]);
        assert_eq!(Dentry::decode(&[1, 1, 0]), Ok(gap));
    }

    #[test]
    fn an_entry_without_a_name_is_refused() {
        assert!(Dentry::decode(&[1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert_eq!(Dentry::decode(&[2, 0, 0]), Err(DecodeError::Version(2)));
    }
}
