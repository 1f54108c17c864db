//! `pvfs cp`: copy in, out and within; as `u2p` as well.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::striping::Striping;
use crate::cli::unbuilt::not_built_yet;
use pvfs_config::ByteSize;

/// Copy files in, out and within the file system
///
/// Several files go at once, and big ones in several streams. New files are striped as their
/// directory says, unless the flags say otherwise. On a terminal a bar shows the progress. With
/// several sources, those that fail are named, the others are copied, and the exit code is 3.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files or directories: pvfs:/PATH, below a mount, or of this machine
    #[arg(required = true, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    pub sources: Vec<String>,
    /// Where to, likewise; with several sources, a directory
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub destination: String,
    /// Directories with whatever is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Keep mode, owner (if allowed) and times
    #[arg(short, long)]
    pub preserve: bool,
    /// Replace files that cannot be written to
    #[arg(short, long)]
    pub force: bool,
    /// Skip files that are there and not older, with the same size
    #[arg(short, long)]
    pub update: bool,
    /// Files at a time
    #[arg(short, long, value_name = "COUNT", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// Streams for one big file
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Bytes in one request
    #[arg(long, value_name = "SIZE", default_value = "4M")]
    pub transfer: ByteSize,
    /// Sync what was copied before it counts as done
    #[arg(long)]
    pub sync: bool,
    /// No progress bar
    #[arg(long)]
    pub no_progress: bool,
    /// The destination is in the file system even without pvfs:, as for u2p
    #[arg(long, hide = true)]
    pub u2p: bool,
    /// How new files are striped.
    #[command(flatten)]
    pub striping: Striping,
}

const EXAMPLES: &str = "\
Examples:
  In, with 1 MiB strips over four iods, from the first one on:
    pvfs cp -s 1M -n 4 -b 0 big.h5 pvfs:/data/
  A directory out, eight files at a time, with modes and times:
    pvfs cp -rp --jobs 8 pvfs:/data /tmp/data
  Within:
    pvfs cp pvfs:/data/big.h5 pvfs:/data/copy.h5
  As in PVFS 1 (striped 16 KiB over four iods):
    u2p -s 16384 -n 4 big.h5 /scratch/big.h5";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("cp"))
}
