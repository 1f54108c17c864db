//! `pvfs agent`: vouch for the users of this node.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pvfs_client::credentials::key_ring;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::agent::Agent;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::daemon::{make_directory, start_logging};

/// Vouch for the users of this node, in the foreground
///
/// Runs on every node with clients. It asks the kernel who is behind a socket, issues sessions to
/// the users the cluster file lists, and renews the leases of their processes. It needs the cluster
/// key; the users must not have it. Under systemd, use pvfs-agent.service.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where processes find it [default: as the cluster file says]
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  Serve the socket and the users of the cluster file:
    pvfs agent --config /etc/pvfs/cluster.toml
  A socket elsewhere:
    pvfs agent --socket /tmp/agent.sock";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = context.cluster()?;
    start_logging(&cluster, context);
    let ring = key_ring(&cluster).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut policy = cluster.agent.clone();
    if let Some(socket) = &args.socket {
        policy.socket.clone_from(socket);
    }
    if let Some(parent) = policy.socket.parent() {
        make_directory(parent)?;
    }
    let agent = Agent { policy, ring, lifetime: cluster.security.session };
    let doing = format!("cannot listen on {}", agent.policy.socket.display());
    let listener = agent.listen().map_err(|error| Failure::io(&doing, &error))?;
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stopped.clone())
            .map_err(|error| Failure::io("cannot listen to signals", &error))?;
    }
    tracing::info!(socket = %agent.policy.socket.display(), "serving");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    agent
        .serve(&listener, &|| stopped.load(Ordering::Relaxed))
        .map_err(|error| Failure::io(&doing, &error))
}
