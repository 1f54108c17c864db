//! MPI-IO by our driver: next to the library's own calls, and next to ROMIO's data sieving on a mount of ours; and what a
//! collective open costs the manager.
//!
//! Programs in C do it, started by mpirun and told what to do as the turns come; a job that waits sleeps. They are compiled
//! here and now, because a program runs only with the MPI that it was compiled for, which a package of ours cannot know.

mod job;
mod opens;
mod tools;

use super::compare::{Contender, Subject, Turn, compare};
use super::cpu::{Processes, Used};
use super::error::Result;
use super::io::Transfer;
use super::mount::{MountProcess, can_mount};
use super::row::{Bar, Row};
use super::testbed::Testbed;
use super::{Effort, progress};
use job::{Job, Launch};
use std::cell::RefCell;
use std::time::{Duration, Instant};
pub use tools::Tools;

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// Blocks in order, against the library's own calls.
    Contiguous(Transfer),
    /// Pieces of rows of an array, against ROMIO's data sieving on a mount. What is written is read back.
    Nested(&'static [Transfer]),
    /// One open by many ranks, in requests to the manager, against one by two.
    Opens,
}

impl Case {
    const ALL: [Self; 6] = [
        Self::Contiguous(Transfer::Write),
        Self::Contiguous(Transfer::Read),
        Self::Nested(&[Transfer::Write, Transfer::Read]),
        Self::Nested(&[Transfer::Write]),
        Self::Nested(&[Transfer::Read]),
        Self::Opens,
    ];

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Contiguous(transfer) => {
                format!("mpi {} 4 MiB {RANKS} ranks against the library", word(transfer))
            }
            Self::Nested(transfers) => {
                let words: Vec<&str> = transfers.iter().copied().map(word).collect();
                format!("mpi nested {} {RANKS} ranks against data sieving", words.join(" and "))
            }
            Self::Opens => format!("mpi collective open {} ranks against {RANKS}", opens::RANKS),
        }
    }

    /// The pattern is written and read in turns by programs, so both together are what counts.
    fn is_quick(self) -> bool {
        !matches!(self, Self::Nested([_]))
    }

    fn takes_a_mount(self) -> bool {
        matches!(self, Self::Nested(_))
    }

    fn subject(self) -> Subject {
        let bar = match self {
            Self::Contiguous(_) => Bar::Ratio(0.92),
            Self::Nested([_]) => Bar::None,
            Self::Nested(_) => Bar::Ratio(3.0),
            Self::Opens => Bar::Ratio(1.0),
        };
        let (unit, is_time) =
            if self == Self::Opens { ("requests", true) } else { ("MiB/s", false) };
        Subject { name: self.name(), unit, is_time, bar }
    }
}

/// The rows that are wanted; without those against a mount where this user cannot mount.
pub fn cases(effort: &Effort) -> Vec<Case> {
    let can_mount = can_mount();
    let wanted = |case: &Case| {
        (!effort.quick || case.is_quick())
            && (can_mount || !case.takes_a_mount())
            && effort.wants(&case.name())
    };
    Case::ALL.into_iter().filter(wanted).collect()
}

/// Measures them.
pub fn measure(
    testbed: &Testbed,
    effort: &Effort,
    cases: &[Case],
    tools: &Tools,
) -> Result<Vec<Row>> {
    let launch = Launch::new(testbed, tools)?;
    let progress = progress(cases.len());
    let mut rows = Vec::new();
    for case in cases {
        progress.set_message(case.name());
        rows.push(match case {
            Case::Contiguous(transfer) => contiguous(&launch, effort, case.subject(), *transfer)?,
            Case::Nested(transfers) => nested(&launch, effort, case.subject(), transfers)?,
            Case::Opens => opens::measure(&launch, effort, case.subject())?,
        });
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(rows)
}

/// One job does both in turns: nothing but the calls differs.
fn contiguous(
    launch: &Launch<'_>,
    effort: &Effort,
    subject: Subject,
    transfer: Transfer,
) -> Result<Row> {
    let program = launch.program_with_library("contiguous")?;
    let names = [launch.driven_name("contiguous"), launch.library_path("contiguous")];
    let rank_mib = RANK_MIB.to_string();
    let job = launch.driven(RANKS, &program, &[&names[0], &names[1], &rank_mib])?;
    let job = RefCell::new(job.ready()?);
    let side = |way: &str| Side {
        job: &job,
        orders: vec![format!("{way} {}", word(transfer))],
        step_bytes: (u64::from(RANKS) * RANK_MIB) << 20,
        turn: effort.turn,
        daemons: Processes::with_this(launch.testbed.daemon_pids()),
    };
    compare(subject, effort, &mut side("mpi"), Some(&mut side("native")))
}

fn nested(
    launch: &Launch<'_>,
    effort: &Effort,
    subject: Subject,
    transfers: &[Transfer],
) -> Result<Row> {
    let program = launch.program("nested")?;
    let mount = MountProcess::start(launch.testbed, Some(launch.testbed.cluster()))?;
    let below_mount = mount.home(launch.testbed)?.join("sieved").display().to_string();
    let cells = CELLS.to_string();
    let driven = launch.driven(RANKS, &program, &[&launch.driven_name("nested"), &cells])?;
    let driven = RefCell::new(driven.ready()?);
    let sieving = RefCell::new(launch.plain(RANKS, &program, &[&below_mount, &cells])?.ready()?);
    let daemons = launch.testbed.daemon_pids();
    let side = |job, daemons: &[u32]| Side {
        job,
        orders: transfers.iter().map(|transfer| word(*transfer).to_owned()).collect(),
        step_bytes: transfers.len() as u64 * NESTED_BYTES,
        turn: effort.turn,
        daemons: Processes::with_this(daemons),
    };
    let with_mount = [daemons, &[mount.pid()]].concat();
    let (mut own, mut bare) = (side(&driven, daemons), side(&sieving, &with_mount));
    let row = compare(subject, effort, &mut own, Some(&mut bare));
    // Files are closed before the mount goes.
    driven.into_inner().end()?;
    sieving.into_inner().end()?;
    row
}

/// One side of a row: orders given to a job again and again.
struct Side<'a> {
    job: &'a RefCell<Job>,
    orders: Vec<String>,
    step_bytes: u64,
    turn: Duration,
    daemons: Processes,
}

impl Contender for Side<'_> {
    fn turn(&mut self) -> Result<Turn> {
        let (before, begun) = (self.daemons.used(), Instant::now());
        let (mut took, mut ranks, mut steps) = (Duration::ZERO, Duration::ZERO, 0);
        while steps == 0 || begun.elapsed() < self.turn {
            for order in &self.orders {
                let pass = self.job.borrow_mut().order(order)?;
                took += pass.took;
                ranks += pass.processor;
            }
            steps += 1;
        }
        let bytes = steps * self.step_bytes;
        let value = bytes as f64 / MIB / took.as_secs_f64();
        let cpu = Used { clients: ranks, ..self.daemons.used().since(before) };
        Ok(Turn { value, operations: steps, bytes, cpu })
    }
}

/// As in orders.
fn word(transfer: Transfer) -> &'static str {
    if transfer == Transfer::Read { "read" } else { "write" }
}

/// More would wait for one another on the small machines that this is run on.
const RANKS: u32 = 2;

/// What each rank moves in one pass.
const RANK_MIB: u64 = 64;

/// Cells on a side of the array.
const CELLS: u64 = 64;

/// Five components of eight bytes in each cell; each rank has a part of 1/RANKS in two of the three dimensions.
const NESTED_BYTES: u64 = CELLS * CELLS * CELLS * 5 * 8 / RANKS as u64;

const MIB: f64 = (1 << 20) as f64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_has_its_own_name_and_a_quick_run_keeps_every_bar() {
        let names: HashSet<String> = Case::ALL.into_iter().map(Case::name).collect();
        assert_eq!(names.len(), Case::ALL.len());
        for case in Case::ALL {
            assert_eq!(case.is_quick(), case.subject().bar != Bar::None, "{}", case.name());
        }
    }
}
