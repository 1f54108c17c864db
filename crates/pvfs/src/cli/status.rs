//! `pvfs status`: is everything well.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pvfs_client::block_on;
use pvfs_net::call::CallError;
use pvfs_net::runtime::all;
use pvfs_wire::ops::{Status, StatusReport};
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::Connected;
use crate::local::LocalCluster;
use crate::mounted;
use crate::order::word;
use crate::show;
use crate::show::human_bytes;

/// Show the state of the file system and of every daemon
///
/// OK, DEGRADED (an iod is down), READONLY, DOWN or REFUSED (daemons are up, but do not let us in),
/// then a line for each daemon: state, time since its start, space; with -v all its figures.
/// Answers within 3 s, whatever is down. The exit code is 0 for OK, 3 for DEGRADED and READONLY, 4
/// for DOWN, 5 for REFUSED; a mount of this machine whose process has ended is named, and makes it 3.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Wait so long (such as 30s) for the state OK
    #[arg(long, value_name = "TIME", value_parser = pvfs_config::parse_duration)]
    pub wait: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  Look once:
    pvfs status
  In a start script, wait until all is well, a minute at most:
    pvfs status --wait 1m
  For a program:
    pvfs status --json";

/// The whole picture.
#[derive(Serialize)]
struct Picture {
    filesystem: String,
    state: &'static str,
    config: String,
    /// Where this machine has it mounted.
    mount: Option<String>,
    /// Where it has mounts whose processes have ended.
    dead_mounts: Vec<String>,
    servers: Vec<Row>,
}

/// One daemon.
#[derive(Serialize)]
struct Row {
    name: String,
    role: String,
    state: &'static str,
    reason: String,
    version: String,
    uptime_s: Option<u64>,
    figures: std::collections::BTreeMap<String, u64>,
}

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connected = Connected::new(context, None)?;
    let until = Instant::now() + args.wait.unwrap_or_default();
    let mut picture = look(&connected);
    while picture.state != "OK" && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(200));
        picture = look(&connected);
    }
    let text = picture.text(context.verbose() > 0);
    context.report(&picture, text)?;
    match picture.state {
        "OK" if picture.dead_mounts.is_empty() => Ok(()),
        "DOWN" => {
            advise(&connected, &picture, context);
            Err(Failure::told(Exit::Unreachable))
        }
        "REFUSED" => Err(Failure::told(Exit::Denied)),
        _ => Err(Failure::told(Exit::Partial)),
    }
}

/// Whoever made the file system with `pvfs up` starts it so, too.
fn advise(connected: &Connected, picture: &Picture, context: &Context) {
    let made = LocalCluster::of_config(&connected.cluster.path);
    if let Ok(Some(local)) = made
        && picture.servers.iter().all(|row| row.state == "DOWN")
    {
        let sentence = format!("no daemon runs; pvfs up {} starts them", local.root().display());
        context.note(sentence);
    }
}

/// Asks every daemon at once, within the time for status.
fn look(connected: &Connected) -> Picture {
    let filesystem = connected.user.filesystem();
    let servers: Vec<_> = [filesystem.manager()].into_iter().chain(filesystem.iods()).collect();
    let asked = servers.iter().map(|server| connected.user.inquire(*server, &Status {}));
    let answers = block_on(all(asked));
    let rows: Vec<Row> = servers
        .iter()
        .zip(answers)
        .map(|(server, answer)| Row::new(server.name(), answer))
        .collect();
    let config = connected.cluster.path.display().to_string();
    let mounts = mounted::directories(&connected.cluster).into_iter();
    let (dead, live): (Vec<_>, Vec<_>) = mounts.partition(|directory| mounted::is_dead(directory));
    let shown = |directory: &PathBuf| directory.display().to_string();
    Picture {
        filesystem: connected.cluster.filesystem().name.clone(),
        state: state_of_all(&rows),
        mount: live.first().map(shown),
        dead_mounts: dead.iter().map(shown).collect(),
        config,
        servers: rows,
    }
}

/// DOWN without the manager or any iod, REFUSED where it is they who do not want us, DEGRADED when some daemon is
/// not well, else OK.
fn state_of_all(rows: &[Row]) -> &'static str {
    let (manager, iods) = rows.split_first().expect("there is a manager");
    for state in ["DOWN", "REFUSED"] {
        if manager.state == state || iods.iter().all(|iod| iod.state == state) {
            return state;
        }
    }
    if rows.iter().any(|row| matches!(row.state, "DOWN" | "REFUSED" | "DEGRADED")) {
        return "DEGRADED";
    }
    if rows.iter().any(|row| row.state == "READONLY") { "READONLY" } else { "OK" }
}

impl Row {
    fn new(name: &str, answer: Result<StatusReport, CallError>) -> Self {
        match answer {
            Ok(report) => Self {
                name: report.name,
                role: report.role,
                state: word(report.state),
                reason: report.reason,
                version: report.version,
                uptime_s: Some(report.uptime_s),
                figures: report.figures.into_iter().collect(),
            },
            Err(error) => Self {
                name: name.into(),
                role: String::new(),
                state: if error.is_refusal() { "REFUSED" } else { "DOWN" },
                reason: error.event(),
                version: String::new(),
                uptime_s: None,
                figures: std::collections::BTreeMap::new(),
            },
        }
    }
}

impl Row {
    /// What there is for data, of a daemon that keeps some.
    fn space(&self) -> Option<String> {
        let size = *self.figures.get("store_size_bytes")?;
        let available = *self.figures.get("store_available_bytes")?;
        let warning = if available < size / SHARE_LEFT_OF_FULL { ", its disk is full" } else { "" };
        Some(format!("  {} of {} free{warning}", human_bytes(available), human_bytes(size)))
    }
}

impl Picture {
    fn text(&self, with_figures: bool) -> String {
        let mut text = format!("{}: {}", self.filesystem, self.state);
        if let Some(mount) = &self.mount {
            text += &format!(", mounted on {mount}");
        }
        for dead in &self.dead_mounts {
            text += &format!(
                "\nthe mount on {dead} is dead, its process has ended: pvfs up makes its own anew; any other \
                 pvfs umount {dead} takes away"
            );
        }
        for row in &self.servers {
            let uptime = row.uptime_s.map_or("-".into(), show::duration);
            text += &format!("\n{:<10} {:<8} {:<9} up {uptime}", row.name, row.role, row.state);
            text += &row.space().unwrap_or_default();
            if !row.reason.is_empty() {
                text += &format!("  {}", row.reason);
            }
            let figures = row.figures.iter().filter(|_| with_figures);
            figures.for_each(|(name, value)| text += &format!("\n    {name:<34} {value}"));
        }
        text
    }
}

/// With less than one part of so many left, a disk is called full: what is striped over it soon does not fit any more.
const SHARE_LEFT_OF_FULL: u64 = 100;
