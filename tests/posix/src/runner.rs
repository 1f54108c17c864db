//! Runs cases, each in a process and a directory of its own, and tells how they went.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Case, cases, library};

/// How a case went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// As it should.
    Kept,
    /// It takes root, which we are not.
    Skipped,
    /// The library of the place does not have this call.
    SetAside(String),
    /// Otherwise; what it said.
    Broken(String),
}

/// Where cases run: a directory, and what the processes that see it there need in their environment.
#[derive(Clone, Debug)]
pub struct Place {
    /// What the table calls it.
    pub name: String,
    /// In it each case makes a directory of its own.
    pub directory: PathBuf,
    /// Variables of the processes that are cases.
    pub environment: Vec<(OsString, OsString)>,
}

impl From<PathBuf> for Place {
    /// A directory that every program sees.
    fn from(directory: PathBuf) -> Self {
        Self { name: directory.display().to_string(), directory, environment: Vec::new() }
    }
}

/// How all cases went in some places.
pub struct Table {
    places: Vec<Place>,
    rows: Vec<(Case, Vec<Outcome>)>,
}

/// What a process of [`Table::run`] does first: if it was started to be a case, it is that case and ends.
/// Whoever runs tables calls this at the beginning of `main`.
pub fn run_case_if_asked() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, flag, path, directory] = &arguments[..] else { return };
    if flag == CLEAR_FLAG {
        let cleared = crate::sys::clear(directory);
        std::process::exit(i32::from(cleared.is_err()));
    }
    if flag != CASE_FLAG {
        return;
    }
    let Some(case) = cases::all().find(|case| case.path() == *path) else {
        eprintln!("no case {path}");
        std::process::exit(2);
    };
    crate::sys::umask(0o022);
    if let Err(errno) = crate::sys::enter(directory) {
        eprintln!("{directory} cannot be made and entered: {errno}");
        std::process::exit(2);
    }
    std::process::exit(library::status(std::panic::catch_unwind(case.run)));
}

impl Table {
    /// Runs every case whose path contains `only`, in each place.
    pub fn run(only: &str, places: &[Place]) -> Self {
        let chosen: Vec<Case> = cases::all().filter(|case| case.path().contains(only)).collect();
        let next = AtomicUsize::new(0);
        let rows = Mutex::new(vec![Vec::new(); chosen.len()]);
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = chosen.get(index) else { return };
                        let outcomes = places.iter().map(|place| run(case, place)).collect();
                        rows.lock().expect("no case panics here")[index] = outcomes;
                    }
                });
            }
        });
        let rows = rows.into_inner().expect("no case panics here");
        Self { places: places.to_vec(), rows: chosen.into_iter().zip(rows).collect() }
    }

    /// The cases that are not kept in the place of this position, with what they said.
    pub fn broken(&self, place: usize) -> Vec<(String, String)> {
        let broken = |(case, outcomes): &(Case, Vec<Outcome>)| match &outcomes[place] {
            Outcome::Broken(why) => Some((case.path(), why.clone())),
            _ => None,
        };
        self.rows.iter().filter_map(broken).collect()
    }

    /// The cases that are set aside in the place of this position, each with the call that it lacks there.
    pub fn set_aside(&self, place: usize) -> Vec<(String, String)> {
        let aside = |(case, outcomes): &(Case, Vec<Outcome>)| match &outcomes[place] {
            Outcome::SetAside(call) => Some((case.path(), call.clone())),
            _ => None,
        };
        self.rows.iter().filter_map(aside).collect()
    }

    /// Whether every case that could be run is kept everywhere.
    pub fn is_all_kept(&self) -> bool {
        (0..self.places.len()).all(|place| self.broken(place).is_empty())
    }
}

/// Counts by area, then every case that is broken somewhere, then those set aside, by the call that they lack.
impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, place) in self.places.iter().enumerate() {
            writeln!(out, "[{}] {}", index + 1, place.name)?;
        }
        let mut areas: Vec<&str> = self.rows.iter().map(|(case, _)| case.area).collect();
        areas.dedup();
        for area in areas {
            let rows = || self.rows.iter().filter(|(case, _)| case.area == area);
            write!(out, "{area:<14} {:>4} cases", rows().count())?;
            for index in 0..self.places.len() {
                let kept = rows().filter(|(_, went)| went[index] == Outcome::Kept).count();
                let broken = rows().filter(|(_, went)| is_broken(&went[index])).count();
                let aside = rows().filter(|(_, went)| is_set_aside(&went[index])).count();
                write!(out, "   [{}] {kept:>3} kept {broken:>3} broken", index + 1)?;
                if !self.set_aside(index).is_empty() {
                    write!(out, " {aside:>3} aside")?;
                }
            }
            writeln!(out)?;
        }
        for (case, outcomes) in &self.rows {
            for (index, outcome) in outcomes.iter().enumerate() {
                if let Outcome::Broken(why) = outcome {
                    writeln!(out, "[{}] {}: {}", index + 1, case.path(), why.trim())?;
                }
            }
        }
        for index in 0..self.places.len() {
            let mut lacking: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (case, call) in self.set_aside(index) {
                lacking.entry(call).or_default().push(case);
            }
            for (call, cases) in lacking {
                let (count, cases) = (cases.len(), cases.join(", "));
                writeln!(out, "[{}] set aside for want of {call}: {count}: {cases}", index + 1)?;
            }
        }
        Ok(())
    }
}

fn is_set_aside(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::SetAside(_))
}

fn is_broken(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Broken(_))
}

fn run(case: &Case, place: &Place) -> Outcome {
    if case.needs_root && !nix::unistd::geteuid().is_root() {
        return Outcome::Skipped;
    }
    let name = format!("case-{}-{}-{}", std::process::id(), case.area, case.name);
    let own = place.directory.join(name);
    let outcome = run_in(case, place, &own);
    if let Ok(mut clearing) = myself(CLEAR_FLAG, case, place, &own).and_then(|mut it| it.spawn()) {
        wait(&mut clearing);
    }
    outcome
}

/// This program again, to do something about a case in a directory that this process may not see.
fn myself(flag: &str, case: &Case, place: &Place, own: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(flag).arg(case.path()).arg(own).envs(place.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env_remove("RUST_BACKTRACE");
    Ok(command)
}

/// What it says goes to a file and not to a pipe, which would stay open as long as any child of it lives.
fn run_in(case: &Case, place: &Place, own: &Path) -> Outcome {
    let said = std::env::temp_dir().join(format!(
        "pvfs-case-{}-{:x}",
        std::process::id(),
        spread(own.as_os_str().as_encoded_bytes())
    ));
    let started = File::create(&said).and_then(|stderr| {
        let mut command = myself(CASE_FLAG, case, place, own)?;
        command.stdout(stderr.try_clone()?).stderr(stderr).spawn()
    });
    let status = match started {
        Ok(mut child) => wait(&mut child),
        Err(error) => return Outcome::Broken(format!("cannot be started: {error}")),
    };
    let words = fs::read_to_string(&said).unwrap_or_default();
    let _ = fs::remove_file(&said);
    match status {
        Some(status) if status.success() => Outcome::Kept,
        Some(status) if status.code() == Some(library::SET_ASIDE_STATUS) => {
            let call = words.lines().find_map(|line| line.strip_prefix(library::SET_ASIDE));
            Outcome::SetAside(call.expect("it says for want of what").to_owned())
        }
        Some(status) => Outcome::Broken(format!("{} ({status})", in_short(&words))),
        None => Outcome::Broken(format!("{} (not over in {:?})", in_short(&words), limit())),
    }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + limit();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Without the lines that only name threads and variables.
fn in_short(words: &str) -> String {
    let useful = |line: &&str| !line.starts_with("note: ") && !line.is_empty();
    words.lines().filter(useful).collect::<Vec<_>>().join(" | ")
}

/// FNV-1a, so that every case has a file of its own.
fn spread(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

const CASE_FLAG: &str = "--run-this-case";
const CLEAR_FLAG: &str = "--clear-up-after-this-case";

/// How long a case may take. More seeds take longer.
fn limit() -> Duration {
    LIMIT + LIMIT_PER_SEED * seeds() as u32
}

/// How many seeds the random cases are to be run with.
pub fn seeds() -> u64 {
    let asked = std::env::var("PVFS_SEEDS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(4).min(100_000)
}

/// Far more than any case needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const LIMIT_PER_SEED: Duration = Duration::from_secs(20);

/// Cases are mostly waiting: for daemons, for clocks, for locks.
const AT_ONCE: usize = 4;
