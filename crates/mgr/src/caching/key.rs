//! What a client can hold: an object's attributes, or what a name in a directory means.

use crate::keys;
use crate::namespace::INDEX_BITS;

/// One of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub enum Key {
    /// Attributes of all sorts; of a directory also the list of its entries, which changes its times.
    Object(u64),
    /// Directory and hash of a name: which object has it, or that there is none.
    Name(u64, u64),
}

impl Key {
    /// What a client that was told the record under this key of the store holds.
    pub fn of(stored: &[u8]) -> Option<Self> {
        let object = keys::first_number(stored)?;
        match stored[0] {
            keys::INODE | keys::XATTR => Some(Self::Object(object)),
            keys::DENTRY => {
                let cookie = keys::dentry_cookie(stored)?;
                Some(Self::Name(object, cookie >> INDEX_BITS))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_hash_are_one_key() {
        let first = Key::of(&keys::dentry(3, 80));
        assert_eq!(first, Some(Key::Name(3, 10)));
        assert_eq!(first, Key::of(&keys::dentry(3, 87)));
        assert_ne!(first, Key::of(&keys::dentry(3, 88)));
        assert_ne!(first, Key::of(&keys::dentry(4, 80)));
    }

    #[test]
    fn an_object_and_its_extended_attributes_are_one_key() {
        assert_eq!(Key::of(&keys::inode(7)), Some(Key::Object(7)));
        assert_eq!(Key::of(&keys::xattr(7, b"user.a")), Some(Key::Object(7)));
    }

    #[test]
    fn what_no_client_is_told_is_no_key() {
        for stored in [keys::COUNTERS, keys::IDENTITY, &keys::open(1, 2), &keys::reply(1, 2), b""] {
            assert_eq!(Key::of(stored), None);
        }
    }
}
