//! `pvfs stripe`: how files lie on the iods, shown and chosen.

pub mod get;
pub mod set;

use crate::cli::context::Context;
use crate::cli::exit::Failure;

/// Show or choose the striping of files and directories
///
/// A directory's striping is the default of what is made in it. A file's striping is fixed when it
/// is made; `set` makes an empty file with the striping asked for.
#[derive(clap::Args, Clone, Debug)]
#[command(override_usage = USAGE)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    /// Show or choose.
    #[command(subcommand)]
    pub action: Action,
}

/// What can be done; each is described by its arguments.
#[derive(Clone, Debug, clap::Subcommand)]
#[allow(missing_docs, reason = "a comment here would replace the help of the arguments")]
pub enum Action {
    Get(get::Args),
    Set(set::Args),
}

/// Whoever guesses another word, such as `show`, is shown these.
const USAGE: &str = "\
pvfs stripe get [OPTIONS] <PATHS>...
       pvfs stripe set [OPTIONS] <PATHS>...";

const EXAMPLES: &str = "\
Examples:
  Show, choose for what comes in, make a file with its own:
    pvfs stripe get pvfs:/data
    pvfs stripe set -s 1M pvfs:/data
    pvfs stripe set -s 4M -n 2 pvfs:/data/new.h5";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.action {
        Action::Get(args) => get::run(args, context),
        Action::Set(args) => set::run(args, context),
    }
}
