//! `pvfs mv`: rename, atomically.
use std::ffi::OsString;

use pvfs_client::block_on;
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::RenameFlags;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connections, Inner, for_each};

/// Rename files and directories within the file system
///
/// Atomic: nobody ever sees the target absent or both names gone. No data moves. With several
/// sources the target must be a directory.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names: pvfs:/PATH, or below a mount
    #[arg(required = true, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    pub sources: Vec<OsString>,
    /// The new name, or a directory; with several sources, a directory
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub target: OsString,
    /// Fail where the target exists
    #[arg(short, long)]
    pub no_clobber: bool,
}

const EXAMPLES: &str = "\
Examples:
  Rename:
    pvfs mv pvfs:/data/new.h5 pvfs:/data/old.h5
  Into a directory, never over what is there:
    pvfs mv --no-clobber pvfs:/a pvfs:/b pvfs:/archive";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    let target = connections.inside(&args.target)?;
    let into_directory = is_directory(&target)?;
    if args.sources.len() > 1 && !into_directory {
        let sentence = format!("{target} is no directory, and there are several sources");
        return Err(Failure::new(Exit::Usage, sentence));
    }
    let flags = RenameFlags::NONE.with_if(args.no_clobber, RenameFlags::NOREPLACE);
    for_each(context, &args.sources, |source| {
        let source = connections.inside(source)?;
        let to = match source.name() {
            Some(name) if into_directory => target.child(name),
            _ => target.clone(),
        };
        match block_on(source.user().rename(source.target()?, to.target()?, flags)) {
            Err(error) if error.errno() == Errno::EINVAL && source.holds(&to) => {
                let sentence = format!("cannot move {source} into itself: {to} is below it");
                Err(Failure::new(Exit::Failed, sentence))
            }
            renamed => source.done(&format!("give the name {to} to"), renamed).map(|_| ()),
        }
    })
}

fn is_directory(place: &Inner) -> Result<bool, Failure> {
    match block_on(place.user().stat_lite(place.target()?, true)) {
        Err(error) if error.errno() == Errno::ENOENT => Ok(false),
        stated => Ok(place.done("look at", stated)?.kind == FileKind::Directory),
    }
}
