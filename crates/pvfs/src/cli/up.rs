//! `pvfs up`: a whole file system on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pvfs_client::{Options, block_on};
use pvfs_config::{ByteSize, Cluster};
use pvfs_wire::ops::Ping;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::context::Context;
use crate::cli::down;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place::mounts;
use crate::connected::{Connected, failure};
use crate::daemon::make_directory;
use crate::local::{LocalCluster, LocalProcess, Started, Wishes, absolute, is_same, is_stopped};
use crate::mounted;
use crate::show::count;

/// Start a file system on this machine, and mount it
///
/// One manager and several iods run in the background, with everything they need in one directory:
/// the cluster file, the key, stores, logs. Started again in the same directory, the file system is
/// as it was; a mount whose process died is made anew. Without root or FUSE it runs all the same,
/// without the mount, and says so.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where everything is kept
    /// [default: that of the cluster file which --config or PVFS_CONFIG names; else ./.pvfs]
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Number of iods of a new file system; it never changes afterwards [default: 4]
    #[arg(long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub iods: Option<u32>,
    /// First TCP port to try for a new file system; the daemons take the free ones from there, and keep them
    #[arg(long, value_name = "PORT", default_value_t = 7000)]
    pub port: u16,
    /// Strip size of the files of a new file system [default: 64K]
    #[arg(short, long, value_name = "SIZE")]
    pub ssize: Option<ByteSize>,
    /// Where to mount it [default: DIRECTORY/mnt]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub mount: Option<PathBuf>,
    /// Do not mount it
    #[arg(long, conflicts_with = "mount")]
    pub no_mount: bool,
    /// Stay in the foreground and stop everything at the end
    #[arg(short, long)]
    pub foreground: bool,
}

const EXAMPLES: &str = "\
Examples:
  Start in ./.pvfs with four iods, mounted at ./.pvfs/mnt:
    pvfs up
  Eight iods in a directory of one's own, mounted elsewhere:
    pvfs up /data/try --iods 8 --mount /scratch
  Without a mount; pvfs ls, cp and the others still work:
    pvfs up --no-mount";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let local = LocalCluster::meant(args.directory.as_deref(), context.chosen_config())?;
    if !local.exists() {
        let iods = args.iods.unwrap_or(IODS);
        local.create(&Wishes { iods, port: args.port, ssize: args.ssize })?;
    }
    let cluster = local.load()?;
    refuse_other_iods(&local, &cluster, args.iods)?;
    refuse_other_strips(&local, &cluster, args.ssize)?;
    // A manager that finds its iods silent complains of them until it looks again.
    start_all(&local, &cluster, "iod")?;
    start_all(&local, &cluster, "mgr")?;
    let mount = if args.no_mount { None } else { mounted(&local, args, context)? };
    report(&local, &cluster, mount.as_deref(), context)?;
    if args.foreground { stay(&local, args, context) } else { Ok(()) }
}

/// Files lie on the iods they were made on, so a file system keeps those it has.
fn refuse_other_iods(
    local: &LocalCluster,
    cluster: &Cluster,
    wished: Option<u32>,
) -> Result<(), Failure> {
    let iods = cluster.iods.len();
    if wished.is_none_or(|wished| wished as usize == iods) {
        return Ok(());
    }
    let sentence = format!(
        "the file system in {} has {}, and their number cannot change; leave --iods out, or give \
         another directory",
        local.root().display(),
        count(iods as u64, "iod")
    );
    Err(Failure::new(Exit::Usage, sentence))
}

/// What is written in the cluster file holds for all who use it.
fn refuse_other_strips(
    local: &LocalCluster,
    cluster: &Cluster,
    wished: Option<ByteSize>,
) -> Result<(), Failure> {
    let ssize = cluster.defaults.ssize;
    if wished.is_none_or(|wished| wished == ssize) {
        return Ok(());
    }
    let sentence = format!(
        "new files of the file system in {} have strips of {ssize}; leave --ssize out, and use \
         pvfs stripe set for a directory or write defaults.ssize into {} for all",
        local.root().display(),
        local.config().display()
    );
    Err(Failure::new(Exit::Usage, sentence))
}

/// Starts all daemons of a role at once, and waits until each of them answers.
fn start_all(local: &LocalCluster, cluster: &Cluster, role: &str) -> Result<(), Failure> {
    let daemons = LocalCluster::daemons(cluster).into_iter();
    let started = daemons
        .filter(|process| process.role == role)
        .map(|process| start(local, cluster, &process).map(|started| (process, started)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let mut options = Options::of(cluster).named("pvfs up");
    options.status_timeout = PING_TIME;
    let connected = Connected::with(cluster.clone(), options)?;
    started
        .into_iter()
        .try_for_each(|(process, started)| wait_for(local, &connected, &process, started))
}

fn start(
    local: &LocalCluster,
    cluster: &Cluster,
    process: &LocalProcess,
) -> Result<Started, Failure> {
    local.start(process, &daemon_arguments(cluster, process)?)
}

/// A store that is not there yet is made; one that is there is never touched.
fn daemon_arguments(cluster: &Cluster, process: &LocalProcess) -> Result<Vec<String>, Failure> {
    let server = match process.role {
        "mgr" => cluster.manager(&process.name)?,
        _ => cluster.iod(&process.name)?.1,
    };
    let is_new = fs::read_dir(&server.store).map_or(true, |mut entries| entries.next().is_none());
    let mut arguments = vec!["--name".into(), process.name.clone()];
    arguments.extend(is_new.then(|| "--format".into()));
    Ok(arguments)
}

fn wait_for(
    local: &LocalCluster,
    connected: &Connected,
    process: &LocalProcess,
    mut started: Started,
) -> Result<(), Failure> {
    let filesystem = connected.user.filesystem();
    let mut servers = filesystem.iods().iter().chain([filesystem.manager()]);
    let server = servers.find(|server| server.name() == process.name);
    let server = server.expect("every daemon of the cluster file is a server");
    let until = Instant::now() + START_TIME;
    while let Err(error) = block_on(connected.user.inquire(server, &Ping {})) {
        match (local.has_ended(process, &mut started), &started) {
            (true, Started::Before) => started = start(local, &connected.cluster, process)?,
            (true, Started::Now(_)) => return Err(not_started(local, process)),
            // Asking again would only end in a lockout.
            (false, _) if error.is_refusal() => {
                return Err(failure(format!("cannot use {}", process.name), &error.into()));
            }
            (false, _) if Instant::now() > until => return Err(silent(local, process)),
            (false, _) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    Ok(())
}

fn not_started(local: &LocalCluster, process: &LocalProcess) -> Failure {
    let words = local.last_words(process);
    let sentence = format!("{} did not start; its log ends with:\n{words}", process.name);
    Failure::new(Exit::Failed, sentence)
}

/// It runs, so that its log says nothing of why it does not answer.
fn silent(local: &LocalCluster, process: &LocalProcess) -> Failure {
    let name = &process.name;
    let Some(pid) = local.pid(process) else { return not_started(local, process) };
    let advice = match is_stopped(pid) {
        true => format!("it was stopped by a signal: kill -CONT {pid} lets it go on"),
        false => "end it with pvfs down --now, then try again".into(),
    };
    let seconds = START_TIME.as_secs();
    let sentence =
        format!("{name} runs (process {pid}), but did not answer within {seconds} s; {advice}");
    Failure::new(Exit::Unreachable, sentence)
}

/// Mounts it where that is possible here; says why where it is not, which is no failure.
fn mounted(
    local: &LocalCluster,
    args: &Args,
    context: &Context,
) -> Result<Option<PathBuf>, Failure> {
    let directory = args.mount.as_deref().map_or(Ok(local.mount_point()), absolute)?;
    let is_mounted = || mounts().iter().any(|mount| is_same(&mount.directory, &directory));
    if is_mounted() && !is_taken_away_if_dead(&directory, context)? {
        return Ok(Some(directory));
    }
    if !Path::new("/dev/fuse").exists() {
        context.note("not mounted: this machine has no /dev/fuse; pvfs ls, cp and the others work");
        return Ok(None);
    }
    make_directory(&directory)?;
    let process = LocalProcess { role: "mount", name: "mount".into() };
    let arguments = ["--foreground".into(), directory.display().to_string()];
    let mut started = local.start(&process, &arguments)?;
    let until = Instant::now() + START_TIME;
    while Instant::now() < until && !local.has_ended(&process, &mut started) {
        if is_mounted() {
            return Ok(Some(directory));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let words = local.last_words(&process);
    context.note(format!("not mounted ({words}); pvfs ls, cp and the others work without it"));
    Ok(None)
}

/// A mount whose process was killed is worth nothing any more.
fn is_taken_away_if_dead(directory: &Path, context: &Context) -> Result<bool, Failure> {
    if !mounted::is_dead(directory) {
        return Ok(false);
    }
    mounted::take_away(directory).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    context.note(format!("the mount on {} was dead and is made anew", directory.display()));
    Ok(true)
}

fn report(
    local: &LocalCluster,
    cluster: &Cluster,
    mount: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let iods = cluster.iods.len();
    let value = json!({
        "config": local.config(), "manager": cluster.managers[0].name, "iods": iods, "mount": mount,
    });
    let place =
        mount.map_or("not mounted".into(), |mount| format!("mounted on {}", mount.display()));
    let text = format!(
        "{} is up: 1 manager, {}, {place}\ncluster file: {}",
        cluster.filesystem().name,
        count(iods as u64, "iod"),
        local.config().display()
    );
    context.outcome(&value, text)
}

/// Waits for a signal, then stops everything.
fn stay(local: &LocalCluster, args: &Args, context: &Context) -> Result<(), Failure> {
    let signals = Signals::new([SIGTERM, SIGINT]);
    let mut signals = signals.map_err(|error| Failure::io("cannot listen to signals", &error))?;
    context.note("press Ctrl-C to stop it");
    signals.forever().next();
    let down = down::Args { directory: args.directory.clone(), now: false, remove: false };
    down::stop_all(local, &down, context)
}

/// Number of iods unless told otherwise.
const IODS: u32 = 4;
/// How long a daemon may take to answer for the first time.
const START_TIME: Duration = Duration::from_secs(15);
const PING_TIME: Duration = Duration::from_millis(500);
