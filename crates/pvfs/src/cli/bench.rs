//! `pvfs bench`: how fast it is, next to how fast this machine could be.

pub mod bare_server;
pub mod io;
pub mod meta;
pub mod mounted;
pub mod mpi;
pub mod parallel;
pub mod preload;
pub mod preloaded;

use crate::bench::testbed::Testbed;
use crate::bench::{self, Effort, Row, row};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Measure bandwidth and rates, next to this machine's limits
///
/// Every figure is measured in turns with the raw limit of the same machine (a bare socket program,
/// a bare file system) in the same run, and printed with their ratio and the CPU seconds it cost,
/// because wall times alone say little on a busy machine.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    pub what: What,
}

/// What can be measured; each is described by its arguments.
#[derive(Clone, Debug, clap::Subcommand)]
#[allow(missing_docs, reason = "a comment here would replace the help of the arguments")]
pub enum What {
    Io(io::Args),
    Meta(meta::Args),
    Mpi(mpi::Args),
    Parallel(parallel::Args),
    Preload(preload::Args),
    #[command(hide = true)]
    BareServer(bare_server::Args),
    #[command(hide = true)]
    Mounted(mounted::Args),
    #[command(hide = true)]
    Preloaded(preloaded::Args),
}

/// What all kinds take.
#[derive(clap::Args, Clone, Debug)]
pub struct Wishes {
    /// Fewer rows and shorter turns: done within a minute
    #[arg(long)]
    pub quick: bool,
    /// Only rows whose name has this text in it; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    pub rows: Option<String>,
    /// Say which rows there are, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Turns of each side per row; the median counts [default: 7, with --quick 5]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// Where the stores of the file system made for the purpose lie, and the bare files
    /// [default: a tmpfs with huge pages, mounted for the purpose]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Measure the file system of --config, which runs, instead of one made for the purpose
    #[arg(long)]
    pub existing: bool,
    /// Also write the result here with every single turn, the command and the date
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub record: Option<PathBuf>,
}

impl Wishes {
    fn effort(&self) -> Result<Effort, Failure> {
        let (runs, turn_ms) = if self.quick { (5, 60) } else { (7, 250) };
        Ok(Effort {
            runs: self.runs.unwrap_or(runs),
            turn: Duration::from_millis(turn_ms),
            quick: self.quick,
            rows: self.rows.clone(),
            interrupted: interrupted()?,
        })
    }

    /// The names of the rows, for those who asked; fails when there are none.
    fn chosen(&self, names: &[String], context: &Context) -> Result<bool, Failure> {
        if names.is_empty() {
            return Err(bench::Error::NoRow(self.rows.clone().unwrap_or_default()).into());
        }
        if self.list {
            context.report(&names, names.join("\n"))?;
        }
        Ok(!self.list)
    }

    fn testbed(&self, context: &Context) -> Result<Testbed, Failure> {
        let running = self.existing.then(|| context.cluster()).transpose()?;
        let testbed = Testbed::prepare(running, self.dir.as_deref())?;
        context.note(format!("stores and bare files in {}", testbed.place().describe()));
        if cfg!(debug_assertions) {
            context.note("this program was built without optimisation: the ratios mean nothing");
        }
        Ok(testbed)
    }

    fn report(&self, rows: &[Row], context: &Context) -> Result<(), Failure> {
        if let Some(path) = &self.record {
            let text = serde_json::to_string_pretty(&record(rows)).expect("keys are strings");
            std::fs::write(path, text + "\n").map_err(|error| {
                Failure::io(&format!("cannot write {}", path.display()), &error)
            })?;
        }
        context.report(&rows, row::table(rows))
    }
}

/// Becomes true when the user or the system wants this to end: there are daemons and a mount to put away.
fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| Failure::io("cannot listen to signals", &error))?;
    }
    Ok(interrupted)
}

/// What result files keep: how and when it was measured, on what, and every turn.
fn record(rows: &[Row]) -> serde_json::Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let command: Vec<String> = std::env::args().skip(1).collect();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "unix_time": now,
        "command": format!("pvfs {}", command.join(" ")),
        "version": env!("CARGO_PKG_VERSION"),
        "kernel": kernel.trim(),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "rows": rows.iter().map(Row::recorded).collect::<Vec<_>>(),
    })
}

impl From<bench::Error> for Failure {
    fn from(error: bench::Error) -> Self {
        match error {
            bench::Error::Config(error) => error.into(),
            bench::Error::NoRow(_) => Self::new(Exit::Usage, error.to_string()),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  Every kind, within a minute each:
    pvfs bench io --quick
    pvfs bench meta --quick
    pvfs bench mpi --quick
    pvfs bench parallel --quick";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.what {
        What::Io(args) => io::run(args, context),
        What::Meta(args) => meta::run(args, context),
        What::Mpi(args) => mpi::run(args, context),
        What::Parallel(args) => parallel::run(args, context),
        What::Preload(args) => preload::run(args, context),
        What::Preloaded(args) => preloaded::run(args, context),
        What::BareServer(args) => bare_server::run(args),
        What::Mounted(args) => mounted::run(args, context),
    }
}
