//! `pvfs mkdir`: make directories, with the striping of what comes in.
use std::ffi::OsString;

use pvfs_client::block_on;
use pvfs_wire::Errno;

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::striping::Striping;
use crate::connected::{Connections, Inner, for_each};
use crate::stripes::{refuse_unfit, set_directory};

/// Make directories
///
/// The striping given here is what files made in the directory get by default, and what directories
/// made in it inherit. See `pvfs stripe` to change it later.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::DirPath)]
    pub paths: Vec<OsString>,
    /// Missing parents as well; no complaint if it is there
    #[arg(short, long)]
    pub parents: bool,
    /// Permission bits, in octal, instead of 777 less the umask
    #[arg(short, long, value_name = "MODE", value_parser = octal_mode)]
    pub mode: Option<u32>,
    /// What files in it get by default.
    #[command(flatten)]
    pub striping: Striping,
}

const EXAMPLES: &str = "\
Examples:
  With parents:
    pvfs mkdir -p pvfs:/data/2024/run1
  For big files, 4 MiB strips over all iods:
    pvfs mkdir -s 4M pvfs:/big
  For many small files, each on one iod:
    pvfs mkdir -d basic pvfs:/small";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let connections = Connections::new(context);
    for_each(context, &args.paths, |path| {
        let place = connections.inside(path)?;
        refuse_unfit(&args.striping, &place.on.cluster)?;
        if args.parents {
            make_parents(&place)?;
        }
        make(&place, args)?;
        set_directory(&place, &args.striping)
    })
}

fn make(place: &Inner, args: &Args) -> Result<(), Failure> {
    let mode = args.mode.unwrap_or(0o777 & !umask());
    match block_on(place.user().mkdir(place.target()?, mode)) {
        Err(error) if error.errno() == Errno::EEXIST && args.parents => Ok(()),
        made => place.done("make", made).map(|_| ()),
    }
}

/// Makes the directories above that are missing.
pub fn make_parents(place: &Inner) -> Result<(), Failure> {
    let above: Vec<Inner> = std::iter::successors(place.parent(), Inner::parent).collect();
    // The last is the root, which is there.
    for parent in above.iter().rev().skip(1) {
        match block_on(parent.user().mkdir(parent.target()?, 0o777 & !umask())) {
            Err(error) if error.errno() == Errno::EEXIST => {}
            made => parent.done("make", made).map(|_| ())?,
        }
    }
    Ok(())
}

/// The umask of this process, which can only be read by setting it.
pub fn umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

fn octal_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 && !text.starts_with('+') => Ok(mode),
        _ => Err("write octal digits from 0 to 7777, such as 755".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!(octal_mode("1755"), Ok(0o1755));
        for text in ["", "8", "+7", "10000", "rwx"] {
            assert!(octal_mode(text).is_err(), "{text}");
        }
    }
}
