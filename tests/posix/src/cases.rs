//! All cases, an area to a file. Written from POSIX.1-2024 and the man pages of Linux.

use crate::Case;

/// The list of an area's cases: those that anybody can run, and those that take root.
macro_rules! cases {
    ($area:literal any [$($any:ident),* $(,)?] root [$($root:ident),* $(,)?]) => {
        /// The cases of this area.
        pub const CASES: &[crate::Case] = &[
            $(crate::Case { area: $area, name: stringify!($any), needs_root: false, run: $any },)*
            $(crate::Case { area: $area, name: stringify!($root), needs_root: true, run: $root },)*
        ];
    };
}

mod acl;
mod append;
mod chmod;
mod chown;
mod copy;
mod data;
mod directories;
mod errors;
mod execute;
mod link;
mod locks;
mod map;
mod mkdir;
mod mknod;
mod open;
mod permissions;
mod random;
mod rename;
mod rmdir;
mod space;
mod stat;
mod symlink;
mod times;
mod truncate;
mod unlink;
mod xattr;

/// Every case.
pub fn all() -> impl Iterator<Item = Case> {
    let areas = [
        chmod::CASES,
        chown::CASES,
        link::CASES,
        mkdir::CASES,
        mknod::CASES,
        open::CASES,
        rename::CASES,
        rmdir::CASES,
        symlink::CASES,
        truncate::CASES,
        unlink::CASES,
        times::CASES,
        stat::CASES,
        errors::CASES,
        permissions::CASES,
        acl::CASES,
        xattr::CASES,
        directories::CASES,
        data::CASES,
        append::CASES,
        space::CASES,
        copy::CASES,
        map::CASES,
        locks::CASES,
        execute::CASES,
        random::CASES,
    ];
    areas.into_iter().flatten().copied()
}
