//! The parallel interfaces against the ordinary calls that they stand for, both on the same file system.
//!
//! The limit of each row is the loop a program would write without them, so the ratio says how many times faster
//! the call is. All over TCP, as from another node: what is lent on the same node needs no message to begin with.

mod depth;
mod listing;
mod opens;
mod regions;

use super::compare::{Contender, Subject, Turn, compare};
use super::cpu::Processes;
use super::error::Result;
use super::row::{Bar, Row};
use super::testbed::Testbed;
use super::{Effort, progress};
use std::time::{Duration, Instant};

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// Regions in one call, or one by one.
    Regions(regions::Case),
    /// One open for many clients, or one each.
    Opens(opens::Case),
    /// A directory with attributes in one go, or file by file.
    Listing(listing::Case),
    /// Many small transfers at once, or one after the other.
    Depth(depth::Case),
}

/// One side of a row: something done again and again, which tells how long what counts of it took.
struct Repeated<'a> {
    step: Box<dyn FnMut() -> Result<Duration> + 'a>,
    turn: Duration,
    processes: Processes,
    bytes: u64,
}

impl Case {
    /// Every row, in the order they are shown.
    pub fn all() -> Vec<Self> {
        let regions = regions::Case::all().map(Self::Regions);
        let opens = opens::Case::all().map(Self::Opens);
        let listing = listing::Case::all().map(Self::Listing);
        regions.chain(opens).chain(listing).chain(depth::Case::all().map(Self::Depth)).collect()
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Regions(case) => case.name(),
            Self::Opens(case) => case.name(),
            Self::Listing(case) => case.name(),
            Self::Depth(case) => case.name(),
        }
    }

    fn is_quick(self) -> bool {
        !matches!(self, Self::Regions(case) if !case.is_quick())
    }

    /// How many times faster it is to be than the loop.
    fn times(self) -> f64 {
        match self {
            Self::Regions(case) => case.times(),
            Self::Opens(case) => case.times(),
            Self::Listing(_) => 7.0,
            Self::Depth(_) => 5.0,
        }
    }

    fn subject(self) -> Subject {
        Subject { name: self.name(), unit: "us", is_time: true, bar: Bar::Ratio(self.times()) }
    }
}

/// The rows that are wanted.
pub fn cases(effort: &Effort) -> Vec<Case> {
    let wanted = |case: &Case| (!effort.quick || case.is_quick()) && effort.wants(&case.name());
    Case::all().into_iter().filter(wanted).collect()
}

/// Measures these rows.
pub fn measure(testbed: &Testbed, effort: &Effort, cases: &[Case]) -> Result<Vec<Row>> {
    let progress = progress(cases.len());
    let mut rows = Vec::new();
    for case in cases {
        progress.set_message(case.name());
        rows.push(match case {
            Case::Regions(regions) => regions.measure(testbed, effort, case.subject())?,
            Case::Opens(opens) => opens.measure(testbed, effort, case.subject())?,
            Case::Listing(listing) => listing.measure(testbed, effort, case.subject())?,
            Case::Depth(depth) => depth.measure(testbed, effort, case.subject())?,
        });
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(rows)
}

/// Measures the call against the loop. Each step returns the time that counts, and moves so many bytes.
fn call_against_loop(
    testbed: &Testbed,
    effort: &Effort,
    subject: Subject,
    bytes: u64,
    call: impl FnMut() -> Result<Duration>,
    one_by_one: impl FnMut() -> Result<Duration>,
) -> Result<Row> {
    let (turn, processes) = (effort.turn, testbed.product_processes());
    let mut call = Repeated { step: Box::new(call), turn, processes: processes.clone(), bytes };
    let mut one_by_one = Repeated { step: Box::new(one_by_one), turn, processes, bytes };
    compare(subject, effort, &mut call, Some(&mut one_by_one))
}

impl Contender for Repeated<'_> {
    fn turn(&mut self) -> Result<Turn> {
        let (before, begun) = (self.processes.used(), Instant::now());
        let (mut counted, mut operations) = (Duration::ZERO, 0);
        while operations == 0 || begun.elapsed() < self.turn {
            counted += (self.step)()?;
            operations += 1;
        }
        let cpu = self.processes.used().since(before);
        let value = counted.as_secs_f64() * 1e6 / operations as f64;
        Ok(Turn { value, operations, bytes: operations * self.bytes, cpu })
    }
}

/// How long this takes.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Arc;

    fn effort(quick: bool) -> Effort {
        Effort { runs: 1, turn: Duration::ZERO, quick, rows: None, interrupted: Arc::default() }
    }

    #[test]
    fn every_row_has_its_own_name_and_a_quick_run_keeps_one_of_each_kind() {
        let names: HashSet<String> = Case::all().into_iter().map(Case::name).collect();
        assert_eq!(names.len(), Case::all().len());
        let quick = cases(&effort(true));
        assert!(quick.len() < Case::all().len());
        for kind in ["readx", "writex", "openg", "getdents_plus", "outstanding"] {
            assert!(quick.iter().any(|case| case.name().contains(kind)), "{kind}");
        }
    }
}
