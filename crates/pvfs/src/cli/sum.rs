//! `pvfs sum`: checksums, to compare what went in with what came out.
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pvfs_client::block_on;
use pvfs_wire::attr::{FileKind, Striping};
use pvfs_wire::header::Checksum;
use pvfs_wire::ops::OpenFlags;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connections, Location, for_each};
use crate::copying::walk::{local_failure, look, names};

/// Print or check the checksums of files
///
/// Reads through the same streams as cp, so it is fast, and prints lines as sha256sum(1) does;
/// paths of this machine are taken too, to compare both sides. With --check it reads such lines
/// and exits with 1 if a file differs or is missing.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files: pvfs:/PATH, below a mount, or of this machine; with --check, files of sums
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
    /// Directories with whatever is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Which checksum
    #[arg(short, long, value_enum, default_value_t = Algorithm::Sha256)]
    pub algorithm: Algorithm,
    /// Compare with the sums in these files
    #[arg(short, long, conflicts_with = "recursive")]
    pub check: bool,
}

const EXAMPLES: &str = "\
Examples:
  Before and after copying; the lines but for the names are alike:
    pvfs sum big.h5 pvfs:/data/big.h5
  A whole directory, kept and checked later:
    pvfs sum -r pvfs:/data
    pvfs sum --check data.sums";

/// Which checksum.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Algorithm {
    /// Cryptographic; the same as sha256sum(1)
    Sha256,
    /// Fast; CRC-32C, as on the network
    Crc32c,
}

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    if args.check {
        return for_each(context, &args.paths, |path| check(path, args, &connections, context));
    }
    for_each(context, &args.paths, |path| {
        sum_below(&connections.locate(path)?, path.as_ref(), args, context)
    })
}

fn sum_below(place: &Location, name: &Path, args: &Args, context: &Context) -> Result<(), Failure> {
    let (kind, _) = look(place, args.recursive)?;
    match kind {
        FileKind::Regular => {
            let sum = sum(place, args.algorithm)?;
            if context.json() {
                return context.value(&json!({ "name": name.to_string_lossy(), "sum": sum }));
            }
            let bytes = name.as_os_str().as_bytes();
            context.line_of_bytes(&[sum.as_bytes(), b"  ", bytes].concat())
        }
        FileKind::Directory if args.recursive => {
            let mut below = names(place)?;
            below.sort();
            for_each(context, below, |child| {
                sum_below(&place.child(&child), &name.join(&child), args, context)
            })
        }
        FileKind::Directory => {
            Err(Failure::new(Exit::Failed, format!("{place} is a directory; sum it with -r")))
        }
        _ => Ok(()),
    }
}

/// Compares with the lines of a file of sums: `SUM  NAME`.
fn check(
    path: &OsStr,
    args: &Args,
    connections: &Connections<'_>,
    context: &Context,
) -> Result<(), Failure> {
    let failed = |doing, error| local_failure(doing, path.as_ref(), &error);
    let file = File::open(path).map_err(|error| failed("open", error))?;
    let lines: io::Result<Vec<Vec<u8>>> = BufReader::new(file).split(b'\n').collect();
    let lines = lines.map_err(|error| failed("read", error))?;
    for_each(context, lines.iter().filter(|line| !line.is_empty()), |line| {
        let (expected, name) = parts(line).ok_or_else(|| {
            let (path, line) = (path.display(), line.escape_ascii());
            Failure::new(Exit::Usage, format!("{path} has a line that is no sum: {line}"))
        })?;
        let actual = sum(&connections.locate(name)?, args.algorithm)?;
        if actual.as_bytes() != expected {
            let sentence = format!("{}: the sum differs", name.display());
            return Err(Failure::new(Exit::Failed, sentence));
        }
        if context.quiet() {
            return Ok(());
        }
        context.line_of_bytes(&[name.as_bytes(), b": OK"].concat())
    })
}

/// A sum, and the name behind two spaces.
fn parts(line: &[u8]) -> Option<(&[u8], &OsStr)> {
    let (sum, rest) = line.split_at(line.iter().position(|byte| *byte == b' ')?);
    rest.strip_prefix(b"  ").map(|name| (sum, OsStr::from_bytes(name)))
}

fn sum(place: &Location, algorithm: Algorithm) -> Result<String, Failure> {
    let mut sha = Sha256::new();
    let mut crc = Checksum::new();
    each_part(place, |bytes| match algorithm {
        Algorithm::Sha256 => sha.update(bytes),
        Algorithm::Crc32c => crc.update(bytes),
    })?;
    Ok(match algorithm {
        Algorithm::Sha256 => sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
        Algorithm::Crc32c => format!("{:08x}", crc.finish()),
    })
}

fn each_part(place: &Location, mut take: impl FnMut(&[u8])) -> Result<(), Failure> {
    let mut buffer = vec![0; TRANSFER_BYTES];
    match place {
        Location::Local(path) => {
            let mut file = File::open(path).map_err(|error| local_failure("open", path, &error))?;
            loop {
                let got =
                    file.read(&mut buffer).map_err(|error| local_failure("read", path, &error))?;
                if got == 0 {
                    return Ok(());
                }
                take(&buffer[..got]);
            }
        }
        Location::Inside(inner) => {
            let user = inner.user();
            let opened =
                user.open_regular(inner.target()?, OpenFlags::READ, 0, Striping::default());
            let file = inner.done("open", block_on(opened))?;
            let mut offset = 0;
            loop {
                let got = inner.done("read", block_on(user.read_at(&file, offset, &mut buffer)))?;
                take(&buffer[..got]);
                offset += got as u64;
                if got < buffer.len() {
                    return inner.done("close", block_on(user.close(file)));
                }
            }
        }
    }
}

const TRANSFER_BYTES: usize = 4 << 20;
