//! Operations on names: the manager against the local file system that its store lies on.
//!
//! A crowd of clients creates files, looks them up, renames and removes them, in this order, since each step
//! needs what the one before has left. Steps with no row wanted are taken all the same, unmeasured.

mod job;
mod listing;
mod names;

use super::compare::{Subject, Working, compare};
use super::crew::Crew;
use super::error::Result;
use super::row::{Bar, Row};
use super::testbed::Testbed;
use super::{Effort, memory, mount, progress};
use job::Progress;
use names::{Local, Names, Product};
use std::sync::Arc;
use std::time::Duration;

/// What a client repeats.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// open(O_CREAT | O_EXCL), close.
    Create,
    /// stat of a path.
    Stat,
    /// rename within the directory.
    Rename,
    /// unlink.
    Unlink,
    /// mkdir.
    Mkdir,
    /// rmdir.
    Rmdir,
}

/// How many clients, and where.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Crowd {
    /// How many.
    pub clients: u32,
    /// All in one directory, else each in its own.
    pub together: bool,
}

/// What is measured here; the listing and the memory beside the steps.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    crowds: Vec<Crowd>,
    listing: bool,
    memory: bool,
    mount: bool,
}

impl Step {
    const ALL: [Self; 6] =
        [Self::Create, Self::Stat, Self::Rename, Self::Unlink, Self::Mkdir, Self::Rmdir];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
        }
    }

    /// Whether it uses up what an earlier step has made.
    fn removes(self) -> bool {
        matches!(self, Self::Unlink | Self::Rmdir)
    }

    fn bar(self, crowd: Crowd) -> Bar {
        let barred = matches!(self, Self::Create | Self::Stat | Self::Unlink);
        if barred && crowd.clients == CLIENTS_MAX { Bar::AtLeast(RATE_BAR) } else { Bar::None }
    }
}

impl Crowd {
    const ALL: [Self; 3] = [
        Self { clients: 1, together: false },
        Self { clients: CLIENTS_MAX, together: false },
        Self { clients: CLIENTS_MAX, together: true },
    ];

    fn row(self, step: Step) -> String {
        let clients =
            if self.clients == 1 { "1 client".into() } else { format!("{} clients", self.clients) };
        let shared = if self.together { " shared" } else { "" };
        format!("{} {clients}{shared}", step.name())
    }

    fn rows(self) -> impl Iterator<Item = String> {
        Step::ALL.into_iter().map(move |step| self.row(step))
    }
}

impl Plan {
    /// What is wanted of all there is.
    pub fn new(effort: &Effort) -> Self {
        let crowds =
            Crowd::ALL.into_iter().filter(|crowd| crowd.rows().any(|name| effort.wants(&name)));
        Self {
            crowds: crowds.collect(),
            listing: effort.wants(listing::ROW),
            memory: memory::ROWS.iter().any(|name| effort.wants(name)),
            mount: effort.wants(mount::LISTING_ROW) && mount::can_mount(),
        }
    }

    /// The names of the rows, in the order they are shown.
    pub fn names(&self, effort: &Effort) -> Vec<String> {
        let fixed = memory::ROWS.into_iter().chain([listing::ROW]).map(str::to_owned);
        let steps = self.crowds.iter().flat_map(|crowd| crowd.rows());
        let mounted = self.mount.then(|| mount::LISTING_ROW.to_owned());
        fixed.chain(steps).chain(mounted).filter(|name| effort.wants(name)).collect()
    }
}

/// Measures what the plan says.
pub fn measure(testbed: &Testbed, effort: &Effort, plan: &Plan) -> Result<Vec<Row>> {
    let progress = progress(plan.names(effort).len());
    let mut rows = Vec::new();
    // Memory first: what was used and freed before would hide how it grows.
    if plan.memory {
        progress.set_message(memory::ROWS[0]);
        rows.extend(memory::connections(testbed)?);
    }
    if plan.listing || plan.memory {
        progress.set_message(listing::ROW);
        rows.extend(listing::measure(testbed, effort)?);
    }
    progress.inc(rows.len() as u64);
    for crowd in &plan.crowds {
        rows.extend(measure_crowd(testbed, effort, *crowd, &progress)?);
    }
    if plan.mount {
        progress.set_message(mount::LISTING_ROW);
        rows.push(mount::measure_listing(testbed, effort)?);
    }
    progress.finish_and_clear();
    rows.retain(|row| effort.wants(&row.name));
    Ok(rows)
}

fn measure_crowd(
    testbed: &Testbed,
    effort: &Effort,
    crowd: Crowd,
    bar: &indicatif::ProgressBar,
) -> Result<Vec<Row>> {
    let product = desks(Product::crowd(testbed, crowd)?);
    let local = desks(Local::crowd(testbed, crowd)?);
    let mut rows = Vec::new();
    for step in Step::ALL {
        bar.set_message(crowd.row(step));
        let subject =
            Subject { name: crowd.row(step), unit: "1/s", is_time: false, bar: step.bar(crowd) };
        let mut own = working(&product, step, effort, testbed.product_processes())?;
        let mut bare = working(&local, step, effort, super::cpu::Processes::with_this(&[]))?;
        rows.push(compare(subject, effort, &mut own, Some(&mut bare))?);
        bar.inc(1);
    }
    Ok(rows)
}

/// A client with what it has done so far.
type Desk<N> = (Arc<N>, Arc<Progress>);

fn desks<N: Names>(crowd: Vec<N>) -> Vec<Desk<N>> {
    crowd.into_iter().map(|names| (Arc::new(names), Arc::new(Progress::default()))).collect()
}

fn working<N: Names + 'static>(
    desks: &[Desk<N>],
    step: Step,
    effort: &Effort,
    processes: super::cpu::Processes,
) -> Result<Working> {
    let turns = u64::from(effort.runs) + 1;
    let jobs = desks
        .iter()
        .map(|(names, progress)| job::job(names.clone(), progress.clone(), step, turns));
    let jobs = jobs.collect::<Result<_>>()?;
    // What is removed is a fixed share of what was made, however long it takes.
    let turn = if step.removes() { REMOVING_TIME_MAX } else { effort.turn };
    Ok(Working { crew: Crew::new("client", jobs), turn, processes, operation_bytes: 0 })
}

const CLIENTS_MAX: u32 = 8;
const RATE_BAR: f64 = 20_000.0;
const REMOVING_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(rows: &str) -> Effort {
        Effort {
            runs: 2,
            turn: Duration::from_millis(20),
            quick: true,
            rows: Some(rows.into()),
            interrupted: Arc::default(),
        }
    }

    #[test]
    fn a_pattern_chooses_rows_and_only_the_crowds_they_need() {
        let effort = effort("unlink 8 clients");
        let plan = Plan::new(&effort);
        assert_eq!(plan.names(&effort), ["unlink 8 clients", "unlink 8 clients shared"]);
        assert_eq!((plan.crowds.len(), plan.listing, plan.memory), (2, false, false));
    }

    /// The whole sequence of steps, on the local file system on both sides.
    #[test]
    fn every_step_finds_what_the_one_before_left() {
        let directory = tempfile::tempdir().unwrap();
        let crowd = Crowd { clients: 2, together: true };
        let desks = desks(Local::below(directory.path(), crowd).unwrap());
        let effort = effort("");
        for step in Step::ALL {
            let mut side =
                working(&desks, step, &effort, crate::bench::cpu::Processes::default()).unwrap();
            let subject =
                Subject { name: crowd.row(step), unit: "1/s", is_time: false, bar: Bar::None };
            let row = compare(subject, &effort, &mut side, None).unwrap();
            assert!(
                row.value > 0.0 && row.detail.values.iter().all(|value| *value > 0.0),
                "{row:?}"
            );
        }
    }
}
