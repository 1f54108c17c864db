//! `pvfs sum`: checksums, to compare what went in with what came out.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// Print or check the checksums of files
///
/// Reads through the same streams as cp, so it is fast, and prints lines as sha256sum(1) does;
/// paths of this machine are taken too, to compare both sides. With --check it reads such lines
/// and exits with 1 if a file differs or is missing.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files: pvfs:/PATH, below a mount, or of this machine; with --check, files of sums
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Directories with whatever is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Which checksum
    #[arg(short, long, value_enum, default_value_t = Algorithm::Sha256)]
    pub algorithm: Algorithm,
    /// Compare with the sums in these files
    #[arg(short, long, conflicts_with = "recursive")]
    pub check: bool,
}

const EXAMPLES: &str = "\
Examples:
  Before and after copying; the lines but for the names are alike:
    pvfs sum big.h5 pvfs:/data/big.h5
  A whole directory, kept and checked later:
    pvfs sum -r pvfs:/data
    pvfs sum --check data.sums";

/// Which checksum.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Algorithm {
    /// Cryptographic; the same as sha256sum(1)
    Sha256,
    /// Fast; CRC-32C, as on the network
    Crc32c,
}

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("sum"))
}
