//! `pvfs bench preload`

use super::Wishes;
use crate::bench::preload;
use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::run::library;

/// Measure programs that use the file system without a mount
///
/// What the preload library costs calls on ordinary files, in a process with it and one without; reads and writes
/// of 1 MiB and 4 KiB through it, next to the client library and next to the local file system.
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
  Everything:
    pvfs bench preload
  Within a minute, for a program:
    pvfs bench preload --quick --json
  Calls on ordinary files only, often:
    pvfs bench preload --rows ordinary --runs 21";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let effort = args.wishes.effort()?;
    let cases = preload::cases(&effort);
    let names: Vec<String> = cases.iter().map(preload::Case::name).collect();
    if !args.wishes.chosen(&names, context)? {
        return Ok(());
    }
    let library = library()?;
    let testbed = args.wishes.testbed(context)?;
    let rows = preload::measure(&testbed, &effort, &cases, &library)?;
    args.wishes.report(&rows, context)
}
