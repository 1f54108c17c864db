//! `pvfs agent`: vouch for the users of this node.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pvfs_client::credentials::{Identity, Issuer, key_ring};
use pvfs_client::{Blocking, Filesystem, Options, User};
use pvfs_config::Cluster;
use pvfs_wire::token::SessionRights;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::agent::living::Living;
use crate::agent::{Agent, Rules};
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
    let rules = rules(&cluster, args)?;
    if let Some(parent) = rules.policy.socket.parent() {
        make_directory(parent)?;
    }
    let socket = rules.policy.socket.clone();
    let failed = |error| Failure::io(&format!("cannot serve on {}", socket.display()), &error);
    let living = Living::watch(cluster.defaults.lease).map_err(failed)?;
    Living::tell(&living, teller(cluster.clone())?).map_err(failed)?;
    let agent = Arc::new(Agent::new(rules, living));
    let listener = agent.listen().map_err(failed)?;
    let [stopped, reload] = [SIGTERM, SIGHUP].map(|_| Arc::new(AtomicBool::new(false)));
    for (signal, flag) in [(SIGTERM, &stopped), (SIGINT, &stopped), (SIGHUP, &reload)] {
        signal_hook::flag::register(signal, flag.clone())
            .map_err(|error| Failure::io("cannot listen to signals", &error))?;
    }
    tracing::info!(socket = %socket.display(), "serving");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let look = || {
        if reload.swap(false, Ordering::Relaxed) {
            read_again(&agent, &cluster.path, args);
        }
        stopped.load(Ordering::Relaxed)
    };
    agent.serve(&listener, &look).map_err(failed)
}

fn rules(cluster: &Cluster, args: &Args) -> Result<Rules, Failure> {
    let ring = key_ring(cluster).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut policy = cluster.agent.clone();
    if let Some(socket) = &args.socket {
        policy.socket.clone_from(socket);
    }
    Ok(Rules { policy, ring, lifetime: cluster.security.session })
}

/// Takes the key, the users and the lifetime of sessions from the cluster file, if that can be read.
fn read_again(agent: &Agent, path: &Path, args: &Args) {
    let fresh = Cluster::load(path).map_err(|error| error.to_string());
    match fresh
        .and_then(|fresh| rules(&fresh, args).map_err(|failure| failure.sentence().to_owned()))
    {
        Ok(rules) => {
            agent.reload(rules);
            tracing::info!("the cluster file is read again");
        }
        Err(error) => tracing::error!("the cluster file is not taken: {error}"),
    }
}

/// The agent as a client of the manager.
fn teller(cluster: Cluster) -> Result<User<Blocking>, Failure> {
    let options = Options::of(&cluster).named("pvfs agent");
    let usage = |error: pvfs_client::Error| Failure::new(Exit::Usage, error.to_string());
    let issuer = Issuer::of(&cluster).map_err(usage)?;
    let principal =
        issuer.principal(Identity::of_process(), SessionRights::DAEMON).map_err(usage)?;
    let filesystem = Filesystem::new(Blocking, &cluster, options).map_err(usage)?;
    Ok(User::new(filesystem, principal))
}
