//! Reads and writes: the client library against bare socket programs.
//!
//! Both sides are threads of this process with connections of their own, and server processes of equal
//! number. Every client walks through its file from a place of its own, in transfers of one size, over and over;
//! all files were written before, since the first touch of a page costs more than everything else here.

mod files;
mod jobs;

use super::compare::{Subject, Working, compare};
use super::crew::Crew;
use super::error::Result;
use super::limit::Medium;
use super::row::{Bar, Row};
use super::testbed::Testbed;
use super::{Effort, progress};
use files::Files;
use pvfs_client::Transport;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transfer {
    /// To the client.
    Read,
    /// From the client.
    Write,
}

/// Which files the clients use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// All the same one.
    Shared,
    /// Each its own.
    Own,
}

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    /// How clients reach daemons.
    pub transport: Transport,
    /// Which way.
    pub transfer: Transfer,
    /// Bytes of one operation.
    pub bytes: u64,
    /// How many at once.
    pub clients: u32,
    /// Which files.
    pub sharing: Sharing,
    /// Whether the limit's servers use files.
    pub medium: Medium,
}

impl Case {
    /// Every row, in the order they are shown.
    pub fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for transport in [Transport::Tcp, Transport::Unix] {
            for bytes in SIZES {
                for medium in limits_of(bytes) {
                    for transfer in [Transfer::Read, Transfer::Write] {
                        let crowds = CROWDS.iter().map(|(clients, sharing)| Self {
                            transport,
                            transfer,
                            bytes,
                            clients: *clients,
                            sharing: *sharing,
                            medium: *medium,
                        });
                        cases.extend(crowds);
                    }
                }
            }
        }
        cases
    }

    /// Its name.
    pub fn name(&self) -> String {
        let transport = if self.transport == Transport::Unix { "unix" } else { "tcp" };
        let transfer = if self.transfer == Transfer::Read { "read" } else { "write" };
        let crowd = match (self.clients, self.sharing) {
            (1, _) => "1 client".to_owned(),
            (clients, Sharing::Shared) => format!("{clients} clients shared"),
            (clients, Sharing::Own) => format!("{clients} clients own"),
        };
        let against = if self.against_files() { " against files" } else { "" };
        format!("{transport} {transfer} {} {crowd}{against}", size_name(self.bytes))
    }

    /// Small transfers have two limits: the exchange of messages, which the bar is about, and with files.
    fn against_files(&self) -> bool {
        self.bytes == SMALL_BYTES && self.medium == Medium::File
    }

    /// Over Unix sockets the sizes and numbers in between are left out, and so is the second limit.
    fn is_quick(&self) -> bool {
        let essential =
            self.clients != 2 && self.bytes != MIDDLE_BYTES && self.sharing == Sharing::Shared;
        !self.against_files() && (self.transport == Transport::Tcp || essential)
    }

    fn bar(&self) -> Bar {
        match (self.transport, self.bytes) {
            (Transport::Tcp, LARGE_BYTES) => Bar::Ratio(0.9),
            (Transport::Tcp, SMALL_BYTES) if !self.against_files() => Bar::Ratio(0.7),
            _ => Bar::None,
        }
    }

    fn subject(&self) -> Subject {
        Subject { name: self.name(), unit: "MiB/s", is_time: false, bar: self.bar() }
    }
}

/// The rows that are wanted.
pub fn cases(effort: &Effort) -> Vec<Case> {
    let wanted = |case: &Case| (!effort.quick || case.is_quick()) && effort.wants(&case.name());
    Case::all().into_iter().filter(wanted).collect()
}

/// Measures them.
pub fn measure(testbed: &Testbed, effort: &Effort, cases: &[Case]) -> Result<Vec<Row>> {
    let clients = cases.iter().map(|case| case.clients).max().unwrap_or(0);
    let files = Files::prepare(testbed, clients)?;
    let progress = progress(cases.len());
    let measured = cases.iter().map(|case| {
        progress.set_message(case.name());
        let row = measure_one(testbed, effort, &files, case);
        progress.inc(1);
        row
    });
    let rows = measured.collect();
    progress.finish_and_clear();
    rows
}

fn measure_one(testbed: &Testbed, effort: &Effort, files: &Files, case: &Case) -> Result<Row> {
    let working = |name, jobs, processes| Working {
        crew: Crew::new(name, jobs),
        turn: effort.turn,
        processes,
        operation_bytes: case.bytes,
    };
    let mut product =
        working("client", jobs::product(testbed, files, case)?, testbed.product_processes());
    let mut limit = working("bare", jobs::bare(testbed, case)?, testbed.bare_processes());
    compare(case.subject(), effort, &mut product, Some(&mut limit))
}

fn limits_of(bytes: u64) -> &'static [Medium] {
    if bytes == SMALL_BYTES { &[Medium::Memory, Medium::File] } else { &[Medium::File] }
}

fn size_name(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

/// Alone there is no difference between sharing and not.
const CROWDS: [(u32, Sharing); 5] = [
    (1, Sharing::Shared),
    (2, Sharing::Shared),
    (2, Sharing::Own),
    (4, Sharing::Shared),
    (4, Sharing::Own),
];

const LARGE_BYTES: u64 = 1 << 20;
const MIDDLE_BYTES: u64 = 64 << 10;
const SMALL_BYTES: u64 = 4 << 10;
const SIZES: [u64; 3] = [LARGE_BYTES, MIDDLE_BYTES, SMALL_BYTES];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::time::Duration;

    fn effort(quick: bool) -> Effort {
        Effort { runs: 1, turn: Duration::ZERO, quick, rows: None, interrupted: Arc::default() }
    }

    #[test]
    fn every_row_has_its_own_name() {
        let names: HashSet<String> = Case::all().iter().map(Case::name).collect();
        assert_eq!(names.len(), Case::all().len());
        for name in [
            "tcp read 1 MiB 4 clients shared",
            "tcp write 4 KiB 1 client",
            "unix read 64 KiB 2 clients own",
        ] {
            assert!(names.contains(name), "{name} is not in {names:?}");
        }
    }

    #[test]
    fn a_quick_run_keeps_every_row_with_a_bar() {
        let quick = cases(&effort(true));
        let barred = Case::all().into_iter().filter(|case| case.bar() != Bar::None);
        assert!(barred.into_iter().all(|case| quick.contains(&case)));
        assert!(quick.len() < cases(&effort(false)).len());
    }
}
