//! The kernel mount, against a file system in memory that is mounted by the same binding.
//!
//! Both are served by a process of their own. Files are opened as programs do: written with O_WRONLY, read
//! through the page cache, whose pages are dropped before each pass so that every byte comes from the
//! daemons; and read with O_DIRECT.

mod files;
mod listing;
mod process;

use super::compare::{Subject, Working, compare};
use super::cpu::Processes;
use super::crew::Crew;
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
    const ALL: [Self; 6] = [
        Self { transfer: Transfer::Read, clients: 1, way: Way::Plain },
        Self { transfer: Transfer::Read, clients: 4, way: Way::Plain },
        Self { transfer: Transfer::Read, clients: 1, way: Way::Direct },
        Self { transfer: Transfer::Read, clients: 4, way: Way::Direct },
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
        let way = if self.way == Way::Direct { " O_DIRECT" } else { "" };
        format!("mount {transfer} 1 MiB {clients}{way}")
    }

    fn subject(&self) -> Subject {
        Subject { name: self.name(), unit: "MiB/s", is_time: false, bar: Bar::Ratio(0.7) }
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
    let side = |mount: &MountProcess, processes| -> Result<Working> {
        let home = mount.home(testbed)?;
        let jobs = (0..case.clients).map(|client| files::job(&home, case, client));
        let crew = Crew::new("client", jobs.collect::<Result<_>>()?);
        Ok(Working { crew, turn: effort.turn, processes, operation_bytes: files::TRANSFER_BYTES })
    };
    let mut own = side(product, Processes::with_this(&daemons))?;
    let mut bare = side(memory, Processes::with_this(&[memory.pid()]))?;
    compare(case.subject(), effort, &mut own, Some(&mut bare))
}
