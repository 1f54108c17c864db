//! Access control lists as acl(5) has them (POSIX.1e draft 17): who is named, what they may, and what is handed on.
//!
//! ```text
//! mode    rwx        r-x              ---          of an object with a list:
//!         owner      mask             others       the group's bits of its mode are the mask
//! list    owner  user:id...  group  group:id...  mask  others
//!                \___________ limited by the mask ___/
//! ```
//!
//! Owner, mask and others of an access list are the mode's, so a list is kept only where it says more than a mode
//! can. Of a default list they are its own.

use pvfs_wire::codec::{Reader, Wire};
use pvfs_wire::ops::AccessBits;
use pvfs_wire::{DecodeError, Errno};

use crate::permission::Credentials;

/// The attribute by which Linux reads and sets the list of an object.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute for the list of what is created in a directory.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The lists of an object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lists {
    /// Decides who may use it, when it says more than the mode.
    pub access: Option<Box<AccessList>>,
    /// What is created in it begins with this list; directories only.
    pub default: Option<Box<AccessList>>,
}

/// One list. Permissions are three bits each, read 4, write 2, execute 1.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccessList {
    owner: u8,
    group: u8,
    others: u8,
    /// Absent only in lists that name nobody.
    mask: Option<u8>,
    users: Vec<Named>,
    groups: Vec<Named>,
}

/// A user or group, and what they may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Named {
    id: u32,
    permissions: u8,
}

impl AccessList {
    /// Understands the value that setxattr(2) is given; nothing when it has no entries at all.
    pub fn parse(value: &[u8]) -> Result<Option<Self>, Errno> {
        let (version, entries) = value.split_at_checked(4).ok_or(Errno::EINVAL)?;
        if version != VERSION.to_le_bytes() {
            return Err(Errno::EOPNOTSUPP);
        }
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(Errno::EINVAL);
        }
        if entries.len() > ENTRIES_MAX {
            return Err(Errno::ENOSPC);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let mut parser = Parser::default();
        entries.iter().try_for_each(|entry| parser.add(entry))?;
        parser.finish().map(Some)
    }

    /// The value that getxattr(2) gives.
    pub fn to_value(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        let mut add = |tag: u16, permissions: u8, id: u32| {
            value.extend(tag.to_le_bytes());
            value.extend(u16::from(permissions).to_le_bytes());
            value.extend(id.to_le_bytes());
        };
        add(OWNER, self.owner, NOBODY_NAMED);
        self.users.iter().for_each(|user| add(USER, user.permissions, user.id));
        add(OWNING_GROUP, self.group, NOBODY_NAMED);
        self.groups.iter().for_each(|group| add(GROUP, group.permissions, group.id));
        if let Some(mask) = self.mask {
            add(MASK, mask, NOBODY_NAMED);
        }
        add(OTHERS, self.others, NOBODY_NAMED);
        value
    }

    /// Whether a mode says it all.
    pub fn is_minimal(&self) -> bool {
        self.mask.is_none() && self.users.is_empty() && self.groups.is_empty()
    }

    /// The nine permission bits of an object with this list.
    pub fn mode_bits(&self) -> u32 {
        let group = self.mask.unwrap_or(self.group);
        u32::from(self.owner) << 6 | u32::from(group) << 3 | u32::from(self.others)
    }

    /// Follows a change of the mode: its group bits are the mask.
    pub fn follow_mode(&mut self, mode: u32) {
        self.owner = bits(mode >> 6);
        self.others = bits(mode);
        *self.mask.as_mut().unwrap_or(&mut self.group) = bits(mode >> 3);
    }

    /// What something new begins with, whose creator allows no more than `mode`.
    pub fn handed_on(&self, mode: u32) -> Self {
        let mut list = self.clone();
        list.owner &= bits(mode >> 6);
        list.others &= bits(mode);
        *list.mask.as_mut().unwrap_or(&mut list.group) &= bits(mode >> 3);
        list
    }

    /// What somebody may who is not the owner; `in_group` says whether they are in the object's group. The
    /// first entry for the user decides; of the groups any one that allows all that is wanted.
    pub fn allows(&self, who: &Credentials, in_group: bool, wanted: AccessBits) -> bool {
        let mask = self.mask.unwrap_or(7);
        let allows = |permissions: u8| u32::from(permissions) & wanted.bits() == wanted.bits();
        if let Some(user) = self.users.iter().find(|user| user.id == who.uid) {
            return allows(user.permissions & mask);
        }
        let mut is_member = false;
        let own = in_group.then_some(self.group);
        let named = self.groups.iter().filter(|group| who.is_in(group.id));
        for permissions in own.into_iter().chain(named.map(|group| group.permissions)) {
            if allows(permissions) {
                return allows(permissions & mask);
            }
            is_member = true;
        }
        !is_member && allows(self.others)
    }

    /// The form on disk: see docs/disk.md.
    pub fn put(&self, out: &mut Vec<u8>) {
        for permissions in [self.owner, self.group, self.others, self.mask.unwrap_or(NO_MASK)] {
            permissions.put(out);
        }
        for named in [&self.users, &self.groups] {
            (named.len() as u16).put(out);
            for one in named {
                one.id.put(out);
                one.permissions.put(out);
            }
        }
    }

    /// The like, read; what no list can be is refused.
    pub fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [owner, group, others] = [permissions(from)?, permissions(from)?, permissions(from)?];
        let mask = match u8::get(from)? {
            NO_MASK => None,
            mask if mask <= 7 => Some(mask),
            _ => return Err(DecodeError::Value),
        };
        let (users, groups) = (named(from)?, named(from)?);
        Ok(Self { owner, group, others, mask, users, groups })
    }
}

impl Lists {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.access.is_none() && self.default.is_none()
    }
}

fn permissions(from: &mut Reader<'_>) -> Result<u8, DecodeError> {
    match u8::get(from)? {
        permissions if permissions <= 7 => Ok(permissions),
        _ => Err(DecodeError::Value),
    }
}

fn named(from: &mut Reader<'_>) -> Result<Vec<Named>, DecodeError> {
    let count = usize::from(u16::get(from)?);
    if count > ENTRIES_MAX {
        return Err(DecodeError::Value);
    }
    (0..count).map(|_| Ok(Named { id: u32::get(from)?, permissions: permissions(from)? })).collect()
}

/// Entries come in the order of their tags, those that name nobody once.
#[derive(Default)]
struct Parser {
    owner: Option<u8>,
    group: Option<u8>,
    others: Option<u8>,
    mask: Option<u8>,
    users: Vec<Named>,
    groups: Vec<Named>,
    last_tag: u16,
}

impl Parser {
    fn add(&mut self, entry: &[u8; ENTRY_BYTES]) -> Result<(), Errno> {
        let [a, b, c, d, id @ ..] = *entry;
        let (tag, allowed) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let named = Named { id: u32::from_le_bytes(id), permissions: (allowed & 7) as u8 };
        let repeats = matches!(tag, USER | GROUP) && tag == self.last_tag;
        if allowed > 7 || !(tag > self.last_tag || repeats) {
            return Err(Errno::EINVAL);
        }
        self.last_tag = tag;
        match tag {
            OWNER => self.owner = Some(named.permissions),
            USER if named.id != NOBODY_NAMED => self.users.push(named),
            OWNING_GROUP => self.group = Some(named.permissions),
            GROUP if named.id != NOBODY_NAMED => self.groups.push(named),
            MASK => self.mask = Some(named.permissions),
            OTHERS => self.others = Some(named.permissions),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn finish(self) -> Result<AccessList, Errno> {
        let names_somebody = !self.users.is_empty() || !self.groups.is_empty();
        if names_somebody && self.mask.is_none() {
            return Err(Errno::EINVAL);
        }
        let (Some(owner), Some(group), Some(others)) = (self.owner, self.group, self.others) else {
            return Err(Errno::EINVAL);
        };
        let Self { mask, users, groups, .. } = self;
        Ok(AccessList { owner, group, others, mask, users, groups })
    }
}

fn bits(mode: u32) -> u8 {
    (mode & 7) as u8
}

/// POSIX_ACL_XATTR_VERSION
const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The id of entries that name nobody.
const NOBODY_NAMED: u32 = u32::MAX;

/// On disk, where a mask would be.
const NO_MASK: u8 = 0xff;

/// Lists live in the inode, which every look-up reads; Linux itself reads no more than 4 KiB of a list.
const ENTRIES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named() -> impl Strategy<Value = Vec<Named>> {
        let one = (0u32..6, 0u8..8).prop_map(|(id, permissions)| Named { id, permissions });
        prop::collection::vec(one, 0..4)
    }

    fn lists() -> impl Strategy<Value = AccessList> {
        let three = (0u8..8, 0u8..8, 0u8..8);
        (three, prop::option::of(0u8..8), named(), named()).prop_map(
            |((owner, group, others), mask, users, groups)| {
                let needs_mask = !users.is_empty() || !groups.is_empty();
                let mask = if needs_mask { mask.or(Some(7)) } else { mask };
                AccessList { owner, group, others, mask, users, groups }
            },
        )
    }

    proptest! {
        #[test]
        fn a_list_survives_both_its_forms(list in lists()) {
            prop_assert_eq!(AccessList::parse(&list.to_value()), Ok(Some(list.clone())));
            let mut bytes = Vec::new();
            list.put(&mut bytes);
            prop_assert_eq!(AccessList::get(&mut Reader::new(&bytes)), Ok(list));
            for length in 0..bytes.len() {
                prop_assert!(AccessList::get(&mut Reader::new(&bytes[..length])).is_err());
            }
        }

        #[test]
        fn no_value_makes_parsing_panic(value in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = AccessList::parse(&value);
            let _ = AccessList::get(&mut Reader::new(&value));
        }

        #[test]
        fn what_is_handed_on_allows_no_more_than_the_creator(list in lists(), mode in 0u32..0o1000) {
            let new = list.handed_on(mode);
            prop_assert_eq!(new.mode_bits() & !mode, 0);
            prop_assert_eq!(new.mode_bits() & !list.mode_bits(), 0);
            prop_assert_eq!(new.users, list.users);
        }

        #[test]
        fn a_mode_that_was_set_is_the_mode_that_is_seen(list in lists(), mode in 0u32..0o1000) {
            let mut list = list;
            list.follow_mode(mode);
            prop_assert_eq!(list.mode_bits(), mode);
        }

        /// As acl(5) words it, entry by entry.
        #[test]
        fn the_entry_that_fits_decides(
            list in lists(), uid in 0u32..6, gids in prop::collection::vec(0u32..6, 0..3),
            in_group: bool, wanted in 0u32..8,
        ) {
            let who = Credentials { uid, gid: 99, gids: gids.clone(), session: 0 };
            let mask = u32::from(list.mask.unwrap_or(7));
            let wanted_bits = AccessBits::from_bits(wanted).unwrap();
            let expected = if let Some(user) = list.users.iter().find(|user| user.id == uid) {
                u32::from(user.permissions) & mask & wanted == wanted
            } else {
                let mut classes: Vec<u32> = list
                    .groups
                    .iter()
                    .filter(|group| gids.contains(&group.id))
                    .map(|group| u32::from(group.permissions))
                    .collect();
                classes.extend(in_group.then_some(u32::from(list.group)));
                match classes.is_empty() {
                    true => u32::from(list.others) & wanted == wanted,
                    false => classes.iter().any(|class| class & mask & wanted == wanted),
                }
            };
            prop_assert_eq!(list.allows(&who, in_group, wanted_bits), expected);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let entry = |tag: u16, permissions: u16, id: u32| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = |entries: &[Vec<u8>]| [&2u32.to_le_bytes()[..], &entries.concat()].concat();
        let (owner, group, others) =
            (entry(1, 6, u32::MAX), entry(4, 4, u32::MAX), entry(0x20, 0, u32::MAX));
        let user = entry(2, 7, 5);
        let mask = entry(0x10, 7, u32::MAX);
        let whole = |entries: &[&Vec<u8>]| {
            AccessList::parse(&list(
                &entries.iter().map(|entry| (*entry).clone()).collect::<Vec<_>>(),
            ))
        };
        assert!(whole(&[&owner, &group, &others]).unwrap().unwrap().is_minimal());
        assert!(whole(&[&owner, &user, &group, &mask, &others]).is_ok());
        assert_eq!(whole(&[]), Ok(None));
        for wrong in [
            &[&owner, &group][..],
            &[&owner, &user, &group, &others],
            &[&owner, &owner, &group, &others],
            &[&others, &group, &owner],
            &[&entry(1, 8, u32::MAX), &group, &others],
            &[&owner, &entry(2, 7, u32::MAX), &group, &mask, &others],
            &[&owner, &group, &others, &entry(0x40, 0, 0)],
        ] {
            assert_eq!(whole(wrong), Err(Errno::EINVAL), "{wrong:?}");
        }
        assert_eq!(AccessList::parse(&[2, 0, 0]), Err(Errno::EINVAL));
        assert_eq!(AccessList::parse(&[1, 0, 0, 0]), Err(Errno::EOPNOTSUPP));
        let many = vec![user; ENTRIES_MAX + 1];
        assert_eq!(AccessList::parse(&list(&many)), Err(Errno::ENOSPC));
    }
}
