//! `pvfs ls`: list directories.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

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
    pub paths: Vec<OsString>,
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
    let mut list = List { args, context, values: Vec::new() };
    for_each(context, &args.paths, |path| {
        let place = connections.inside(path)?;
        let attr = place.stat(false)?;
        if attr.kind != FileKind::Directory || args.directory {
            return list.one(&place, &attr, path, "");
        }
        list.directory(&place, attr, headed)
    })?;
    if context.json() { context.value(&list.values) } else { Ok(()) }
}

/// What is listed, and how.
struct List<'a> {
    args: &'a Args,
    context: &'a Context,
    /// What a program is told in the end.
    values: Vec<Value>,
}

impl List<'_> {
    fn directory(&mut self, place: &Inner, attr: Attr, headed: bool) -> Result<(), Failure> {
        let json = self.context.json();
        // Without -l nobody needs sizes, and so no iod is asked.
        let with_attributes = self.args.long || json || self.args.recursive;
        let mut entries =
            place.done("list", block_on(place.user().list(attr.handle, with_attributes)))?;
        entries.retain(|entry| self.args.all || !entry.name.starts_with(b"."));
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        if headed && !json {
            let path = place.path.as_os_str().as_bytes();
            self.context.line_of_bytes(&[b"pvfs:", path, b":"].concat())?;
        }
        let mut below = Vec::new();
        let unsure = entries.iter().filter(|entry| entry.placement.is_some()).count();
        for entry in entries {
            let name = OsStr::from_bytes(&entry.name);
            let Some(attr) = entry.attr else {
                self.context.line_of_bytes(&entry.name)?;
                continue;
            };
            let mark = if entry.placement.is_some() { "  ?" } else { "" };
            self.one(&place.child(name), &attr, name, mark)?;
            if attr.kind == FileKind::Directory && self.args.recursive {
                below.push((place.child(name), attr));
            }
        }
        if unsure > 0 {
            self.warn_of(unsure, place);
        }
        for (place, attr) in below {
            if !json {
                self.context.line("")?;
            }
            self.directory(&place, attr, true)?;
        }
        Ok(())
    }

    fn one(&mut self, place: &Inner, attr: &Attr, name: &OsStr, mark: &str) -> Result<(), Failure> {
        if self.context.json() {
            self.values.push(show::attributes(attr, &place.text()));
            return Ok(());
        }
        let mut line = Vec::new();
        if self.args.long {
            line.extend(show::long(attr, self.args.human).into_bytes());
            line.push(b' ');
        }
        line.extend([name.as_bytes(), mark.as_bytes()].concat());
        if self.args.long && attr.kind == FileKind::Symlink {
            line.extend(arrow(place));
        }
        self.context.line_of_bytes(&line)
    }

    fn warn_of(&self, unsure: usize, place: &Inner) {
        let sentence = format!(
            "in {place} the size of {}, marked with ?, is the last known: an iod that holds a part of it \
             does not answer; see pvfs status",
            show::count(unsure as u64, "file")
        );
        self.context.warn(&Failure::new(Exit::Partial, sentence));
    }
}

/// Where a link points, or nothing if it is gone by now.
fn arrow(place: &Inner) -> Vec<u8> {
    let target = place.target().map(|target| block_on(place.user().readlink(target)));
    match target {
        Ok(Ok(target)) => [b" -> ", target.as_slice()].concat(),
        _ => Vec::new(),
    }
}
