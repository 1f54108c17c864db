//! `pvfs up`: a whole file system on this machine.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use pvfs_config::ByteSize;
use std::path::PathBuf;

/// Start a file system on this machine, and mount it
///
/// One manager and several iods run in the background, with everything they need in one directory:
/// the cluster file, the key, stores, logs. Started again in the same directory, the file system is
/// as it was. Without root or FUSE it runs all the same, without the mount, and says so.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where everything is kept
    #[arg(default_value = "./.pvfs", value_hint = clap::ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Number of iods; must not change once files are there
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub iods: u32,
    /// First TCP port to try; the daemons take the free ones from there
    #[arg(long, value_name = "PORT", default_value_t = 7000)]
    pub port: u16,
    /// Strip size of new files [default: 64K]
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
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("up"))
}
