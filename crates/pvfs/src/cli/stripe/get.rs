//! `pvfs stripe get`
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use pvfs_client::block_on;
use pvfs_wire::attr::FileKind;
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::connected::{Connections, Inner, for_each};
use crate::show;
use crate::stripes::of_directory;

/// Show the striping of files and directories
///
/// Distribution, ssize (bytes), pcount, base and the iods of a file; of a directory, the defaults
/// for what is made in it, and where it has them from.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
    /// Whatever is below as well
    #[arg(short, long)]
    pub recursive: bool,
}

const EXAMPLES: &str = "\
Examples:
  One file:
    pvfs stripe get pvfs:/data/big.h5
  Everything below, for a program:
    pvfs stripe get -r --json pvfs:/data";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    let mut values = Vec::new();
    for_each(context, &args.paths, |path| {
        show_below(&connections.inside(path)?, args.recursive, context, &mut values)
    })?;
    if context.json() { context.value(&values) } else { Ok(()) }
}

fn show_below(
    place: &Inner,
    recursive: bool,
    context: &Context,
    values: &mut Vec<Value>,
) -> Result<(), Failure> {
    let stated = block_on(place.user().stat_layout(place.target()?, true));
    let (attr, placement) = place.done("look at", stated)?;
    let layout = match &placement {
        Some(placement) => {
            let names: Vec<String> =
                place.on.cluster.iods.iter().map(|iod| iod.name.clone()).collect();
            show::placement(placement, &names)
        }
        None => of_directory(place)?,
    };
    if context.json() {
        values.push(json!({ "name": place.text(), "layout": layout }));
    } else {
        context.line(format!("{place}: {}", text(&layout)))?;
    }
    if attr.kind == FileKind::Directory && recursive {
        for entry in place.done("list", block_on(place.user().list(attr.handle, false)))? {
            if matches!(entry.kind, FileKind::Directory | FileKind::Regular) {
                show_below(&place.child(OsStr::from_bytes(&entry.name)), true, context, values)?;
            }
        }
    }
    Ok(())
}

/// `dist simple_stripe:ssize=65536, base 0, ...`
fn text(layout: &Value) -> String {
    let Value::Object(fields) = layout else { return String::new() };
    let words =
        fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| match value {
            Value::String(text) => format!("{name} {text}"),
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                format!("{name} {}", items.join(" "))
            }
            other => format!("{name} {other}"),
        });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "the file system's defaults".into() } else { words.join(", ") }
}
