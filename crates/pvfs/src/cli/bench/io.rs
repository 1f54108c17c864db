//! `pvfs bench io`

use super::Wishes;
use crate::bench::{io, mount};
use crate::cli::context::Context;
use crate::cli::exit::Failure;

/// Measure reads and writes
///
/// Clients read and write one shared file, and one file each, in transfers of 1 MiB, 64 KiB and
/// 4 KiB over TCP and Unix sockets. The limit next to each figure is a bare socket program that
/// moves the same bytes from and to the same kind of files; for 4 KiB it is the mere exchange of
/// messages. A kernel mount is measured against a file system in memory that is mounted alike.
/// Medians of turns. With --json: one array of {name, value, unit, limit, ratio, cpu_s_per_gib}.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// How much is measured, and where.
    #[command(flatten)]
    pub wishes: Wishes,
}

const EXAMPLES: &str = "\
Examples:
  Everything, with stores on a disk to be measured:
    pvfs bench io --dir /data
  Within a minute, for a program:
    pvfs bench io --quick --json
  Some rows only, often:
    pvfs bench io --rows 'tcp*1 MiB*shared' --runs 21";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let effort = args.wishes.effort()?;
    let cases = io::cases(&effort);
    let mounts = mount::cases(&effort);
    let names = cases.iter().map(io::Case::name).chain(mounts.iter().map(mount::Case::name));
    let names: Vec<String> = names.collect();
    if !args.wishes.chosen(&names, context)? {
        return Ok(());
    }
    let testbed = args.wishes.testbed(context)?;
    let mut rows = io::measure(&testbed, &effort, &cases)?;
    rows.extend(mount::measure(&testbed, &effort, &mounts)?);
    args.wishes.report(&rows, context)
}
