//! Opening, creating and closing files. One round trip, path included; no iod is contacted.

use super::Target;
use crate::attr::{Attr, Placement, Striping, Time};
use crate::codec::Bytes;
use crate::{bits, record};

bits! {
    /// How a file is opened.
    pub struct OpenFlags {
        /// For reading.
        READ = 1,
        /// For writing.
        WRITE = 2,
        /// Create when absent.
        CREATE = 4,
        /// With CREATE: fail with EEXIST when present.
        EXCLUSIVE = 8,
        /// Cut to zero; see [`Opened::truncation`].
        TRUNCATE = 16,
        /// Writes go to the end; see [`super::Append`].
        APPEND = 32,
        /// A symlink as the last component fails with ELOOP.
        NOFOLLOW = 64,
        /// Anything but a directory fails with ENOTDIR.
        DIRECTORY = 128,
        /// For execution: checks execute instead of read permission.
        EXECUTE = 256,
        /// Only in the manager's records: taken over from another process; see [`super::Adopt`].
        ADOPTED = 512,
        /// With DIRECTORY and WRITE: makes a regular file that this open alone knows, as it would be made in the directory
        /// that the target is. [`super::Link`] of it gives it a name, unless EXCLUSIVE says that it never gets one.
        NAMELESS = 1024,
    }
}

record! {
    /// Opens, and creates if asked.
    pub struct Open {
        /// Which file.
        pub target: Target,
        /// How.
        pub flags: OpenFlags,
        /// Permission bits of a new file and umask, see [`super::Asked`].
        pub mode: u32,
        /// Wishes for a new file's striping.
        pub striping: Striping,
        /// The client's number for this open, never used before by it.
        pub open: u64,
    }
}

record! {
    /// An open file.
    pub struct Opened {
        /// Its attributes.
        pub attr: Attr,
        /// Where the data lie (regular files).
        pub placement: Option<Placement>,
        /// What iods will want to see (regular files).
        pub capability: Bytes,
        /// Unix seconds when the capability expires.
        pub expiry: u64,
        /// Whether this open created the file.
        pub created: bool,
        /// The directory that it was created in, as it is since; none of a file without a name.
        pub directory: Option<Attr>,
        /// The file must be cut to zero on its iods before first use, then reported with
        /// [`super::Truncated`] under this ticket.
        pub truncation: Option<u64>,
    }
}

record! {
    /// Closes one or several opens. Unknown ones were closed already.
    pub struct Close {
        /// The opens, and what was written through them.
        pub opens: Vec<ClosedOpen>,
    }
}

record! {
    /// One open that ends.
    pub struct ClosedOpen {
        /// The client's number for it.
        pub open: u64,
        /// What was written through it, if anything.
        pub wrote: Option<Wrote>,
    }
}

record! {
    /// What was written through one open.
    #[derive(Copy)]
    pub struct Wrote {
        /// The largest end of any done write; the size is settled from these when the last writer closes.
        pub end: u64,
        /// When the last one was done.
        pub mtime: Time,
        /// Some write failed half-way or its fate is unknown, so the iods must be asked.
        pub uncertain: bool,
        /// Bytes of disk that the file takes, asked from the iods by who may have made holes in it or filled them.
        /// Absent: what the manager knows of them is still so.
        pub disk_bytes: Option<u64>,
    }
}

record! {
    /// The opens are closed.
    #[derive(Default)]
    pub struct Closed {
        /// Files whose last writer these opens were, and of which the iods know more than was reported: to be asked, and
        /// told by [`super::Settle`], so that nobody else need ask.
        pub unsettled: Vec<Attr>,
    }
}

record! {
    /// A fresh capability for an open file.
    pub struct Renew {
        /// The client's number for the open.
        pub open: u64,
    }
}

record! {
    /// The fresh capability.
    pub struct Renewed {
        /// What iods will want to see.
        pub capability: Bytes,
        /// Unix seconds when it expires.
        pub expiry: u64,
    }
}
