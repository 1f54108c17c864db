//! The space of a file: set aside, given back, looked for, copied within an iod. No data travel.

use super::Access;
use crate::codec::Bytes;
use crate::{choice, record};

choice! {
    /// What is to become of a range.
    pub enum Allocation {
        /// Space is set aside for all of it; no byte changes.
        Reserve = 0,
        /// Its space is given back; it reads as zeros. The object never grows.
        Punch = 1,
        /// It reads as zeros and has space set aside.
        Zero = 2,
    }
}

record! {
    /// Sets space of the slot's part of a range aside, or gives it back (fallocate).
    pub struct AllocateObject {
        /// The right.
        pub access: Access,
        /// The iod's position in the file's list.
        pub slot: u32,
        /// Where the range begins, in the file.
        pub offset: u64,
        /// How long it is, in the file.
        pub bytes: u64,
        /// What is to become of it.
        pub how: Allocation,
        /// Whether the object grows to the end of its part.
        pub grow: bool,
    }
}

record! {
    /// Looks for data or for a hole in the slot's part of the file (SEEK_DATA, SEEK_HOLE).
    pub struct SeekObject {
        /// The right.
        pub access: Access,
        /// The iod's position in the file's list.
        pub slot: u32,
        /// Where to begin, in the file.
        pub offset: u64,
        /// A hole, or data. What was never written may be told to be data, never the other way round.
        pub hole: bool,
    }
}

record! {
    /// What was found.
    pub struct Sought {
        /// The first such byte at or behind the offset, in the file. What lies behind the end of the object
        /// counts as a hole; absent when there are no data.
        pub offset: Option<u64>,
        /// The object's size.
        pub local_size: u64,
    }
}

record! {
    /// Copies bytes from one object to another of the same iod, or within one (copy_file_range). Both files
    /// must be dealt alike from there on, so that the parts of both slots are equally long.
    pub struct CopyObject {
        /// The right to write.
        pub access: Access,
        /// The iod's position in the list of the file written.
        pub slot: u32,
        /// Where the bytes go, in that file.
        pub offset: u64,
        /// How many bytes, in the files.
        pub bytes: u64,
        /// The capability of the file read.
        pub source: Bytes,
        /// The iod's position in the list of the file read.
        pub source_slot: u32,
        /// Where the bytes come from, in that file. Those behind the end of the object are zeros.
        pub source_offset: u64,
    }
}
