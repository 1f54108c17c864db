//! `pvfs agent`: vouch for the users of this node.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use std::path::PathBuf;

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
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("agent"))
}
