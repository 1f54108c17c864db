//! What is stored under which key, byte by byte.
//!
//! A key is a tag byte and big-endian fields, so that the store's order is the order of the fields
//! and what belongs together lies together. Values are the records of [`crate::record`].
//!
//! ```text
//! tag  key after the tag                     value
//! 00   name of a fact                        Identity ("filesystem"), Counters ("counters")
//! 01   directory u64, cookie u64             Dentry; a cookie is hash << 3 | index among equals
//! 02   object u64                            Inode
//! 03   object u64, attribute's name          version byte, then the value
//! 04   client u64, open u64                  OpenFile
//! 05   client u64, object u64                a truncation ticket without an open: u64
//! 06   object u64                            Placement: an object to be removed from the iods
//! 07   client u64, slot u16                  ReplyRecord
//! 08   client u64                            version byte, seconds u64: its lease was lost, it is to be told
//! 09   object u64, ...                       a lock, see manager/locking.rs
//! 0a   number u64                            SharedOpen; its OpenFile is that of client `number`
//! 0b   client u64                            version byte, lease in ns u64: it caches, and may believe what it was told
//! 0c   number u64                            version byte, i64: the number that the users of a shared open share
//! 0d   client u64, open u64                  version byte, first client u64, first open u64: it takes part in that open file
//! 0e   first client u64, first open u64,
//!      client u64, open u64                  version byte: the same, from the other side
//! ```

/// Tag of facts about the file system.
pub const META: u8 = 0x00;
/// Tag of directory entries.
pub const DENTRY: u8 = 0x01;
/// Tag of inodes.
pub const INODE: u8 = 0x02;
/// Tag of extended attributes.
pub const XATTR: u8 = 0x03;
/// Tag of open files.
pub const OPEN: u8 = 0x04;
/// Tag of truncations under way that belong to no open.
pub const TICKET: u8 = 0x05;
/// Tag of the purge queue.
pub const PURGE: u8 = 0x06;
/// Tag of reply records.
pub const REPLY: u8 = 0x07;
/// Tag of clients.
pub const CLIENT: u8 = 0x08;
/// Tag of locks.
pub const LOCK: u8 = 0x09;
/// Tag of shared opens.
pub const SHARED: u8 = 0x0a;
/// Tag of clients that cache.
pub const CACHING: u8 = 0x0b;
/// Tag of the numbers of shared opens.
pub const COUNT: u8 = 0x0c;
/// Tag of opens that take part in another one's open file.
pub const TAKEN: u8 = 0x0d;
/// Tag of those who take part in an open file.
pub const PARTAKER: u8 = 0x0e;

/// The identity of the file system, written once.
pub const IDENTITY: &[u8] = b"\x00filesystem";

/// The next object id and the counts of `statfs`.
pub const COUNTERS: &[u8] = b"\x00counters";

/// A key of one number.
pub type One = [u8; 9];

/// A key of two numbers.
pub type Two = [u8; 17];

/// The entry of directory `dir` with this cookie.
pub fn dentry(dir: u64, cookie: u64) -> Two {
    two(DENTRY, dir, cookie)
}

/// The cookie of a dentry's key, when it is one.
pub fn dentry_cookie(key: &[u8]) -> Option<u64> {
    let cookie = key.get(9..17)?;
    (key.len() == 17 && key[0] == DENTRY).then(|| number(cookie))
}

/// Before all entries of directory `dir`.
pub fn dentries(dir: u64) -> One {
    one(DENTRY, dir)
}

/// The inode of an object.
pub fn inode(object: u64) -> One {
    one(INODE, object)
}

/// One extended attribute of an object.
pub fn xattr(object: u64, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + name.len());
    key.extend_from_slice(&xattrs(object));
    key.extend_from_slice(name);
    key
}

/// Before all extended attributes of an object.
pub fn xattrs(object: u64) -> One {
    one(XATTR, object)
}

/// The name in an extended attribute's key.
pub fn xattr_name(key: &[u8]) -> &[u8] {
    key.get(9..).unwrap_or_default()
}

/// An open file of a client.
pub fn open(client: u64, open: u64) -> Two {
    two(OPEN, client, open)
}

/// Before all open files of a client.
pub fn opens(client: u64) -> One {
    one(OPEN, client)
}

/// A truncation of a client without an open.
pub fn ticket(client: u64, object: u64) -> Two {
    two(TICKET, client, object)
}

/// Before all truncations of a client without an open.
pub fn tickets(client: u64) -> One {
    one(TICKET, client)
}

/// An object to be removed from the iods.
pub fn purge(object: u64) -> One {
    one(PURGE, object)
}

/// The last reply to a client's slot.
pub fn reply(client: u64, slot: u16) -> [u8; 11] {
    let mut key = [REPLY; 11];
    key[1..9].copy_from_slice(&client.to_be_bytes());
    key[9..].copy_from_slice(&slot.to_be_bytes());
    key
}

/// Before all reply records of a client.
pub fn replies(client: u64) -> One {
    one(REPLY, client)
}

/// What is known of a client.
pub fn client(client: u64) -> One {
    one(CLIENT, client)
}

/// A shared open.
pub fn shared(number: u64) -> One {
    one(SHARED, number)
}

/// The number that the users of a shared open share.
pub fn count(number: u64) -> One {
    one(COUNT, number)
}

/// That a client caches.
pub fn caching(client: u64) -> One {
    one(CACHING, client)
}

/// An open that takes part in another one's open file.
pub fn taken(client: u64, open: u64) -> Two {
    two(TAKEN, client, open)
}

/// Before all who take part in an open file besides who opened it.
pub fn partakers(first: (u64, u64)) -> Two {
    two(PARTAKER, first.0, first.1)
}

/// One of them.
pub fn partaker(first: (u64, u64), client: u64, open: u64) -> Vec<u8> {
    let numbers = [client.to_be_bytes(), open.to_be_bytes()];
    [partakers(first).as_slice(), numbers.as_flattened()].concat()
}

/// Before all locks on an object.
pub fn locks(object: u64) -> One {
    one(LOCK, object)
}

/// The number right after the tag.
pub fn first_number(key: &[u8]) -> Option<u64> {
    key.get(1..9).map(number)
}

/// The number after the first one.
pub fn second_number(key: &[u8]) -> Option<u64> {
    key.get(9..17).map(number)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("callers cut eight bytes"))
}

fn one(tag: u8, first: u64) -> One {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&first.to_be_bytes());
    key
}

fn two(tag: u8, first: u64, second: u64) -> Two {
    let mut key = [tag; 17];
    key[1..9].copy_from_slice(&first.to_be_bytes());
    key[9..].copy_from_slice(&second.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_a_tag_and_big_endian_fields() {
        assert_eq!(inode(0x0102), [2, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(dentry(3, 4), [1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(xattr(5, b"user.a"), b"\x03\0\0\0\0\0\0\0\x05user.a");
        assert_eq!(partaker((1, 2), 3, 4)[..17], partakers((1, 2)));
        assert_eq!(partaker((1, 2), 3, 4)[17..], open(3, 4)[1..]);
        assert_eq!(reply(6, 7), [7, 0, 0, 0, 0, 0, 0, 0, 6, 0, 7]);
    }

    /// docs/disk.md has a row for every tag.
    #[test]
    fn the_document_lists_every_tag() {
        let document = include_str!("../../../docs/disk.md");
        let tags = [
            META, DENTRY, INODE, XATTR, OPEN, TICKET, PURGE, REPLY, CLIENT, LOCK, SHARED, CACHING,
            COUNT, TAKEN, PARTAKER,
        ];
        for tag in tags {
            assert!(document.contains(&format!("| {tag:02x} |")), "docs/disk.md lacks tag {tag}");
        }
    }

    #[test]
    fn fields_come_back_and_foreign_keys_give_nothing() {
        assert_eq!(dentry_cookie(&dentry(3, 99)), Some(99));
        assert_eq!(dentry_cookie(&open(3, 99)), None);
        assert_eq!(dentry_cookie(&inode(3)), None);
        assert_eq!(xattr_name(&xattr(5, b"user.a")), b"user.a");
        assert_eq!((first_number(&open(3, 4)), second_number(&open(3, 4))), (Some(3), Some(4)));
        assert_eq!((first_number(b"\x04"), second_number(&inode(1))), (None, None));
    }
}
