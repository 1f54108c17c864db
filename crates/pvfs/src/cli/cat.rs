//! `pvfs cat`: a file's bytes on standard output.
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use pvfs_client::block_on;
use pvfs_config::ByteSize;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::OpenFlags;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connections, Inner, for_each};

/// Write the bytes of files to standard output
///
/// Holes are written as zeros. Sizes are bytes, or have K, M, G or T.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::FilePath)]
    pub paths: Vec<OsString>,
    /// Where to start in each file
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: ByteSize,
    /// How much of each file [default: to its end]
    #[arg(long, value_name = "SIZE")]
    pub length: Option<ByteSize>,
}

const EXAMPLES: &str = "\
Examples:
  A file:
    pvfs cat pvfs:/data/notes.txt
  The second mebibyte of one:
    pvfs cat --offset 1M --length 1M pvfs:/data/big.h5";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    for_each(context, &args.paths, |path| {
        let place = connections.inside(path)?;
        let end = args.length.map_or(u64::MAX, |length| args.offset.0.saturating_add(length.0));
        print(&place, args.offset.0, end)
    })
}

fn print(place: &Inner, mut offset: u64, end: u64) -> Result<(), Failure> {
    let user = place.user();
    let opened = user.open_regular(place.target()?, OpenFlags::READ, 0, Striping::default());
    let file = place.done("open", block_on(opened))?;
    let mut buffer = vec![0; TRANSFER_BYTES];
    let mut out = io::stdout().lock();
    while offset < end {
        let wanted = (end - offset).min(TRANSFER_BYTES as u64) as usize;
        let got =
            place.done("read", block_on(user.read_at(&file, offset, &mut buffer[..wanted])))?;
        match out.write_all(&buffer[..got]) {
            // A reader that has seen enough is no failure worth a sentence.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                return Err(Failure::told(Exit::Failed));
            }
            written => {
                written.map_err(|error| Failure::io("cannot write to standard output", &error))?
            }
        }
        offset += got as u64;
        if got < wanted {
            break;
        }
    }
    place.done("close", block_on(user.close(file)))
}

const TRANSFER_BYTES: usize = 4 << 20;
