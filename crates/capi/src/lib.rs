//! libpvfs: the calls of `include/pvfs.h`, for programs in C, C++ and whatever calls C.
//!
//! ```text
//!   program ── pvfs_read(fd, ...) ──> ffi     C's types; is the path or the descriptor ours?
//!                                      │ yes                  │ no: the C library
//!                                   pvfs-posix            an ordinary file
//! ```
//!
//! [`ffi`] has a file for each section of the header. All unsafe code is there: what a function is given is looked
//! at (null, misaligned, too long, sums that differ) before anything is done, so that what is wrong is an error
//! number and nothing was written. A panic is EIO. What is left is safe: [`striping`] translates layouts, [`turns`] lets one
//! thread at a time into a queue.
//!
//! There are no threads and no signals of ours in the program; a signal handler that calls us while its own thread
//! is inside is refused with EDEADLK.

#![deny(unsafe_code)]

mod ffi;
mod striping;
mod turns;
