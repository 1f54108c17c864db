//! Programs with the preload library: on ordinary files against programs without it, on the file system against
//! the client library and against the local file system.
//!
//! Each side is a process of its own that does one kind of call as long as it is told to, so that nothing but what
//! stands before its C library differs.

mod worker;

use super::compare::{Subject, compare};
use super::error::Result;
use super::row::{Bar, Row};
use super::testbed::Testbed;
use super::{Effort, progress};
use std::path::Path;
pub use worker::serve;
use worker::{Kind, Worker};

/// What a process does over and over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Call {
    /// pread(2) of so many bytes.
    Read(usize),
    /// pwrite(2) of so many bytes.
    Write(usize),
    /// open(2) and close(2).
    Open,
    /// stat(2)
    Stat,
    /// stat(2) of a name that is not there.
    Absent,
}

/// What is held against what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pair {
    /// A file of another file system: with the preload library, and without.
    Ordinary,
    /// A file of ours: through the preload library, and through the client library.
    Library,
    /// A file of ours through the preload library, and one of the local file system.
    Local,
}

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    /// What is done.
    pub call: Call,
    /// To what.
    pub pair: Pair,
}

impl Call {
    /// As it is said to a worker, and in the names of rows.
    pub fn name(self) -> String {
        match self {
            Self::Read(bytes) => format!("read {}", size(bytes)),
            Self::Write(bytes) => format!("write {}", size(bytes)),
            Self::Open => "open and close".into(),
            Self::Stat => "stat".into(),
            Self::Absent => "stat of nothing".into(),
        }
    }

    /// The call of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Open, Self::Stat, Self::Absent];
        let moves = SIZES.iter().flat_map(|bytes| [Self::Read(*bytes), Self::Write(*bytes)]);
        all.into_iter().chain(moves).find(|call| call.name() == name)
    }

    /// Bytes that one moves.
    pub fn bytes(self) -> usize {
        match self {
            Self::Read(bytes) | Self::Write(bytes) => bytes,
            _ => 0,
        }
    }
}

impl Case {
    /// Its name.
    pub fn name(&self) -> String {
        let call = self.call.name();
        match self.pair {
            Pair::Ordinary => format!("ordinary {call} with the preload library to without"),
            Pair::Library => format!("preload {call} to the library"),
            Pair::Local => format!("preload {call} to the local file system"),
        }
    }

    fn subject(&self) -> Subject {
        let unit = if self.call.bytes() > 0 { "MiB/s" } else { "ops/s" };
        let bar = match (self.pair, self.call) {
            // Two questions more, where a link may lead into the file system.
            (Pair::Ordinary, Call::Absent) => Bar::None,
            (Pair::Ordinary | Pair::Library, _) => Bar::Ratio(0.95),
            (Pair::Local, _) => Bar::Ratio(0.7),
        };
        Subject { name: self.name(), unit, is_time: false, bar }
    }
}

/// The rows that are wanted.
pub fn cases(effort: &Effort) -> Vec<Case> {
    let moves = SIZES.iter().flat_map(|bytes| [Call::Read(*bytes), Call::Write(*bytes)]);
    let ordinary = [Call::Read(4 << 10), Call::Open, Call::Stat, Call::Absent];
    let ordinary = ordinary.into_iter().map(|call| Case { call, pair: Pair::Ordinary });
    let ours = [Pair::Library, Pair::Local];
    let ours = ours.into_iter().flat_map(|pair| moves.clone().map(move |call| Case { call, pair }));
    ordinary.chain(ours).filter(|case| effort.wants(&case.name())).collect()
}

/// Measures them with the library of this path.
pub fn measure(
    testbed: &Testbed,
    effort: &Effort,
    cases: &[Case],
    library: &Path,
) -> Result<Vec<Row>> {
    let start = |kind| Worker::start(testbed, kind, library);
    let mut plain = start(Kind::Plain)?;
    let mut caught = start(Kind::Caught)?;
    let mut inside = start(Kind::Inside)?;
    let mut direct = start(Kind::Library)?;
    let progress = progress(cases.len());
    let measured = cases.iter().map(|case| {
        progress.set_message(case.name());
        let (own, bare) = match case.pair {
            Pair::Ordinary => (&mut caught, &mut plain),
            Pair::Library => (&mut inside, &mut direct),
            Pair::Local => (&mut inside, &mut plain),
        };
        own.is_to(case.call, effort.turn);
        bare.is_to(case.call, effort.turn);
        let row = compare(case.subject(), effort, own, Some(bare));
        progress.inc(1);
        row
    });
    let rows = measured.collect();
    progress.finish_and_clear();
    rows
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

const SIZES: [usize; 2] = [1 << 20, 4 << 10];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_known_by_its_name() {
        for call in [Call::Open, Call::Absent, Call::Read(4 << 10), Call::Write(1 << 20)] {
            assert_eq!(Call::named(&call.name()), Some(call));
        }
        assert_eq!(Call::named("read 5 KiB"), None);
    }
}
