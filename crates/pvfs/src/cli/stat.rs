//! `pvfs stat`: the attributes of a file, and where its bytes are.
use std::ffi::OsString;

use pvfs_client::block_on;
use pvfs_layout::{Distribution, IodId};
use pvfs_wire::attr::{Attr, Placement};
use serde_json::Value;

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::connected::{Connections, Inner, for_each};
use crate::show;

/// Show attributes and striping of files
///
/// Besides what stat(1) shows: the handle, the distribution with base, pcount and ssize, and the
/// iods that hold the file, with how many bytes lie on each. Sizes are bytes.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
    /// A symbolic link's target instead of the link
    #[arg(short = 'L', long)]
    pub dereference: bool,
}

const EXAMPLES: &str = "\
Examples:
  One file:
    pvfs stat pvfs:/data/big.h5
  By its old name, on a mount:
    pvstat /scratch/data/big.h5";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    let mut values = Vec::new();
    for_each(context, &args.paths, |path| {
        let place = connections.inside(path)?;
        let target = place.target()?;
        let stated = block_on(place.user().stat_layout(target, args.dereference));
        let (attr, placement) = place.done("look at", stated)?;
        if context.json() {
            values.push(value(&place, &attr, placement.as_ref()));
            return Ok(());
        }
        context.line(text(&place, &attr, placement.as_ref()))
    })?;
    if context.json() { context.value(&values) } else { Ok(()) }
}

fn iod_names(place: &Inner) -> Vec<String> {
    place.on.cluster.iods.iter().map(|iod| iod.name.clone()).collect()
}

fn value(place: &Inner, attr: &Attr, placement: Option<&Placement>) -> Value {
    let mut value = show::attributes(attr, &place.text());
    if let (Value::Object(fields), Some(placement)) = (&mut value, placement) {
        let names = iod_names(place);
        fields.insert("layout".into(), show::placement(placement, &names));
    }
    value
}

fn text(place: &Inner, attr: &Attr, placement: Option<&Placement>) -> String {
    let mut text = format!(
        "{} {place}\n  handle {}, modified {}, changed {}, created {}",
        show::long(attr, false),
        attr.handle,
        show::time(attr.mtime),
        show::time(attr.ctime),
        show::time(attr.btime),
    );
    if let Some(placement) = placement {
        text += &layout(place, attr, placement);
    }
    text
}

/// The striping as PVFS 1's pvstat told it, then each iod with its share of the file.
fn layout(place: &Inner, attr: &Attr, placement: &Placement) -> String {
    let base = placement.iods.get(0).map_or(0, |IodId(id)| id);
    let ssize = show::ssize(placement).map_or("-".into(), |ssize| ssize.to_string());
    let mut text = format!(
        "\n  base {base}, pcount {}, ssize {ssize} ({})",
        placement.iods.len(),
        placement.dist.scheme()
    );
    let names = iod_names(place);
    for (slot, IodId(id)) in (0..).zip(placement.iods.iter()) {
        let name = names.get(id as usize).map_or("?", String::as_str);
        let share = placement.dist.local_size(slot, attr.size);
        text += &format!("\n  slot {slot:>3}  iod {id:>3}  {name:<10} {share:>14} bytes");
    }
    text
}
