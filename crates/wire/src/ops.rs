//! The operations, and the tables that servers and clients are built from.
//!
//! A new operation is one file here (its request and reply), one line in a table below, one file
//! with its execution in the server, and one with its use in the client. Servers expand the tables
//! into their dispatch, so an operation in a table without an execution does not compile.

pub mod adopt;
pub mod control;
pub mod create;
pub mod data;
pub mod hello;
pub mod link;
pub mod lock;
pub mod object;
pub mod open;
pub mod readdir;
pub mod recall;
pub mod rename;
pub mod sessions;
pub mod setattr;
pub mod shared;
pub mod size;
pub mod space;
pub mod stat;
pub mod statfs;
pub mod unlink;
pub mod vouch;
pub mod xattr;

pub use adopt::*;
pub use control::*;
pub use create::*;
pub use data::*;
pub use hello::*;
pub use link::*;
pub use lock::*;
pub use object::*;
pub use open::*;
pub use readdir::*;
pub use recall::*;
pub use rename::*;
pub use sessions::*;
pub use setattr::*;
pub use shared::*;
pub use size::*;
pub use space::*;
pub use stat::*;
pub use statfs::*;
pub use unlink::*;
pub use vouch::*;
pub use xattr::*;

use crate::codec::{Bytes, Wire};
use crate::handle::Handle;
use crate::record;

/// What happens when the same request arrives twice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Nothing changes: ask as often as you like.
    Query,
    /// The second time changes nothing more, so it is simply run again.
    Repeatable,
    /// The second time is answered from the reply record; carries a sequence.
    Change,
}

/// A request that some server understands.
pub trait Operation: Wire {
    /// The code in the header.
    const CODE: u16;
    /// The name in logs, statistics and docs/wire.md.
    const NAME: &'static str;
    /// What a repetition does.
    const EFFECT: Effect;
    /// What comes back when it succeeds.
    type Reply: Wire;
}

record! {
    /// An object, named from a directory: `path` below `dir`, or `dir` itself when `path` is empty.
    ///
    /// The path may have many components; the manager resolves them all, symlinks included, with the
    /// session's permissions. An absolute symlink leaves the file system and is refused with `EXDEV`
    /// when it is not the last component.
    #[derive(Hash)]
    pub struct Target {
        /// Where to start; may be any object when `path` is empty.
        pub dir: Handle,
        /// Components separated by `/`.
        pub path: Bytes,
    }
}

impl Target {
    /// The object itself.
    pub fn object(handle: Handle) -> Self {
        Self { dir: handle, path: Bytes::default() }
    }

    /// A path below a directory.
    pub fn below(dir: Handle, path: impl AsRef<[u8]>) -> Self {
        Self { dir, path: Bytes::from(path) }
    }
}

/// Expands a callback with every operation that all daemons understand.
#[macro_export]
macro_rules! daemon_operations {
    ($with:ident) => {
        $with! {
            Hello -> Welcome = 0x0001 Query;
            Auth -> Authed = 0x0002 Query;
            Ping -> Pong = 0x0003 Query;
            Status -> StatusReport = 0x0004 Query;
            Control -> Controlled = 0x0005 Repeatable;
        }
    };
}

/// Expands a callback with every operation that managers understand.
#[macro_export]
macro_rules! manager_operations {
    ($with:ident) => {
        $with! {
            Stat -> Stated = 0x0101 Query;
            Readdir -> Listing = 0x0102 Query;
            Readlink -> LinkTarget = 0x0103 Query;
            CheckAccess -> Allowed = 0x0104 Query;
            Statfs -> FilesystemStat = 0x0105 Query;
            Map -> ClusterMap = 0x0106 Query;
            SyncNames -> Done = 0x0107 Query;
            Vouch -> Done = 0x0108 Repeatable;
            Sessions -> SessionList = 0x0109 Query;
            Uses -> UseList = 0x010a Query;
            Open -> Opened = 0x0110 Change;
            Close -> Closed = 0x0111 Repeatable;
            Renew -> Renewed = 0x0112 Query;
            Adopt -> Opened = 0x0113 Change;
            OpenShared -> OpenedShared = 0x0114 Change;
            RenewShared -> OpenedShared = 0x0115 Repeatable;
            CloseShared -> Closed = 0x0116 Repeatable;
            CountShared -> Counted = 0x0117 Change;
            Mkdir -> Made = 0x0120 Change;
            Mknod -> Made = 0x0121 Change;
            Symlink -> Made = 0x0122 Change;
            Link -> Made = 0x0123 Change;
            Unlink -> Unlinked = 0x0124 Change;
            Rmdir -> Unlinked = 0x0125 Change;
            Rename -> Renamed = 0x0126 Change;
            SetAttr -> Stated = 0x0130 Change;
            Truncate -> Truncating = 0x0131 Change;
            Truncated -> Stated = 0x0132 Repeatable;
            Settle -> Stated = 0x0133 Repeatable;
            Append -> Appended = 0x0134 Change;
            GetXattr -> XattrValue = 0x0140 Query;
            ListXattr -> XattrNames = 0x0141 Query;
            SetXattr -> Done = 0x0142 Change;
            RemoveXattr -> Done = 0x0143 Change;
            Lock -> Done = 0x0150 Repeatable;
            TestLock -> LockTest = 0x0151 Query;
            InheritLocks -> LocksInherited = 0x0152 Repeatable;
            Recalls -> Recalled = 0x0160 Repeatable;
        }
    };
}

/// Expands a callback with every operation that I/O daemons understand.
#[macro_export]
macro_rules! iod_operations {
    ($with:ident) => {
        $with! {
            Read -> ReadDone = 0x0201 Query;
            Write -> Written = 0x0202 Repeatable;
            TruncateObject -> ObjectStat = 0x0203 Repeatable;
            Sync -> Done = 0x0204 Repeatable;
            StatObjects -> ObjectStats = 0x0205 Query;
            RemoveObjects -> Done = 0x0206 Repeatable;
            StatStore -> StoreStat = 0x0207 Query;
            Lend -> Lent = 0x0208 Query;
            AllocateObject -> Written = 0x0210 Repeatable;
            SeekObject -> Sought = 0x0211 Query;
            CopyObject -> Written = 0x0212 Repeatable;
        }
    };
}

macro_rules! implement {
    ($($name:ident -> $reply:ident = $code:literal $effect:ident;)*) => {$(
        impl Operation for $name {
            const CODE: u16 = $code;
            const NAME: &'static str = stringify!($name);
            const EFFECT: Effect = Effect::$effect;
            type Reply = $reply;
        }
    )*};
}
daemon_operations!(implement);
manager_operations!(implement);
iod_operations!(implement);

macro_rules! names {
    ($($name:ident -> $reply:ident = $code:literal $effect:ident;)*) => {
        &[$(($code, stringify!($name), Effect::$effect)),*]
    };
}

/// Code, name and effect of every operation, in the order of their codes.
pub fn table() -> impl Iterator<Item = (u16, &'static str, Effect)> {
    let daemon: &[(u16, &'static str, Effect)] = daemon_operations!(names);
    let manager: &[(u16, &'static str, Effect)] = manager_operations!(names);
    let iod: &[(u16, &'static str, Effect)] = iod_operations!(names);
    daemon.iter().chain(manager).chain(iod).copied()
}

/// The name of an operation code, for logs.
pub fn name(code: u16) -> &'static str {
    table().find(|row| row.0 == code).map_or("unknown", |row| row.1)
}

record! {
    /// The reply of an operation that has nothing to tell but that it was done.
    pub struct Done {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ascend() {
        let codes: Vec<u16> = table().map(|row| row.0).collect();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:x?}");
    }

    /// docs/wire.md lists exactly the operations of the tables.
    #[test]
    fn the_document_lists_every_operation() {
        let document = include_str!("../../../docs/wire.md");
        for (code, name, effect) in table() {
            let row = format!("| {code:#06x} | {name} | {effect:?} |");
            assert!(document.contains(&row), "docs/wire.md lacks the row {row}");
        }
    }
}
