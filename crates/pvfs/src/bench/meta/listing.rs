//! A large directory: listed with attributes, and what its files cost the manager in memory.

use super::Crowd;
use super::names::{Local, Names, Product};
use crate::bench::Effort;
use crate::bench::compare::{Contender, Subject, Turn, compare};
use crate::bench::cpu::{Processes, Used};
use crate::bench::crew::{Crew, Job, Next};
use crate::bench::error::{Doing, Error, Result};
use crate::bench::memory;
use crate::bench::row::{Bar, Row};
use crate::bench::testbed::Testbed;
use pvfs_client::{Blocking, Transport, User, block_on};
use pvfs_wire::Handle;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Makes the directory, lists it in turns with a local one, and tells how the manager grew meanwhile.
pub fn measure(testbed: &Testbed, effort: &Effort) -> Result<Vec<Row>> {
    let directory = testbed.directory("listing")?;
    let makers = (0..MAKERS).map(|client| Product::within(testbed, directory, client));
    let grown = memory::growth(testbed, || fill(makers.collect::<Result<_>>()?, Product::make))?;
    let local = testbed.place().directory().join("listing");
    std::fs::create_dir_all(&local).doing("make a local directory")?;
    let crowd = Crowd { clients: MAKERS, together: true };
    fill(Local::below(&local, crowd)?, Local::create)?;
    let mut product = Remote {
        user: testbed.client(Transport::Tcp)?,
        directory,
        processes: testbed.product_processes(),
    };
    let subject = Subject { name: ROW.into(), unit: "s", is_time: true, bar: Bar::Below(1.0) };
    let listed = compare(subject, effort, &mut product, Some(&mut Bare { directory: local }))?;
    let cost = grown.map(|bytes| memory::per_million_files(bytes, FILES));
    Ok(cost.into_iter().chain([listed]).collect())
}

struct Remote {
    user: User<Blocking>,
    directory: Handle,
    processes: Processes,
}

impl Contender for Remote {
    fn turn(&mut self) -> Result<Turn> {
        let (before, start) = (self.processes.used(), Instant::now());
        let entries = block_on(self.user.list(self.directory, true)).doing("list a directory")?;
        let time = start.elapsed();
        let complete = entries.iter().filter(|entry| entry.attr.is_some()).count();
        turn(complete, time, self.processes.used().since(before))
    }
}

struct Bare {
    directory: PathBuf,
}

impl Contender for Bare {
    fn turn(&mut self) -> Result<Turn> {
        let start = Instant::now();
        let mut complete = 0;
        for entry in std::fs::read_dir(&self.directory).doing("list a local directory")? {
            entry.and_then(|entry| entry.metadata()).doing("stat a local file")?;
            complete += 1;
        }
        turn(complete, start.elapsed(), Used::default())
    }
}

fn turn(entries: usize, time: Duration, cpu: Used) -> Result<Turn> {
    match entries as u64 == FILES {
        true => Ok(Turn { value: time.as_secs_f64(), operations: 1, bytes: 0, cpu }),
        false => {
            Err(Error::Wrong(format!("a listing had {entries} of {FILES} entries with attributes")))
        }
    }
}

/// Makes all the files, an equal number by each.
fn fill<N: Names + 'static>(makers: Vec<N>, make: fn(&N, &str) -> Result<()>) -> Result<()> {
    let share = FILES / makers.len() as u64;
    let jobs = makers.into_iter().map(|maker| -> Job {
        let mut number = 0;
        Box::new(move || {
            if number == share {
                return Ok(Next::Exhausted);
            }
            make(&maker, &format!("{}{number}", maker.prefix()))?;
            number += 1;
            Ok(Next::Done)
        })
    });
    Crew::new("maker", jobs.collect()).work(FILLING_TIME_MAX).map(drop)
}

/// The row's name.
pub const ROW: &str = "list 100,000 entries with attributes";

const FILES: u64 = 100_000;
const MAKERS: u32 = 8;
const FILLING_TIME_MAX: Duration = Duration::from_secs(120);
