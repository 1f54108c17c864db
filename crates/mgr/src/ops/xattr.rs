//! GetXattr, ListXattr, SetXattr, RemoveXattr.
//!
//! `user.*`, `trusted.*` and `security.*` are stored, `system.posix_acl_*` are lists in the inode. `user.pvfs.*` are striping parameters: of a
//! file they are computed, of a directory they are the defaults for what is created in it.

use pvfs_wire::attr::Striping;
use pvfs_wire::ops::*;
use pvfs_wire::{Bytes, Errno};

use crate::acl::{self, AccessList};
use crate::execute::{Context, Execute};
use crate::keys;
use crate::namespace::{Node, Parameter};
use crate::permission::STICKY;
use crate::record::{Body, VERSION};
use crate::store::View;

/// The families of names, which differ in who may read and write them.
enum Family {
    User,
    Trusted,
    Security,
}

impl Execute for GetXattr {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<XattrValue, Errno> {
        if let Some(which) = Which::of(&self.name) {
            let node = cx.find(&self.target, self.follow)?;
            return Ok(XattrValue { value: Bytes(access_list(&node, which)?) });
        }
        let family = family(&self.name)?;
        let node = cx.find(&self.target, self.follow)?;
        may_read(cx, &node, &family)?;
        if let Some(parameter) = Parameter::of(&self.name) {
            let value = parameter_of(&node, parameter?).ok_or(Errno::ENODATA)?;
            return Ok(XattrValue { value: Bytes(value.into_bytes()) });
        }
        let stored = stored(cx, &node, &self.name)?.ok_or(Errno::ENODATA)?;
        Ok(XattrValue { value: Bytes(stored) })
    }
}

impl Execute for ListXattr {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<XattrNames, Errno> {
        let node = cx.find(&self.target, self.follow)?;
        let mut names: Vec<Bytes> = parameters_set(&node);
        let lists = &node.inode.lists;
        names.extend(lists.access.as_ref().map(|_| Bytes::from(acl::ACCESS)));
        names.extend(lists.default.as_ref().map(|_| Bytes::from(acl::DEFAULT)));
        if node.inode.xattrs > 0 {
            let keys = cx.keys_below(&keys::xattrs(node.object))?;
            let stored = keys.iter().map(|key| keys::xattr_name(key));
            let visible = |name: &&[u8]| cx.who.is_root() || !name.starts_with(TRUSTED);
            names.extend(stored.filter(visible).map(Bytes::from));
        }
        Ok(XattrNames { names })
    }
}

impl Execute for SetXattr {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Done, Errno> {
        if let Some(which) = Which::of(&self.name) {
            return set_access_list(cx, &self.target, self.follow, which, &self.value);
        }
        let family = family(&self.name)?;
        if self.value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Errno::E2BIG);
        }
        let mut node = cx.find(&self.target, self.follow)?;
        may_write(cx, &node, &family)?;
        if let Some(parameter) = Parameter::of(&self.name) {
            set_parameter(cx, &mut node, parameter.map_err(|_| Errno::EINVAL)?, self)?;
        } else {
            check_presence(self.flags, stored(cx, &node, &self.name)?.is_some())?;
            store(cx, &mut node, &self.name, &self.value)?;
        }
        node.inode.touch(cx.now);
        cx.save(&node);
        Ok(Done {})
    }
}

impl Execute for RemoveXattr {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Done, Errno> {
        if let Some(which) = Which::of(&self.name) {
            return set_access_list(cx, &self.target, self.follow, which, &EMPTY_LIST);
        }
        let family = family(&self.name)?;
        let mut node = cx.find(&self.target, self.follow)?;
        may_write(cx, &node, &family)?;
        if let Some(parameter) = Parameter::of(&self.name) {
            clear_parameter(&mut node, parameter?)?;
        } else {
            stored(cx, &node, &self.name)?.ok_or(Errno::ENODATA)?;
            cx.tx.delete(keys::xattr(node.object, &self.name));
            node.inode.xattrs = node.inode.xattrs.saturating_sub(1);
        }
        node.inode.touch(cx.now);
        cx.save(&node);
        Ok(Done {})
    }
}

/// As Linux: the name's length is wrong with ERANGE, its family unknown with EOPNOTSUPP.
fn family(name: &[u8]) -> Result<Family, Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Errno::ERANGE);
    }
    let families: [(&[u8], Family); 3] =
        [(USER, Family::User), (TRUSTED, Family::Trusted), (SECURITY, Family::Security)];
    for (prefix, family) in families {
        if let Some(rest) = name.strip_prefix(prefix) {
            return if rest.is_empty() { Err(Errno::EINVAL) } else { Ok(family) };
        }
    }
    Err(Errno::EOPNOTSUPP)
}

fn may_read(cx: &Context<'_, '_>, node: &Node, family: &Family) -> Result<(), Errno> {
    match family {
        Family::User if !has_data(node) => Err(Errno::ENODATA),
        Family::User => cx.who.require(&node.inode, AccessBits::READ),
        Family::Trusted if !cx.who.is_root() => Err(Errno::ENODATA),
        Family::Trusted | Family::Security => Ok(()),
    }
}

fn may_write(cx: &Context<'_, '_>, node: &Node, family: &Family) -> Result<(), Errno> {
    let sticky = node.inode.is_directory() && node.inode.mode & STICKY != 0;
    match family {
        Family::User if !has_data(node) => Err(Errno::EPERM),
        Family::User if sticky && !cx.who.owns(&node.inode) => Err(Errno::EPERM),
        Family::User => cx.who.require(&node.inode, AccessBits::WRITE),
        _ if cx.who.is_root() => Ok(()),
        _ => Err(Errno::EPERM),
    }
}

/// Users' attributes follow the permissions for the data, so only what has data can have them.
fn has_data(node: &Node) -> bool {
    matches!(node.inode.body, Body::Regular(_) | Body::Directory(_))
}

fn check_presence(flags: XattrFlags, present: bool) -> Result<(), Errno> {
    match present {
        true if flags.has(XattrFlags::CREATE) => Err(Errno::EEXIST),
        false if flags.has(XattrFlags::REPLACE) => Err(Errno::ENODATA),
        _ => Ok(()),
    }
}

fn stored(cx: &Context<'_, '_>, node: &Node, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    if node.inode.xattrs == 0 {
        return Ok(None);
    }
    let Some(mut bytes) = cx.tx.get(&keys::xattr(node.object, name))? else { return Ok(None) };
    if bytes.first() != Some(&VERSION) {
        return Err(Errno::EIO);
    }
    bytes.remove(0);
    Ok(Some(bytes))
}

fn store(
    cx: &mut Context<'_, '_>,
    node: &mut Node,
    name: &[u8],
    value: &[u8],
) -> Result<(), Errno> {
    let key = keys::xattr(node.object, name);
    if !cx.tx.contains(&key)? {
        if node.inode.xattrs >= XATTRS_MAX {
            return Err(Errno::ENOSPC);
        }
        node.inode.xattrs += 1;
    }
    cx.tx.put(key, [&[VERSION], value].concat());
    Ok(())
}

/// One of the two lists of an object.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Which {
    Access,
    Default,
}

impl Which {
    fn of(name: &[u8]) -> Option<Self> {
        match name {
            acl::ACCESS => Some(Self::Access),
            acl::DEFAULT => Some(Self::Default),
            _ => None,
        }
    }
}

fn access_list(node: &Node, which: Which) -> Result<Vec<u8>, Errno> {
    let list = match which {
        Which::Access => &node.inode.lists.access,
        Which::Default => &node.inode.lists.default,
    };
    list.as_ref().map(|list| list.to_value()).ok_or(Errno::ENODATA)
}

/// Whose the object is says who may do what with it. To take a list away that is not there is no error, as
/// on Linux.
fn set_access_list(
    cx: &mut Context<'_, '_>,
    target: &Target,
    follow: bool,
    which: Which,
    value: &[u8],
) -> Result<Done, Errno> {
    let mut node = cx.find(target, follow)?;
    if matches!(node.inode.body, Body::Symlink(_)) {
        return Err(Errno::EOPNOTSUPP);
    }
    let list = AccessList::parse(value)?.map(Box::new);
    if which == Which::Default && !node.inode.is_directory() {
        return if list.is_some() { Err(Errno::EACCES) } else { Ok(Done {}) };
    }
    cx.who.require_owner(&node.inode)?;
    match which {
        Which::Default => node.inode.lists.default = list,
        Which::Access => {
            if let Some(list) = &list {
                let mode = node.inode.mode & !0o777 | list.mode_bits();
                node.inode.mode = cx.who.chmod(mode, node.inode.gid);
            }
            node.inode.lists.access = list.filter(|list| !list.is_minimal());
        }
    }
    node.inode.touch(cx.now);
    cx.save(&node);
    Ok(Done {})
}

fn parameter_of(node: &Node, parameter: Parameter) -> Option<String> {
    match &node.inode.body {
        Body::Regular(file) => Some(parameter.of_file(&file.placement)),
        Body::Directory(directory) => parameter.of_defaults(&directory.striping),
        _ => None,
    }
}

/// Files do not list theirs: copying all attributes of a file must not fail on these.
fn parameters_set(node: &Node) -> Vec<Bytes> {
    let Some(directory) = node.inode.as_directory() else { return Vec::new() };
    let set = |parameter: &Parameter| parameter.of_defaults(&directory.striping).is_some();
    let set = Parameter::SETTABLE.into_iter().filter(set);
    set.map(|parameter| Bytes::from(parameter.name())).collect()
}

fn set_parameter(
    cx: &mut Context<'_, '_>,
    node: &mut Node,
    parameter: Parameter,
    request: &SetXattr,
) -> Result<(), Errno> {
    let present = parameter_of(node, parameter).is_some();
    check_presence(request.flags, present)?;
    match &mut node.inode.body {
        Body::Directory(directory) => {
            parameter.set(&mut directory.striping, &request.value, cx.policy)
        }
        Body::Regular(file) if file.is_blank() => {
            let mut wish = Striping {
                base: file.placement.iods.get(0).map(|iod| iod.0),
                pcount: Some(file.placement.iods.len()),
                ssize: None,
                dist: Some(file.placement.dist.to_string()),
            };
            parameter.set(&mut wish, &request.value, cx.policy)?;
            file.placement = cx.place_file(&wish, &Striping::default())?;
            file.layout_epoch = file.layout_epoch.wrapping_add(1);
            Ok(())
        }
        _ => Err(Errno::EPERM), // Data on iods are found by these.
    }
}

fn clear_parameter(node: &mut Node, parameter: Parameter) -> Result<(), Errno> {
    let directory = node.inode.as_directory_mut().ok_or(Errno::EPERM)?;
    parameter.of_defaults(&directory.striping).ok_or(Errno::ENODATA)?;
    parameter.clear(&mut directory.striping);
    Ok(())
}

/// The version alone: no list.
const EMPTY_LIST: [u8; 4] = [2, 0, 0, 0];

const USER: &[u8] = b"user.";
const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";

/// With names of 255 bytes each, a list of these still fits into the 64 KiB of listxattr(2).
const XATTRS_MAX: u16 = 250;
