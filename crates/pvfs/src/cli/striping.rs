//! The flags that say how a new file is striped, alike wherever files are created.

use crate::cli::exit::{Exit, Failure};
use pvfs_config::{AmountError, ByteSize};
use pvfs_layout::{Placement, Scheme};

/// PVFS 1's three numbers and PVFS2's distribution; -1 leaves the choice to the directory.
#[derive(clap::Args, Clone, Debug, Eq, PartialEq)]
pub struct Striping {
    /// Strip size: so many bytes (or 64K, 1M, ...) go to one iod before the next one's turn; -1:
    /// the directory's
    #[arg(short, long, value_name = "SIZE", default_value_t = -1, value_parser = strip_size)]
    #[arg(help_heading = "Striping", allow_negative_numbers = true, hide_default_value = true)]
    pub ssize: i64,
    /// The iod of the first strip, counted from 0; -1: chosen by free space
    #[arg(short, long, value_name = "IOD", default_value_t = -1)]
    #[arg(help_heading = "Striping", allow_negative_numbers = true, hide_default_value = true)]
    pub base: i64,
    /// How many iods hold a file (`nnodes` of u2p); -1: the directory's number
    #[arg(short = 'n', long, visible_alias = "nnodes", value_name = "COUNT", default_value_t = -1)]
    #[arg(help_heading = "Striping", allow_negative_numbers = true, hide_default_value = true)]
    pub pcount: i64,
    /// How strips are dealt: simple_stripe, basic (all on one iod), two_d:groups=2,factor=256 or
    /// varstrip:0=32K,1=64K
    #[arg(short, long, value_name = "SCHEME", help_heading = "Striping")]
    pub distribution: Option<Scheme>,
}

impl Default for Striping {
    fn default() -> Self {
        Self { ssize: -1, base: -1, pcount: -1, distribution: None }
    }
}

impl Striping {
    /// As the layout takes it.
    pub fn placement(&self) -> Result<Placement, Failure> {
        Placement::from_pvfs1(self.base, self.pcount, self.ssize)
            .map_err(|error| Failure::new(Exit::Usage, error.to_string()))
    }
}

fn strip_size(text: &str) -> Result<i64, AmountError> {
    if text == "-1" {
        return Ok(-1);
    }
    let bytes = text.parse::<ByteSize>()?.0;
    i64::try_from(bytes).map_err(|_| AmountError::TooLarge(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_sizes_have_units_and_minus_one_is_the_default() {
        assert_eq!(strip_size("64K"), Ok(65536));
        assert_eq!(strip_size("-1"), Ok(-1));
        assert!(strip_size("-2").is_err());
        assert_eq!(Striping::default().placement(), Ok(Placement::default()));
        let wrong = Striping { base: -7, ..Striping::default() };
        assert_eq!(wrong.placement().unwrap_err().exit(), Exit::Usage);
    }
}
