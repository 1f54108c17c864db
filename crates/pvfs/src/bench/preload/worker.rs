//! A process that does calls: told on its standard input which, and for how long; tells how many on its output.

use super::Call;
use crate::bench::compare::{Contender, Turn};
use crate::bench::cpu::{Processes, Used, cpu_of};
use crate::bench::error::{Doing, Error, Result};
use crate::bench::testbed::Testbed;
use crate::connected::Connected;
use pvfs_client::{Blocking, OpenFile, Options, User, block_on};
use pvfs_config::Cluster;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What kind of process it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Without the preload library, on the local file system.
    Plain,
    /// With it, on the local file system.
    Caught,
    /// With it, on ours.
    Inside,
    /// Calls the client library.
    Library,
}

/// Such a process, from outside.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    daemons: Processes,
    call: Call,
    turn: Duration,
}

impl Worker {
    /// Starts one, with a file of its own.
    pub fn start(testbed: &Testbed, kind: Kind, library: &Path) -> Result<Self> {
        let program = std::env::current_exe().doing("find this program")?;
        let local = testbed.place().directory().join(format!("{kind:?}"));
        std::fs::create_dir_all(&local).doing("make a directory")?;
        let home = Path::new(PREFIX).join(testbed.home());
        let mut command = Command::new(program);
        command.args(["bench", "preloaded"]).arg("--config").arg(&testbed.cluster().path);
        match kind {
            Kind::Plain | Kind::Caught => command.arg(&local),
            Kind::Inside => command.arg(&home),
            Kind::Library => command.arg(testbed.home()).arg("--library"),
        };
        if matches!(kind, Kind::Caught | Kind::Inside) {
            command.env("LD_PRELOAD", library).env(pvfs_posix::PREFIX_VARIABLE, PREFIX);
            command.env(pvfs_config::CONFIG_VARIABLE, &testbed.cluster().path);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .doing("start a process that does calls")?;
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let daemons = match kind {
            Kind::Plain | Kind::Caught => Processes::default(),
            Kind::Inside | Kind::Library => Processes::with_this(testbed.daemon_pids()),
        };
        let (call, turn) = (Call::Stat, Duration::ZERO);
        Ok(Self { child, input, output, daemons, call, turn })
    }

    /// What it does in its next turns.
    pub fn is_to(&mut self, call: Call, turn: Duration) {
        (self.call, self.turn) = (call, turn);
    }

    fn used(&self) -> Used {
        Used { clients: cpu_of(self.child.id()), ..self.daemons.used() }
    }
}

impl Contender for Worker {
    fn turn(&mut self) -> Result<Turn> {
        let before = self.used();
        writeln!(self.input, "{} {}", self.turn.as_micros(), self.call.name())
            .doing("tell a process what to do")?;
        let line = self.output.next().transpose().doing("hear from a process that does calls")?;
        let cpu = self.used().since(before);
        let told = line.as_deref().and_then(parse);
        let (operations, ns) = told.ok_or_else(|| Error::Daemon {
            daemon: "a process that does calls".into(),
            reason: "see above".into(),
        })?;
        let bytes = operations * self.call.bytes() as u64;
        let done = if bytes > 0 { bytes as f64 / MIB } else { operations as f64 };
        Ok(Turn { value: done / (ns.max(1) as f64 / 1e9), operations, bytes, cpu })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What does the calls.
enum Hand {
    Files { file: File, path: PathBuf, absent: PathBuf },
    Library { user: User<Blocking>, file: Box<OpenFile> },
}

/// Does calls in this directory as standard input says, until it ends; through the client library in that of the
/// cluster's root.
pub fn serve(directory: &Path, library: Option<Cluster>) -> Result<()> {
    let mut hand = match library {
        Some(cluster) => Hand::library(directory, cluster)?,
        None => Hand::files(directory)?,
    };
    let mut buffer = vec![7; 1 << 20];
    hand.fill(&buffer)?;
    for line in std::io::stdin().lines() {
        let line = line.doing("hear what to do")?;
        let (turn, call) = line.split_once(' ').unwrap_or_default();
        let turn = turn.parse().map(Duration::from_micros);
        let (Ok(turn), Some(call)) = (turn, Call::named(call)) else {
            return Err(Error::Wrong(format!("\"{line}\" is no call")));
        };
        let (start, mut operations) = (Instant::now(), 0);
        while start.elapsed() < turn {
            // The clock is not what is measured.
            for _ in 0..BATCH {
                hand.work(call, operations, &mut buffer)?;
                operations += 1;
            }
        }
        println!("{operations} {}", start.elapsed().as_nanos());
    }
    Ok(())
}

impl Hand {
    fn files(directory: &Path) -> Result<Self> {
        let (path, absent) = (directory.join("preloaded"), directory.join("nothing"));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        Ok(Self::Files { file: file.doing("make a file")?, path, absent })
    }

    fn library(directory: &Path, cluster: Cluster) -> Result<Self> {
        let options = Options::of(&cluster);
        let connected = Connected::with(cluster, options);
        let user = connected.map_err(|failure| Error::Wrong(failure.sentence().to_owned()))?.user;
        let name = directory.join("direct").into_os_string().into_encoded_bytes();
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
        let opened = block_on(async {
            let target = Target::below(user.root().await?, name);
            user.open_regular(target, flags, 0o600, Striping::default()).await
        });
        let file = opened.doing("make a file")?;
        Ok(Self::Library { user, file: Box::new(file) })
    }

    fn fill(&mut self, piece: &[u8]) -> Result<()> {
        for number in 0..FILE_BYTES / piece.len() as u64 {
            self.write(number * piece.len() as u64, piece)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        match self {
            Self::Files { file, .. } => file.write_all_at(data, offset).doing("write"),
            Self::Library { user, file } => {
                block_on(user.write_at(file, offset, data, false)).doing("write")
            }
        }
    }

    fn work(&mut self, call: Call, number: u64, buffer: &mut [u8]) -> Result<()> {
        let buffer = &mut buffer[..call.bytes()];
        let offset = number * buffer.len() as u64 % FILE_BYTES;
        match (self, call) {
            (hand, Call::Write(_)) => hand.write(offset, buffer),
            (Self::Files { file, .. }, Call::Read(_)) => {
                file.read_exact_at(buffer, offset).doing("read")
            }
            (Self::Library { user, file }, Call::Read(_)) => {
                block_on(user.read_at(file, offset, buffer)).doing("read").map(drop)
            }
            (Self::Files { path, .. }, Call::Open) => File::open(path).doing("open").map(drop),
            (Self::Files { path, .. }, Call::Stat) => {
                std::fs::metadata(path).doing("stat").map(drop)
            }
            (Self::Files { absent, .. }, Call::Absent) => match absent.try_exists() {
                Ok(false) => Ok(()),
                found => Err(Error::Wrong(format!("{} is there: {found:?}", absent.display()))),
            },
            (Self::Library { .. }, _) => {
                Err(Error::Wrong("the library is only read and written".into()))
            }
        }
    }
}

fn parse(line: &str) -> Option<(u64, u64)> {
    let (operations, ns) = line.split_once(' ')?;
    Some((operations.parse().ok()?, ns.parse().ok()?))
}

const PREFIX: &str = "/pvfs";
const BATCH: u32 = 8;
const MIB: f64 = (1 << 20) as f64;

/// More than processor caches hold, less than takes long to write.
const FILE_BYTES: u64 = 32 << 20;
