//! `pvfs cp`: copy in, out and within; as `u2p` as well.
use std::ffi::OsString;
use std::io::IsTerminal;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::mkdir::umask;
use crate::cli::striping::Striping;
use crate::connected::{Connections, Location};
use crate::copying::walk::is_directory;
use crate::copying::{Outcome, Wishes, copy};
use crate::show::{count, human_bytes};
use crate::stripes::{refuse_unfit, wishes};
use pvfs_config::ByteSize;

/// Copy files in, out and within the file system
///
/// Several files go at once, and big ones in several streams. New files are striped as their
/// directory says, unless the flags say otherwise; holes stay holes. On a terminal a bar shows the
/// progress. With several sources, those that fail are named, the others are copied, and the exit
/// code is 3.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files or directories: pvfs:/PATH, below a mount, or of this machine
    #[arg(required = true, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    pub sources: Vec<OsString>,
    /// Where to, likewise; with several sources, a directory
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub destination: OsString,
    /// Directories with whatever is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Keep mode, owner (if allowed) and times
    #[arg(short, long)]
    pub preserve: bool,
    /// Replace files that cannot be written to
    #[arg(short, long)]
    pub force: bool,
    /// Skip files that are there and not older, with the same size
    #[arg(short, long)]
    pub update: bool,
    /// Files at a time
    #[arg(short, long, value_name = "COUNT", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// Streams for one big file
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Bytes in one request
    #[arg(long, value_name = "SIZE", default_value = "4M")]
    pub transfer: ByteSize,
    /// Sync what was copied before it counts as done
    #[arg(long)]
    pub sync: bool,
    /// No progress bar
    #[arg(long)]
    pub no_progress: bool,
    /// The destination is in the file system even without pvfs:, as for u2p
    #[arg(long, hide = true)]
    pub u2p: bool,
    /// How new files are striped.
    #[command(flatten)]
    pub striping: Striping,
}

const EXAMPLES: &str = "\
Examples:
  In, with 1 MiB strips over four iods, from the first one on:
    pvfs cp -s 1M -n 4 -b 0 big.h5 pvfs:/data/
  A directory out, eight files at a time, with modes and times:
    pvfs cp -rp --jobs 8 pvfs:/data /tmp/data
  Within:
    pvfs cp pvfs:/data/big.h5 pvfs:/data/copy.h5
  As in PVFS 1 (striped 16 KiB over four iods):
    u2p -s 16384 -n 4 big.h5 /scratch/big.h5";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let pairs = pairs(args, context)?;
    let wishes = Wishes {
        preserve: args.preserve,
        force: args.force,
        update: args.update,
        recursive: args.recursive,
        sync: args.sync,
        jobs: args.jobs as usize,
        streams: args.streams as usize,
        transfer_bytes: transfer_bytes(args)?,
        striping: wishes(&args.striping)?,
        umask: umask(),
    };
    let hidden = args.no_progress || context.quiet() || context.json();
    let outcome = copy(pairs, &wishes, !hidden && std::io::stderr().is_terminal());
    report(&outcome, context)
}

/// Which source goes where: into the destination when that is a directory.
fn pairs(args: &Args, context: &Context) -> Result<Vec<(Location, Location)>, Failure> {
    let connections = Connections::new(context);
    let (last, sources) = (&args.destination, &args.sources);
    let to = match args.u2p {
        true => Location::Inside(connections.inside(last)?),
        false => connections.locate(last)?,
    };
    if let Location::Inside(inner) = &to {
        refuse_unfit(&args.striping, &inner.on.cluster)?;
    }
    let into_directory = is_directory(&to)?;
    if sources.len() > 1 && !into_directory {
        let sentence = format!("{to} is no directory, and there are several sources");
        return Err(Failure::new(Exit::Usage, sentence));
    }
    sources
        .iter()
        .map(|source| {
            let from = connections.locate(source)?;
            let target = match from.name() {
                Some(name) if into_directory => to.child(name),
                _ => to.clone(),
            };
            refuse_itself(&from, &target)?;
            Ok((from, target))
        })
        .collect()
}

/// A copy onto or into itself would never end well.
fn refuse_itself(from: &Location, to: &Location) -> Result<(), Failure> {
    if !from.holds(to) {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("cannot copy {from} onto or into itself")))
}

fn transfer_bytes(args: &Args) -> Result<usize, Failure> {
    match args.transfer.0 {
        bytes @ 1..=TRANSFER_BYTES_MAX => Ok(bytes as usize),
        _ => Err(Failure::new(Exit::Usage, "--transfer must be from 1 byte to 256M")),
    }
}

fn report(outcome: &Outcome, context: &Context) -> Result<(), Failure> {
    outcome.failures.iter().for_each(|failure| context.warn(failure));
    let failed = outcome.failures.first();
    if let Some(first) = failed.filter(|_| outcome.files + outcome.skipped == 0) {
        return Err(Failure::told(first.exit()));
    }
    if context.json() {
        context.value(outcome)?;
    } else {
        context.note(summary(outcome));
    }
    if failed.is_none() { Ok(()) } else { Err(Failure::told(Exit::Partial)) }
}

/// `2 files, 3.0M in 0.10 s (30M/s), 1 file skipped`
fn summary(outcome: &Outcome) -> String {
    let rate = outcome.bytes as f64 / outcome.seconds.max(1e-9);
    let mut text = format!(
        "{}, {} in {:.2} s ({}/s)",
        count(outcome.files, "file"),
        human_bytes(outcome.bytes),
        outcome.seconds,
        human_bytes(rate as u64)
    );
    if outcome.skipped > 0 {
        text += &format!(", {} skipped", count(outcome.skipped, "file"));
    }
    text
}

const TRANSFER_BYTES_MAX: u64 = 256 << 20;
