//! `pvfs stripe set`
use std::ffi::OsString;

use pvfs_client::block_on;
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::OpenFlags;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::mkdir::umask;
use crate::cli::striping::Striping;
use crate::connected::{Connections, Inner, for_each};
use crate::stripes::{inherit_directory, refuse_unfit, set_directory, wishes};

/// Choose the striping of a directory, or of a new file
///
/// Of a directory: what is made in it from now on; files that are there keep theirs. A path that is
/// not there becomes an empty file with this striping. A file that is there is refused: copy it to
/// stripe it anew.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directories, or files to make: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
    /// Back to what the parent directory says
    #[arg(long, conflicts_with_all = ["ssize", "base", "pcount", "distribution"])]
    pub inherit: bool,
    /// The striping to set.
    #[command(flatten)]
    pub striping: Striping,
}

const EXAMPLES: &str = "\
Examples:
  Strips of 1 MiB for what is made in a directory:
    pvfs stripe set -s 1M pvfs:/data
  A new file on two iods, the first one third in order:
    pvfs stripe set -n 2 -b 2 pvfs:/data/new.h5
  A directory like its parent again:
    pvfs stripe set --inherit pvfs:/data";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    for_each(context, &args.paths, |path| {
        let place = connections.inside(path)?;
        refuse_unfit(&args.striping, &place.on.cluster)?;
        match block_on(place.user().stat_lite(place.target()?, true)) {
            Err(error) if error.errno() == Errno::ENOENT => create(&place, args),
            stated => match place.done("look at", stated)?.kind {
                FileKind::Directory if args.inherit => inherit_directory(&place),
                FileKind::Directory => set_directory(&place, &args.striping),
                _ => {
                    let sentence = format!(
                        "{place} is there already, and the striping of a file never changes; copy it to stripe \
                         it anew"
                    );
                    Err(Failure::new(Exit::Failed, sentence))
                }
            },
        }
    })
}

fn create(place: &Inner, args: &Args) -> Result<(), Failure> {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    let (mode, wishes) = (0o666 & !umask(), wishes(&args.striping)?);
    let opened = place.user().open_regular(place.target()?, flags, mode, wishes);
    let file = place.done("make", block_on(opened))?;
    place.done("close", block_on(place.user().close(file)))
}
