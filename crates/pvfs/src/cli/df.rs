//! `pvfs df`: how much space is left.
use pvfs_client::block_on;
use pvfs_wire::ops::StoreStat;
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connected, failure};
use crate::show::human_bytes;

/// Show space and files, used and free
///
/// A line for the file system and, with --iods, one for each iod. An iod that does not answer
/// within 3 s is left out and named; then the exit code is 3. If none answers, that is the error.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Sizes with K, M, G, T (powers of 1024) instead of bytes
    #[arg(short = 'H', long)]
    pub human: bool,
    /// A line for each iod
    #[arg(long)]
    pub iods: bool,
}

const EXAMPLES: &str = "\
Examples:
  The whole, in units people read:
    pvfs df -H
  How evenly the disks are filled:
    pvfs df --iods";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connected = Connected::new(context, None)?;
    let space = block_on(connected.user.statfs());
    if let (Some(absent), true) = (space.unanswered.first(), space.iods.iter().all(Option::is_none))
    {
        return Err(failure("cannot ask for the space", &absent.error.clone().into()));
    }
    let mut rows = vec![(connected.cluster.filesystem().name.clone(), Some(space.total()))];
    if args.iods || context.json() {
        let iods = connected.cluster.iods.iter().map(|iod| iod.name.clone());
        rows.extend(iods.zip(space.iods.iter().copied()));
    }
    if context.json() {
        let iods: Vec<Value> = rows[1..].iter().map(|(name, stat)| figures(name, *stat)).collect();
        let mut value = figures(&rows[0].0, rows[0].1);
        value["files"] = json!(space.names.as_ref().map(|names| names.files));
        value["iods"] = json!(iods);
        context.value(&value)?;
    } else {
        context.line(format!(
            "{:<12} {:>16} {:>16} {:>16} {:>5}",
            "name", "size", "used", "available", "use"
        ))?;
        for (name, stat) in &rows {
            context.line(row(name, *stat, args.human))?;
        }
        if let Some(names) = &space.names {
            let noun = if names.files == 1 { "file or directory" } else { "files and directories" };
            context.line(format!("{} {noun}", names.files))?;
        }
    }
    for absent in &space.unanswered {
        context.note(format!("pvfs: {} is not counted: {}", absent.server, absent.error));
    }
    if space.unanswered.is_empty() { Ok(()) } else { Err(Failure::told(Exit::Partial)) }
}

fn figures(name: &str, stat: Option<StoreStat>) -> Value {
    match stat {
        Some(stat) => json!({
            "name": name, "total_bytes": stat.total_bytes, "free_bytes": stat.free_bytes,
            "available_bytes": stat.available_bytes,
        }),
        None => json!({ "name": name, "total_bytes": null }),
    }
}

fn row(name: &str, stat: Option<StoreStat>, human: bool) -> String {
    let Some(stat) = stat else { return format!("{name:<12} does not answer") };
    let shown = |bytes: u64| if human { human_bytes(bytes) } else { bytes.to_string() };
    let used = stat.total_bytes.saturating_sub(stat.free_bytes);
    let share = 100 * used / (used + stat.available_bytes).max(1);
    let (total, used, available) =
        (shown(stat.total_bytes), shown(used), shown(stat.available_bytes));
    format!("{name:<12} {total:>16} {used:>16} {available:>16} {share:>4}%")
}
