//! The kernel mount, against a file system in memory that is mounted by the same binding.
//!
//! Both are served by a process of their own. Files are opened as programs do: written with O_WRONLY, read
//! through the page cache, whose pages are dropped before each pass so that every byte comes from the
//! daemons; and read with O_DIRECT.
//!
//! What a program reads in small pieces, or through a map, comes as fast as the kernel reads ahead: those rows
//! are against the library, which reads the same file 1 MiB at a time.

mod files;
mod listing;
mod process;

use super::compare::{Subject, Working, compare};
use super::cpu::Processes;
use super::crew::{Crew, Job};
use super::error::Result;
use super::io::Transfer;
use super::row::{Bar, Row};
use super::testbed::Testbed;
use super::{Effort, progress};
pub use listing::{ROW as LISTING_ROW, measure as measure_listing};
pub use process::{MountProcess, serve};

/// How a file is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// As nearly everybody does.
    Plain,
    /// O_DIRECT.
    Direct,
    /// As nearly everybody does, and read in pieces as small as cp's.
    Pieces,
    /// Mapped into memory, as models are loaded.
    Mapped,
}

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    /// Which way the bytes go.
    pub transfer: Transfer,
    /// How many at once, each with a file of its own.
    pub clients: u32,
    /// How files are opened.
    pub way: Way,
}

impl Case {
    const ALL: [Self; 8] = [
        Self { transfer: Transfer::Read, clients: 1, way: Way::Plain },
        Self { transfer: Transfer::Read, clients: 4, way: Way::Plain },
        Self { transfer: Transfer::Read, clients: 1, way: Way::Direct },
        Self { transfer: Transfer::Read, clients: 4, way: Way::Direct },
        Self { transfer: Transfer::Read, clients: 1, way: Way::Pieces },
        Self { transfer: Transfer::Read, clients: 1, way: Way::Mapped },
        Self { transfer: Transfer::Write, clients: 1, way: Way::Plain },
        Self { transfer: Transfer::Write, clients: 4, way: Way::Plain },
    ];

    /// Its name.
    pub fn name(&self) -> String {
        let transfer = if self.transfer == Transfer::Read { "read" } else { "write" };
        let clients = if self.clients == 1 {
            "1 client".into()
        } else {
            format!("{} clients own", self.clients)
        };
        match self.way {
            Way::Plain => format!("mount {transfer} 1 MiB {clients}"),
            Way::Direct => format!("mount {transfer} 1 MiB {clients} O_DIRECT"),
            Way::Pieces => format!("mount cold {transfer} 128 KiB {clients} against library"),
            Way::Mapped => format!("mount cold map {clients} against library"),
        }
    }

    /// Whether the limit is the library.
    fn is_against_library(&self) -> bool {
        matches!(self.way, Way::Pieces | Way::Mapped)
    }

    fn subject(&self) -> Subject {
        let bar = if self.is_against_library() { Bar::None } else { Bar::Ratio(0.7) };
        Subject { name: self.name(), unit: "MiB/s", is_time: false, bar }
    }
}

/// The rows that are wanted; none where this user cannot mount.
pub fn cases(effort: &Effort) -> Vec<Case> {
    let all = Case::ALL.into_iter().filter(|case| effort.wants(&case.name()));
    if can_mount() { all.collect() } else { Vec::new() }
}

/// Whether a mount is possible here.
pub fn can_mount() -> bool {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.is_ok() && rustix::process::geteuid().is_root()
}

/// Measures them.
pub fn measure(testbed: &Testbed, effort: &Effort, cases: &[Case]) -> Result<Vec<Row>> {
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let clients = cases.iter().map(|case| case.clients).max().unwrap_or(0);
    let product = MountProcess::start(testbed, Some(testbed.cluster()))?;
    let memory = MountProcess::start(testbed, None)?;
    for mount in [&product, &memory] {
        files::prepare(&mount.home(testbed)?, clients)?;
    }
    let progress = progress(cases.len());
    let measured = cases.iter().map(|case| {
        progress.set_message(case.name());
        let row = measure_one(testbed, effort, (&product, &memory), case);
        progress.inc(1);
        row
    });
    let rows = measured.collect();
    progress.finish_and_clear();
    rows
}

fn measure_one(
    testbed: &Testbed,
    effort: &Effort,
    (product, memory): (&MountProcess, &MountProcess),
    case: &Case,
) -> Result<Row> {
    let mut daemons = testbed.daemon_pids().to_vec();
    daemons.push(product.pid());
    let working = |name, jobs: Result<Vec<Job>>, processes, operation_bytes| -> Result<Working> {
        let crew = Crew::new(name, jobs?);
        Ok(Working { crew, turn: effort.turn, processes, operation_bytes })
    };
    let side = |mount: &MountProcess, processes| {
        let home = mount.home(testbed)?;
        let jobs = (0..case.clients).map(|client| files::job(&home, case, client));
        working("client", jobs.collect(), processes, files::operation_bytes(case))
    };
    let mut own = side(product, Processes::with_this(&daemons))?;
    let mut bare = if case.is_against_library() {
        let jobs = (0..case.clients).map(|client| files::library_job(testbed, client));
        working("bare", jobs.collect(), testbed.product_processes(), files::TRANSFER_BYTES)?
    } else {
        side(memory, Processes::with_this(&[memory.pid()]))?
    };
    compare(case.subject(), effort, &mut own, Some(&mut bare))
}
