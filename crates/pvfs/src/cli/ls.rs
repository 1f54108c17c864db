//! `pvfs ls`: list directories.
use pvfs_client::block_on;
use pvfs_wire::attr::{Attr, FileKind};
use serde_json::Value;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connections, Inner, for_each};
use crate::show;

/// List directories and files
///
/// Needs only the manager, so it works with iods down; with -l a size that cannot be asked for is
/// the last one known and marked with `?`. Nothing is ever left out. Sizes are bytes.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directories and files: pvfs:/PATH, or below a mount
    #[arg(default_value = "pvfs:/", value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Mode, links, owner, group, size and time of each
    #[arg(short, long)]
    pub long: bool,
    /// Names that begin with a dot as well
    #[arg(short, long)]
    pub all: bool,
    /// Directories themselves, not what is in them
    #[arg(short, long)]
    pub directory: bool,
    /// Whatever is below as well
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Sizes with K, M, G, T (powers of 1024) instead of bytes
    #[arg(short = 'H', long)]
    pub human: bool,
}

const EXAMPLES: &str = "\
Examples:
  The root:
    pvfs ls
  A directory with attributes, sizes in K, M, G:
    pvfs ls -lH pvfs:/data
  Everything below, for a program:
    pvfs ls -lR --json /scratch/data";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    let headed = args.recursive || args.paths.len() > 1;
    let mut values = Vec::new();
    for_each(context, &args.paths, |path| {
        let place = connections.inside(path)?;
        let attr = place.stat(args.directory)?;
        if attr.kind != FileKind::Directory || args.directory {
            return show_one(&attr, &place.path, args, context, &mut values);
        }
        list(&place, attr, headed, args, context, &mut values)
    })?;
    if context.json() { context.value(&values) } else { Ok(()) }
}

fn list(
    place: &Inner,
    attr: Attr,
    headed: bool,
    args: &Args,
    context: &Context,
    values: &mut Vec<Value>,
) -> Result<(), Failure> {
    // Without -l nobody needs sizes, and so no iod is asked.
    let with_attributes = args.long || context.json() || args.recursive;
    let mut entries =
        place.done("list", block_on(place.user().list(attr.handle, with_attributes)))?;
    entries.retain(|entry| args.all || !entry.name.starts_with(b"."));
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    if headed && !context.json() {
        context.line(format!("{place}:"))?;
    }
    let mut below = Vec::new();
    let unsure = entries.iter().filter(|entry| entry.placement.is_some()).count();
    for entry in entries {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        match entry.attr {
            Some(attr) => {
                let mark = if entry.placement.is_some() { "  ?" } else { "" };
                let shown =
                    if context.json() { place.child(&name).path } else { name.clone() + mark };
                show_one(&attr, &shown, args, context, values)?;
                if attr.kind == FileKind::Directory && args.recursive {
                    below.push((place.child(&name), attr));
                }
            }
            None => context.line(name)?,
        }
    }
    if unsure > 0 {
        let sentence = format!(
            "the sizes of {unsure} files in {place}, marked with ?, are the last known: an iod that holds \
             part of them does not answer; see pvfs status"
        );
        context.warn(&Failure::new(Exit::Partial, sentence));
    }
    for (place, attr) in below {
        if !context.json() {
            context.line("")?;
        }
        list(&place, attr, true, args, context, values)?;
    }
    Ok(())
}

fn show_one(
    attr: &Attr,
    name: &str,
    args: &Args,
    context: &Context,
    values: &mut Vec<Value>,
) -> Result<(), Failure> {
    if context.json() {
        values.push(show::attributes(attr, name));
        return Ok(());
    }
    if args.long { context.line(show::long(attr, name, args.human)) } else { context.line(name) }
}
