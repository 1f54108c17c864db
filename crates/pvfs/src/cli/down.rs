//! `pvfs down`: stop what `pvfs up` started.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pvfs_config::Cluster;
use rustix::process::Signal;
use serde_json::json;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place::mounts;
use crate::local::{Ended, LocalCluster, LocalProcess};
use crate::mounted;

/// Stop the file system that `pvfs up` started
///
/// Unmounts it, lets the daemons finish what is under way (20 s at most) and waits for their end.
/// The files stay where they are, for the next `pvfs up`. Daemons that were started by hand are left
/// alone and named, and so are those of another user (exit code 5); then nothing is deleted either.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The directory given to `pvfs up`
    /// [default: that of the cluster file which --config or PVFS_CONFIG names; else ./.pvfs]
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Do not wait for what is under way; it fails
    #[arg(long)]
    pub now: bool,
    /// Delete the directory with all files in it afterwards
    #[arg(long)]
    pub remove: bool,
}

const EXAMPLES: &str = "\
Examples:
  Stop the file system of this directory:
    pvfs down
  Stop another one, and delete it with all its files:
    pvfs down /data/try --remove";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let local = LocalCluster::meant(args.directory.as_deref(), context.chosen_config())?;
    if !local.exists() {
        let sentence = format!(
            "no file system was made in {}; give the directory that was given to pvfs up",
            local.root().display()
        );
        return Err(Failure::new(Exit::Usage, sentence));
    }
    stop_all(&local, args, context)?;
    if args.remove {
        refuse_mounts_below(local.root())?;
        fs::remove_dir_all(local.root()).map_err(|error| {
            Failure::io(&format!("cannot delete {}", local.root().display()), &error)
        })?;
    }
    let done = if args.remove { "stopped and deleted" } else { "stopped" };
    let directory = local.root().display().to_string();
    let what = format!("{done} the file system of {directory}");
    let told = json!({ "stopped": true, "removed": args.remove, "directory": directory });
    context.outcome(&told, what)
}

/// To delete what is mounted there would be to delete the files of a file system that is up.
fn refuse_mounts_below(root: &Path) -> Result<(), Failure> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let Some(mount) = mounts().into_iter().find(|mount| mount.directory.starts_with(&root)) else {
        return Ok(());
    };
    let mount = mount.directory.display().to_string();
    let sentence = format!(
        "stopped, but nothing is deleted: {mount} is mounted there; pvfs umount {mount} first"
    );
    Err(Failure::new(Exit::Failed, sentence))
}

/// Unmounts, then stops the manager and the iods. What does not end by itself in time is killed, and said; what
/// is not ours to stop is a failure.
pub fn stop_all(local: &LocalCluster, args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = local.load()?;
    let (signal, patience) =
        if args.now { (Signal::KILL, KILL_TIME) } else { (Signal::TERM, STOP_TIME) };
    let mount = LocalProcess { role: "mount", name: "mount".into() };
    // The manager is the last to start and the first to stop: it purges from the iods.
    let daemons = LocalCluster::daemons(&cluster);
    let (mut killed, mut forbidden) = (Vec::new(), Vec::new());
    for process in [mount].into_iter().chain(daemons.into_iter().rev()) {
        match local.stop(&process, signal, patience) {
            Ended::ByItself => {}
            Ended::Killed => killed.push(process.name),
            Ended::Forbidden(pid) => forbidden.push(format!("{} (process {pid})", process.name)),
        }
    }
    // The mount of a process that was killed is still in the tree, and fails everything.
    for directory in mounted::directories(&cluster) {
        let _ = mounted::take_away(&directory);
    }
    if !killed.is_empty() {
        let sentence = format!("{} did not end in time and had to be killed", killed.join(", "));
        context.warn(&Failure::new(Exit::Partial, sentence));
    }
    refuse_running(&cluster, &forbidden)
}

fn refuse_running(cluster: &Cluster, forbidden: &[String]) -> Result<(), Failure> {
    if !forbidden.is_empty() {
        let sentence = format!(
            "cannot stop {}: permission denied; run pvfs down as the user who started the file system",
            forbidden.join(", ")
        );
        return Err(Failure::new(Exit::Denied, sentence));
    }
    let running = LocalCluster::using_stores(cluster);
    if running.is_empty() {
        return Ok(());
    }
    let sentence = format!(
        "still running, because they were started by hand: {}; end them with pvfs --config {} stop",
        running.join(", "),
        cluster.path.display()
    );
    Err(Failure::new(Exit::Failed, sentence))
}

/// A little more than daemons give themselves.
const STOP_TIME: Duration = Duration::from_secs(25);
const KILL_TIME: Duration = Duration::from_secs(2);
