//! What a client holds: its open files and the last reply of each of its slots.

use pvfs_wire::ops::OpenFlags;
use pvfs_wire::record;
use pvfs_wire::token::Holder;

record! {
    /// One open of a regular file.
    #[derive(Copy)]
    pub struct OpenFile {
        /// The file.
        pub object: u64,
        /// How it was opened.
        pub flags: OpenFlags,
        /// By whom.
        pub uid: u32,
    }
}

record! {
    /// The open file in which an open takes part: the client and number of its first open.
    #[derive(Copy)]
    pub struct First {
        /// Who opened it.
        pub client: u64,
        /// Its number for that.
        pub open: u64,
    }
}

record! {
    /// One open of a regular file that many use by its group handle.
    #[derive(Copy)]
    pub struct SharedOpen {
        /// The file.
        pub object: u64,
        /// How it was opened.
        pub flags: OpenFlags,
        /// By whom.
        pub uid: u32,
        /// Who may use it.
        pub holder: Holder,
        /// How long it stays open after each renewal.
        pub lifetime_s: u64,
        /// Unix seconds after which it is over.
        pub expiry: u64,
    }
}

impl OpenFile {
    /// Whether it may write.
    pub fn writes(&self) -> bool {
        self.flags.has(OpenFlags::WRITE)
    }

    /// Whether its writes go to the end.
    pub fn appends(&self) -> bool {
        self.flags.has(OpenFlags::WRITE.with(OpenFlags::APPEND))
    }
}

record! {
    /// What a slot of a client was answered last, so that a repeated request is answered again.
    pub struct ReplyRecord {
        /// The count of the request.
        pub count: u64,
        /// 0 or an error number.
        pub status: u32,
        /// The reply's body.
        pub body: pvfs_wire::Bytes,
    }
}

super::as_on_the_wire!(First, OpenFile, ReplyRecord, SharedOpen);
