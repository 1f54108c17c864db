//! Which iod holds which byte of a file: pure arithmetic, the on-disk contract.
//!
//! - [`Dist`] deals the bytes of a file to *slots*; [`Scheme`] is a `Dist` before it is known over
//!   how many slots, as a user writes it.
//! - [`IodList`] says which iod each slot is; [`Placement`] is the user's `{base, pcount, ssize}`
//!   from which the list is made.
//! - [`Regions`] describes a noncontiguous access in a few words, however many blocks it has.
//! - [`Intersection`] and [`StreamPieces`] are where the two meet: what one slot holds of an access.
//! - [`sieve`] says which pieces are better moved together.
//!
//! Offsets are in the file, locals are on an iod; all are bytes. Nothing here does I/O, and no
//! argument can make it panic or overflow: parameters are refused when a value is made.
//!
//! ```
//! use pvfs_layout::{Dist, Distribution};
//!
//! // 64 KiB strips dealt to four slots; one mebibyte is one local range on each of them.
//! let dist = Dist::simple_stripe(64 << 10, 4)?;
//! assert_eq!(dist.local_range(2, 0..1 << 20), 0..256 << 10);
//!
//! // The file ends where the furthest byte of any slot is, here the second strip of slot 0.
//! assert_eq!(dist.file_size(&[64 << 10 | 1, 64 << 10, 64 << 10, 64 << 10]), Some(256 << 10 | 1));
//! # Ok::<(), pvfs_layout::DistError>(())
//! ```

#![forbid(unsafe_code)]

mod decode;
pub mod distribution;
pub mod intersect;
mod join;
pub mod placement;
pub mod region;
pub mod sieve;

pub use decode::DecodeError;
pub use distribution::{
    Dist, DistError, Distribution, FILE_SIZE_MAX, ParseError, Place, SLOTS_MAX, SSIZE_DEFAULT,
    Scheme, Strip, parse_bytes,
};
pub use intersect::{Intersection, Piece, StreamPiece, StreamPieces, bytes_on_slot};
pub use placement::{IodId, IodList, IodListError, Placement, PlacementError, choose_base};
pub use region::{Level, Partition, Region, RegionError, Regions};
