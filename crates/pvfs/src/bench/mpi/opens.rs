//! A collective open: how many requests it costs the manager with many ranks, against few.
//!
//! The whole life of a job counts, from its first connection to its end. Iods are asked nothing by an open.

use super::job::Launch;
use crate::bench::Effort;
use crate::bench::compare::{Contender, Subject, Turn, compare};
use crate::bench::error::{Error, Result};
use crate::bench::row::Row;
use pvfs_client::{Blocking, Transport, User, block_on};
use pvfs_wire::ops::Status;
use std::path::PathBuf;

/// Measures it.
pub fn measure(launch: &Launch<'_>, effort: &Effort, subject: Subject) -> Result<Row> {
    let program = launch.program("open")?;
    let user = launch.testbed.client(Transport::Tcp)?;
    let side = |ranks| Opens { launch, user: &user, program: program.clone(), ranks };
    // A count hardly varies, and so many ranks take their time to start.
    let effort = Effort { runs: effort.runs.min(TURNS_MAX), ..effort.clone() };
    compare(subject, &effort, &mut side(RANKS), Some(&mut side(super::RANKS)))
}

struct Opens<'a> {
    launch: &'a Launch<'a>,
    user: &'a User<Blocking>,
    program: PathBuf,
    ranks: u32,
}

impl Opens<'_> {
    /// Requests that the manager has had.
    fn requests(&self) -> Result<u64> {
        let manager = self.user.filesystem().manager();
        let report = block_on(self.user.inquire(manager, &Status {}));
        let report =
            report.map_err(|error| Error::Wrong(format!("no figures of the manager: {error}")))?;
        let figure = report.figures.into_iter().find(|(name, _)| name == FIGURE);
        figure
            .map(|(_, count)| count)
            .ok_or_else(|| Error::Wrong(format!("the manager tells no {FIGURE}")))
    }
}

impl Contender for Opens<'_> {
    fn turn(&mut self) -> Result<Turn> {
        let name = self.launch.driven_name("opened");
        // What asking costs is not the job's.
        let asked = self.requests()?;
        let before = self.requests()?;
        self.launch.driven(self.ranks, &self.program, &[&name])?.end()?;
        let count = (self.requests()? - before).saturating_sub(before - asked);
        match count {
            0 => Err(Error::Wrong("a collective open asked the manager nothing".into())),
            count => Ok(Turn { value: count as f64, ..Turn::default() }),
        }
    }
}

/// Many ranks.
pub const RANKS: u32 = 64;

const TURNS_MAX: u32 = 3;

const FIGURE: &str = "net_requests_count";
