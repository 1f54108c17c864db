//! `pvfs rm`: remove files and directories.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use pvfs_client::block_on;
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connections, Inner, for_each};

/// Remove files and directories
///
/// Names are gone when it returns; the space comes back in the background. Files that are open stay
/// readable until they are closed. The root, `.` and `..` are refused, as by rm(1).
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
    /// Directories with whatever is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// No complaint about what is not there
    #[arg(short, long)]
    pub force: bool,
}

const EXAMPLES: &str = "\
Examples:
  Files:
    pvfs rm pvfs:/data/a pvfs:/data/b
  A directory with all that is in it; no complaint if it is gone:
    pvfs rm -rf pvfs:/data";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    for_each(context, &args.paths, |path| {
        let place = connections.inside(path)?;
        refuse_nameless(path, &place)?;
        match block_on(place.user().stat_lite(place.target()?, false)) {
            Err(error) if error.errno() == Errno::ENOENT && args.force => Ok(()),
            stated => {
                let attr = place.done("remove", stated)?;
                remove(&place, attr.kind, args.recursive)
            }
        }
    })
}

/// The root has no name that could be removed, and `.` and `..` are not the name of what they mean: removing
/// what is in it first and failing then would be the worst of both.
fn refuse_nameless(operand: &OsStr, place: &Inner) -> Result<(), Failure> {
    let path = operand.as_bytes();
    let mut parts = path.strip_prefix(b"pvfs:").unwrap_or(path).rsplit(|byte| *byte == b'/');
    let last = parts.find(|part| !part.is_empty());
    let reason = match last {
        _ if place.name().is_none() => "it is the root of the file system",
        Some(b"." | b"..") => "name it without . or .. at the end",
        _ => return Ok(()),
    };
    Err(Failure::new(Exit::Usage, format!("refusing to remove {}: {reason}", operand.display())))
}

/// Removes a file, or a directory with whatever is in it if `recursive`.
pub fn remove(place: &Inner, kind: FileKind, recursive: bool) -> Result<(), Failure> {
    if kind != FileKind::Directory {
        return place.done("remove", block_on(place.user().unlink(place.target()?))).map(|_| ());
    }
    if !recursive {
        let sentence = format!("{place} is a directory; remove it with -r");
        return Err(Failure::new(Exit::Failed, sentence));
    }
    let handle = place.stat(false)?.handle;
    for entry in place.done("list", block_on(place.user().list(handle, false)))? {
        remove(&place.child(OsStr::from_bytes(&entry.name)), entry.kind, true)?;
    }
    place.done("remove", block_on(place.user().rmdir(place.target()?))).map(|_| ())
}
