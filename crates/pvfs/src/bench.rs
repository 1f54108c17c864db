//! `pvfs bench`: what this file system reaches, next to what the machine allows, in one run.
//!
//! ```text
//!   row       one name and its figures: what io, meta, mpi, parallel, preload and memory produce, tables and JSON show
//!   compare   product and limit take turns (A B A B ...), medians
//!     crew    clients: threads that each repeat one operation for a while
//!     cpu     processor time of this process and of the daemons
//!   testbed   where it runs: a store, a private cluster of real processes or the running one
//!   limit     the bare programs: sockets and files without a file system
//!   mount     the kernel mount, next to a file system in memory
//!   mpi       MPI-IO by our driver, next to the client library and to ROMIO on a mount
//!   preload   programs with the preload library, next to those without and to the client library
//! ```
//!
//! Wall times on a shared machine vary by a factor of two from one minute to the next, so no figure stands
//! alone: the ratio of two that were measured in turns is what counts, and processor seconds per GiB.

pub mod cluster;
pub mod compare;
pub mod cpu;
pub mod crew;
pub mod error;
pub mod io;
pub mod limit;
pub mod memory;
pub mod meta;
pub mod mount;
pub mod mpi;
pub mod parallel;
pub mod place;
pub mod preload;
pub mod row;
pub mod testbed;

pub use error::{Error, Result};
pub use row::{Bar, Row};

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Turns of product and limit per row.
    pub runs: u32,
    /// How long one turn lasts.
    pub turn: Duration,
    /// Whether rows are left out that say little more than their neighbours.
    pub quick: bool,
    /// Only rows whose name has this text; `*` stands for anything.
    pub rows: Option<String>,
    /// Set from outside to end the run before its time, with everything put away.
    pub interrupted: Arc<AtomicBool>,
}

impl Effort {
    /// Fails once the run is to end.
    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Whether a row of this name is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.rows.as_ref().is_none_or(|pattern| contains(name, pattern))
    }
}

/// Whether the parts of `pattern` between its stars occur in `name`, in order.
fn contains(name: &str, pattern: &str) -> bool {
    let mut rest = name;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// How far the run is, on standard error when that is a terminal.
pub fn progress(rows: usize) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64);
    let style = ProgressStyle::with_template("{pos:>3}/{len} {msg} {elapsed}");
    bar.set_style(style.expect("the template is well formed"));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_parts_of_names_and_stars_stand_for_anything() {
        let name = "tcp read 1 MiB 4 clients shared";
        for (pattern, wanted) in [
            ("", true),
            ("tcp", true),
            ("tcp*shared", true),
            ("read*4 clients", true),
            ("4 clients*read", false),
            ("unix", false),
        ] {
            assert_eq!(contains(name, pattern), wanted, "{pattern}");
        }
    }
}
