//! `libpvfs_preload.so`: the C library's calls on files, answered for paths below a prefix.
//!
//! ```text
//!   program ── open("/pvfs/a") ──> this library ── is the path or the descriptor ours?
//!                                     │ yes                       │ no: the next function of that name
//!                                  pvfs-posix                  the C library
//! ```
//!
//! A call on something else costs a comparison of the path, or a bit of the descriptor's number. Nothing fails but
//! by an error number: a panic is caught and is EIO. There are no threads and no signals of ours; a signal handler
//! that calls us while its own thread is inside is refused with EDEADLK rather than left waiting for itself.
//!
//! Each file of [`mod@calls`] has the functions of one kind. Their bodies rely on what the C functions of the same
//! names demand of their callers, and on nothing else; see [`interpose`].

#![deny(unsafe_code)]
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "the bodies that `interpose` is given are unsafe as a whole, for the reason stated there"
)]
#![allow(
    unknown_lints,
    invalid_runtime_symbol_definitions,
    reason = "newer compilers want the variadic functions of C (open) to be variadic, which they let nobody write; on \
              Linux an argument that may be there or not is passed as any other"
)]

mod calls;
mod entry;
#[cfg(target_arch = "x86_64")]
mod listing;
mod memory;
mod needs;
mod real;
