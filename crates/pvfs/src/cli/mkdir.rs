//! `pvfs mkdir`: make directories, with the striping of what comes in.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::striping::Striping;
use crate::cli::unbuilt::not_built_yet;

/// Make directories
///
/// The striping given here is what files made in the directory get by default, and what directories
/// made in it inherit. See `pvfs stripe` to change it later.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::DirPath)]
    pub paths: Vec<String>,
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
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("mkdir"))
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
