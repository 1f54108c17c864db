//! Moving data between a client and the object one iod holds of a file.
//!
//! A request names the file's bytes by `regions` (offsets in the file) and the iod's `slot`; the iod
//! intersects them with its strips. Data travels in logical order with nothing in between.

use pvfs_layout::Regions;

use crate::codec::Bytes;
use crate::{choice, record};

record! {
    /// The right to do it: a capability shown once per connection, then referred to by number.
    pub struct Access {
        /// The client's number for the capability on this connection.
        pub number: u32,
        /// The capability, the first time or after it was renewed. An unknown number without it is
        /// answered with ENOKEY, an expired one with EKEYEXPIRED.
        pub token: Option<Bytes>,
    }
}

record! {
    /// Reads. The data of the reply are the bytes of `regions` on this slot, in logical order, up to the
    /// last one that the object has. Regions that go backwards may reach beyond its end before that one:
    /// there the data are zeros.
    pub struct Read {
        /// The right.
        pub access: Access,
        /// The iod's position in the file's list.
        pub slot: u32,
        /// Which bytes of the file.
        pub regions: Regions,
    }
}

record! {
    /// The data follow.
    pub struct ReadDone {
        /// The object's size, to tell holes from the end of the file.
        pub local_size: u64,
    }
}

record! {
    /// Writes the request's data, which are the bytes of `regions` on this slot in logical order.
    pub struct Write {
        /// The right.
        pub access: Access,
        /// The iod's position in the file's list.
        pub slot: u32,
        /// Which bytes of the file.
        pub regions: Regions,
        /// Whether the reply waits until they are on stable storage (O_SYNC).
        pub sync: bool,
    }
}

record! {
    /// Written.
    pub struct Written {
        /// The object's size now.
        pub local_size: u64,
    }
}

record! {
    /// Cuts or extends the object to its part of a file of `size` bytes. Zeros appear when it grows. Answered with
    /// [`super::ObjectStat`], which tells what the object takes after that.
    pub struct TruncateObject {
        /// The right.
        pub access: Access,
        /// The iod's position in the file's list.
        pub slot: u32,
        /// The new size of the whole file.
        pub size: u64,
    }
}

choice! {
    /// What an object is lent for.
    pub enum LoanFor {
        /// To be read.
        Reading = 0,
        /// To be written.
        Writing = 1,
    }
}

record! {
    /// Asks for the object itself, to read or write it without a message. For processes of the iod's node, over
    /// AF_UNIX: two descriptors come with the reply, the object (read-only, or write-only) and the words.
    ///
    /// Errors: EOPNOTSUPP not over this connection, or not from this store; ENOENT never written yet; EAGAIN
    /// too much is lent.
    pub struct Lend {
        /// The right to do that.
        pub access: Access,
        /// What for.
        pub purpose: LoanFor,
    }
}

record! {
    /// A loan: good until its time is over or one of the two words has another value.
    pub struct Lent {
        /// Identifies the file of words: it is the same for all loans of a running iod.
        pub words: u64,
        /// The value of word 0, which changes when all loans end.
        pub whole: u32,
        /// Which word changes when the object is removed, moved or not lent any more for this.
        pub word: u32,
        /// That word's value.
        pub value: u32,
        /// Whether the store is memory: no read of it waits.
        pub in_memory: bool,
        /// Milliseconds until the loan ends by itself.
        pub valid_ms: u32,
    }
}

record! {
    /// Waits until everything written to the object is on stable storage.
    pub struct Sync {
        /// The right.
        pub access: Access,
    }
}
