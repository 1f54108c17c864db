//! `pvfs cat`: a file's bytes on standard output.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use pvfs_config::ByteSize;

/// Write the bytes of files to standard output
///
/// Holes are written as zeros. Sizes are bytes, or have K, M, G or T.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::FilePath)]
    pub paths: Vec<String>,
    /// Where to start in each file
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: ByteSize,
    /// How much of each file [default: to its end]
    #[arg(long, value_name = "SIZE")]
    pub length: Option<ByteSize>,
}

const EXAMPLES: &str = "\
Examples:
  A file:
    pvfs cat pvfs:/data/notes.txt
  The second mebibyte of one:
    pvfs cat --offset 1M --length 1M pvfs:/data/big.h5";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("cat"))
}
