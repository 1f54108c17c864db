//! `pvfs stop`: an orderly end.

use std::time::{Duration, Instant};

use pvfs_client::block_on;
use pvfs_net::call::CallError;
use pvfs_wire::ops::{OrderKind, Ping};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::Connected;
use crate::order::{chosen, give};

/// Stop daemons in order
///
/// They take no new opens, finish what is under way within 20 s, sync and end; the command returns
/// when that is done. Mounts and programs
/// wait, and see errors at their deadlines, until the daemons are started again. For an end at once,
/// see `estop`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of daemons [default: all]
    pub servers: Vec<String>,
    /// How long they may take to finish
    #[arg(long, value_name = "TIME", default_value = "20s")]
    #[arg(value_parser = pvfs_config::parse_duration)]
    pub timeout: Duration,
}

const EXAMPLES: &str = "\
Examples:
  The whole file system:
    pvfs stop
  One iod, for maintenance:
    pvfs stop io3";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    give(OrderKind::Stop, None, &args.servers, context)?;
    wait_until_gone(args, context)
}

/// A daemon refuses connections when its process has ended, and not before the last sync.
fn wait_until_gone(args: &Args, context: &Context) -> Result<(), Failure> {
    let connected = Connected::new(context, None)?;
    let until = Instant::now() + args.timeout;
    for server in chosen(&connected, &args.servers)? {
        while !matches!(
            block_on(connected.user.inquire(server, &Ping {})),
            Err(CallError::Unreachable { .. })
        ) {
            if Instant::now() > until {
                let name = server.name();
                let sentence =
                    format!("{name} has not ended in time; see its log, or use pvfs estop {name}");
                return Err(Failure::new(Exit::Unreachable, sentence));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}
