//! The command tree: which commands there are and which flags all of them take.
//!
//! ```text
//! argv --[alias]--> argv of pvfs --[clap]--> Command --[run]--> Result<(), Failure> --[exit]--> code
//! ```
//!
//! A command is one file under `cli/`: its arguments with their help, and `run`. Help is written
//! there, once: completions, man pages and `--help` all come from it.

pub mod agent;
mod alias;
pub mod bench;
pub mod cat;
pub mod check_binary;
pub mod completions;
pub mod context;
pub mod cp;
pub mod deny;
pub mod df;
pub mod down;
pub mod estop;
pub mod exit;
pub mod genconfig;
pub mod iod;
pub mod ls;
pub mod man;
pub mod mgr;
pub mod mkdir;
pub mod mount;
pub mod mpirun;
pub mod mv;
pub mod ping;
pub mod place;
pub mod resume;
pub mod rm;
pub mod run;
pub mod sessions;
pub mod stat;
pub mod status;
pub mod stop;
pub mod stripe;
pub mod striping;
pub mod sum;
pub mod umount;
pub mod up;
pub mod version;

#[cfg(test)]
mod teaching;

use clap::{Args, Parser, Subcommand};
use context::Context;
use exit::Failure;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// A parallel virtual file system for Linux clusters.
///
/// One name space over many nodes: every file is striped over I/O daemons (iods), a manager (mgr)
/// keeps names and attributes, and clients talk to the daemons directly. `pvfs up` starts a whole
/// file system on this machine; `pvfs genconfig` describes one on a cluster.
///
/// Paths in the file system are written pvfs:/dir/file; a path below a mount works as it is. Sizes
/// are bytes, or have K, M, G or T (1024, 1024^2, ...). Times have ms, s, m or h. Names are bytes;
/// JSON is UTF-8, and has U+FFFD in place of what is not.
#[derive(Debug, Parser)]
#[command(name = "pvfs", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to do it.
    #[command(flatten)]
    pub global: Global,
}

/// Flags every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The cluster file [default: $PVFS_CONFIG, then ./.pvfs/cluster.toml,
    /// ~/.config/pvfs/cluster.toml, /etc/pvfs/cluster.toml]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Print results, and errors, as JSON
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Print results and errors only
    #[arg(short, long, global = true, help_heading = "Global options")]
    #[arg(conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more about what is being done; twice: much more
    #[arg(short, long, global = true, help_heading = "Global options")]
    #[arg(action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Every command; each is described by its arguments.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a comment here would replace the help of the arguments")]
pub enum Command {
    Up(up::Args),
    Down(down::Args),
    Mount(mount::Args),
    Umount(umount::Args),
    Ls(ls::Args),
    Stat(stat::Args),
    Cp(cp::Args),
    Mv(mv::Args),
    Rm(rm::Args),
    Mkdir(mkdir::Args),
    Cat(cat::Args),
    Sum(sum::Args),
    Run(run::Args),
    Mpirun(mpirun::Args),
    CheckBinary(check_binary::Args),
    Stripe(stripe::Args),
    Df(df::Args),
    Status(status::Args),
    Sessions(sessions::Args),
    Ping(ping::Args),
    Bench(bench::Args),
    Stop(stop::Args),
    Estop(estop::Args),
    Resume(resume::Args),
    Deny(deny::Args),
    Genconfig(genconfig::Args),
    Mgr(mgr::Args),
    Iod(iod::Args),
    Agent(agent::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
}

const EXAMPLES: &str = "\
Examples:
  Start a file system on this machine and mount it:
    pvfs up
  Copy a directory in, look at it, see how a file lies on the iods:
    pvfs cp -r data pvfs:/data
    pvfs ls -l pvfs:/data
    pvfs stat pvfs:/data/big.h5
  Learn more about a command:
    pvfs cp --help
    pvfs man cp

Exit codes:
  0 done   1 failed   2 wrong usage or configuration   3 done in part
  4 a server is unreachable or too slow   5 permission denied";

/// Runs a whole command line, the program's name first.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = alias::translate(arguments.collect());
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => exit::finish(&run(cli.command, &Context::new(&cli.global)), cli.global.json),
        Err(error) => exit::misused(&error, &arguments),
    }
}

/// The command line of this process, as `pvfs` itself would have been given it.
pub(crate) fn arguments() -> Vec<OsString> {
    alias::translate(std::env::args_os().collect())
}

fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Up(args) => up::run(&args, context),
        Command::Down(args) => down::run(&args, context),
        Command::Mount(args) => mount::run(&args, context),
        Command::Umount(args) => umount::run(&args, context),
        Command::Ls(args) => ls::run(&args, context),
        Command::Stat(args) => stat::run(&args, context),
        Command::Cp(args) => cp::run(&args, context),
        Command::Mv(args) => mv::run(&args, context),
        Command::Rm(args) => rm::run(&args, context),
        Command::Mkdir(args) => mkdir::run(&args, context),
        Command::Cat(args) => cat::run(&args, context),
        Command::Sum(args) => sum::run(&args, context),
        Command::Run(args) => run::run(&args, context),
        Command::Mpirun(args) => mpirun::run(&args, context),
        Command::CheckBinary(args) => check_binary::run(&args, context),
        Command::Stripe(args) => stripe::run(&args, context),
        Command::Df(args) => df::run(&args, context),
        Command::Status(args) => status::run(&args, context),
        Command::Sessions(args) => sessions::run(&args, context),
        Command::Ping(args) => ping::run(&args, context),
        Command::Bench(args) => bench::run(&args, context),
        Command::Stop(args) => stop::run(&args, context),
        Command::Estop(args) => estop::run(&args, context),
        Command::Resume(args) => resume::run(&args, context),
        Command::Deny(args) => deny::run(&args, context),
        Command::Genconfig(args) => genconfig::run(&args, context),
        Command::Mgr(args) => mgr::run(&args, context),
        Command::Iod(args) => iod::run(&args, context),
        Command::Agent(args) => agent::run(&args, context),
        Command::Completions(args) => completions::run(&args, context),
        Command::Man(args) => man::run(&args, context),
        Command::Version(args) => version::run(&args, context),
    }
}
