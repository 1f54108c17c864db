//! `pvfs mount` as a process: it begins in the foreground, where failures are read, and goes on in the
//! background until it is unmounted or told to stop.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use pvfs_client::credentials::Issuer;
use pvfs_client::{Blocking, Filesystem, Options};
use pvfs_config::Cluster;
use pvfs_fuse::{MountError, MountOptions, Session};
use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::failure;
use crate::daemon::start_logging;

/// What is to be mounted where.
pub struct Plan {
    /// The cluster.
    pub cluster: Cluster,
    /// The mount point.
    pub directory: PathBuf,
    /// How.
    pub options: MountOptions,
}

/// Mounts, calls `ready`, and serves until the mount is gone.
pub fn serve(plan: &Plan, context: &Context, ready: impl FnOnce()) -> Result<(), Failure> {
    start_logging(&plan.cluster, context);
    raise_descriptor_limit();
    let issuer =
        Issuer::of(&plan.cluster).map_err(|error| failure("cannot get a session", &error))?;
    let filesystem = Filesystem::new(Blocking, &plan.cluster, client_options(plan));
    let filesystem = filesystem.map_err(|error| failure("cannot use the file system", &error))?;
    let mounted = pvfs_fuse::mount(filesystem, issuer, &plan.directory, plan.options.clone());
    let session = mounted.map_err(|error| mount_failure(&error))?;
    unmount_when_told(&session)?;
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    ready();
    tracing::info!(directory = %session.directory().display(), "mounted");
    let served = session.join();
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    served.map_err(|error| Failure::io("the mount ended", &error))
}

/// Starts this very command again in the background and waits until it has mounted, or failed and said so.
pub fn run_in_background(directory: &Path) -> Result<(), Failure> {
    let doing = format!("cannot mount {}", directory.display());
    let io = |error: io::Error| Failure::io(&doing, &error);
    let mut command = Command::new(std::env::current_exe().map_err(io)?);
    // By its own name again: it may have been called as mount.pvfs.
    command.args(background_arguments()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(io)?;
    let mut word = String::new();
    let output = child.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut word).map_err(io)?;
    if word.trim() == READY {
        return Ok(());
    }
    Err(Failure::told(exit_of(child.wait().map_err(io)?)))
}

/// Tells whoever waits for the mount, then lets go of the terminal and of its session.
pub fn detach_from_terminal(log: Option<&Path>) {
    let log = log.unwrap_or(Path::new("/dev/null"));
    let opened = OpenOptions::new().append(true).create(true).open(log);
    println!("{READY}");
    let _ = io::stdout().flush();
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    let Ok(log) = opened else { return };
    let _ = rustix::stdio::dup2_stdout(&log);
    let _ = rustix::stdio::dup2_stderr(&log);
}

fn background_arguments() -> Vec<std::ffi::OsString> {
    let arguments = crate::cli::arguments();
    arguments.into_iter().skip(1).chain(["--background".into()]).collect()
}

fn exit_of(status: ExitStatus) -> Exit {
    let known = |exit: &&Exit| status.code() == Some(i32::from(exit.code()));
    *Exit::ALL.iter().find(known).unwrap_or(&Exit::Failed)
}

/// A mount that waits for ever (`hard`) leaves it to signals to end that; sizes and space are never waited
/// for that long, so that `ls` and `df` answer within 3 s whatever an iod does.
fn client_options(plan: &Plan) -> Options {
    let mut options = Options::of(&plan.cluster).named("pvfs mount");
    options.status_timeout = options.status_timeout.min(STATUS_TIME);
    if plan.options.hard {
        options.data_timeout = FOR_EVER;
        options.metadata_timeout = FOR_EVER;
    }
    options
}

/// SIGTERM and SIGINT unmount. Files in use are served for a while longer; a second signal ends that too.
fn unmount_when_told(session: &Session) -> Result<(), Failure> {
    let signals = Signals::new([SIGTERM, SIGINT]);
    let mut signals = signals.map_err(|error| Failure::io("cannot listen to signals", &error))?;
    let directory = session.directory().to_owned();
    thread::spawn(move || {
        signals.forever().next();
        if let Err(error) = pvfs_fuse::unmount(&directory, false) {
            tracing::warn!("{error}");
        }
        thread::spawn(move || {
            signals.forever().next();
            std::process::exit(i32::from(Exit::Failed.code()));
        });
        thread::sleep(STOP_TIME);
        tracing::warn!("some files are still in use 20 s after the unmount; they fail from now on");
        std::process::exit(i32::from(Exit::Failed.code()));
    });
    Ok(())
}

fn mount_failure(error: &MountError) -> Failure {
    match error {
        MountError::Filesystem(error) => failure("cannot mount", error),
        error => Failure::new(Exit::Failed, error.to_string()),
    }
}

/// A busy mount has a few dozen connections to each daemon.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!("the limit of open files stays as it is: {error}");
    }
}

/// What the process in the background says when the mount can be used.
const READY: &str = "ready";

/// A little less than the three seconds promised, for the way to the kernel and back.
const STATUS_TIME: Duration = Duration::from_millis(2500);

/// Ten years.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How long files in use are served after an unmount.
const STOP_TIME: Duration = Duration::from_secs(20);
