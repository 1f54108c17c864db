//! The distribution as a user writes it: `simple_stripe:ssize=64K`, `varstrip:0=32K,1=64K`,
//! `two_d:groups=2,factor=4,ssize=64K`, `basic`.
//!
//! This is what a command line, a configuration file, a directory's default and the attribute
//! `user.pvfs.dist` hold. It does not say over how many iods: a [`Scheme`] becomes a [`Dist`] when
//! a file is created. Sizes are in bytes and written in full; K, M, G and T (powers of 1024) are
//! understood. PVFS2's own spelling of the list, `varstrip:0:32K;1:64K`, is understood too.

use super::{Dist, DistError, Distribution, SLOTS_MAX, SSIZE_DEFAULT, Strip, VARSTRIP_STRIPS_MAX};
use std::fmt;
use std::str::FromStr;

/// A distribution's name and parameters, without the number of slots.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Scheme {
    /// See [`Dist::simple_stripe`].
    SimpleStripe {
        /// Bytes in one strip.
        ssize: u64,
    },
    /// See [`Dist::varstrip`].
    Varstrip {
        /// The strips in the order of dealing.
        strips: Vec<Strip>,
    },
    /// See [`Dist::two_d`].
    TwoD {
        /// Number of groups.
        groups: u32,
        /// Strips per slot before it is the next group's turn.
        factor: u32,
        /// Bytes in one strip.
        ssize: u64,
    },
    /// See [`Dist::basic`].
    Basic,
}

/// Why a text is not a distribution.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseError {
    /// No distribution has this name.
    #[error("unknown distribution `{0}`; there are simple_stripe, varstrip, two_d and basic")]
    UnknownName(String),
    /// The distribution has no such parameter, or it was given twice.
    #[error("`{0}` is no parameter of this distribution, or was given twice")]
    UnknownParameter(String),
    /// Not `name=value`.
    #[error("`{0}` should read name=value")]
    NotAPair(String),
    /// Not a number, or too large a one.
    #[error("`{0}` is not a number of bytes such as 65536, 64K or 1M")]
    NotANumber(String),
    /// Well written, but out of range.
    #[error(transparent)]
    Dist(#[from] DistError),
}

impl Default for Scheme {
    fn default() -> Self {
        Self::SimpleStripe { ssize: SSIZE_DEFAULT }
    }
}

impl Scheme {
    /// The distribution over at most `iods` slots. `basic` and `varstrip` take the slots they need;
    /// `two_d` makes fewer groups when there are fewer iods than groups, as in PVFS2.
    pub fn over(&self, iods: u32) -> Result<Dist, DistError> {
        match self {
            Self::SimpleStripe { ssize } => Dist::simple_stripe(*ssize, iods),
            Self::TwoD { groups, factor, ssize } => {
                Dist::two_d((*groups).min(iods), *factor, *ssize, iods)
            }
            Self::Varstrip { strips } => Self::varstrip_over(strips, iods),
            Self::Basic if iods == 0 => Err(DistError::NoSlots),
            Self::Basic => Ok(Dist::basic()),
        }
    }

    /// The same with strips of `ssize` bytes, where the distribution has one strip size.
    pub fn with_ssize(mut self, new_ssize: u64) -> Self {
        if let Self::SimpleStripe { ssize } | Self::TwoD { ssize, .. } = &mut self {
            *ssize = new_ssize;
        }
        self
    }

    fn varstrip_over(strips: &[Strip], iods: u32) -> Result<Dist, DistError> {
        let dist = Dist::varstrip(strips.iter().copied())?;
        match dist.slots() {
            needed if needed > iods => Err(DistError::TooFewSlots { needed, slots: iods }),
            _ => Ok(dist),
        }
    }

    /// Refuses what no number of iods could make right.
    fn checked(self) -> Result<Self, DistError> {
        match &self {
            Self::SimpleStripe { .. } | Self::Basic => self.over(1)?,
            Self::TwoD { groups, factor, ssize } => Dist::two_d(*groups, *factor, *ssize, *groups)?,
            Self::Varstrip { .. } => self.over(SLOTS_MAX)?,
        };
        Ok(self)
    }
}

impl Dist {
    /// The name and parameters of this distribution: `dist.scheme().over(dist.slots())` is `dist`.
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::SimpleStripe(dist) => Scheme::SimpleStripe { ssize: dist.ssize() },
            Self::Varstrip(dist) => Scheme::Varstrip { strips: dist.strips().to_vec() },
            Self::TwoD(dist) => {
                Scheme::TwoD { groups: dist.groups(), factor: dist.factor(), ssize: dist.ssize() }
            }
            Self::Basic(_) => Scheme::Basic,
        }
    }
}

/// Prints the [`Scheme`]; the number of slots is not part of the text.
impl fmt::Display for Dist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scheme().fmt(f)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SimpleStripe { ssize } => write!(f, "simple_stripe:ssize={ssize}"),
            Self::TwoD { groups, factor, ssize } => {
                write!(f, "two_d:groups={groups},factor={factor},ssize={ssize}")
            }
            Self::Varstrip { strips } => {
                f.write_str("varstrip")?;
                for (index, Strip { slot, size }) in strips.iter().enumerate() {
                    write!(f, "{}{slot}={size}", if index == 0 { ':' } else { ',' })?;
                }
                Ok(())
            }
            Self::Basic => f.write_str("basic"),
        }
    }
}

impl FromStr for Scheme {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (name, parameters) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let scheme = match name {
            "simple_stripe" => parse_simple_stripe(parameters)?,
            "varstrip" => Self::Varstrip { strips: parse_strips(parameters)? },
            "two_d" => parse_two_d(parameters)?,
            "basic" => parse_basic(parameters)?,
            _ => return Err(ParseError::UnknownName(name.to_owned())),
        };
        Ok(scheme.checked()?)
    }
}

/// Reads a number of bytes: digits, and K, M, G or T for powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, ParseError> {
    let refuse = || ParseError::NotANumber(text.to_owned());
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(refuse()),
    };
    if digits.starts_with('+') {
        return Err(refuse());
    }
    let number: u64 = digits.parse().map_err(|_| refuse())?;
    number.checked_mul(1 << shift).ok_or_else(refuse)
}

/// Where nothing is said, PVFS2's defaults.
fn parse_two_d(parameters: &str) -> Result<Scheme, ParseError> {
    let [groups, factor, ssize] = parse_named(parameters, ["groups", "factor", "ssize"])?;
    Ok(Scheme::TwoD {
        groups: to_u32(groups.unwrap_or(2))?,
        factor: to_u32(factor.unwrap_or(256))?,
        ssize: ssize.unwrap_or(SSIZE_DEFAULT),
    })
}

fn parse_simple_stripe(parameters: &str) -> Result<Scheme, ParseError> {
    let [ssize] = parse_named(parameters, ["ssize"])?;
    Ok(Scheme::SimpleStripe { ssize: ssize.unwrap_or(SSIZE_DEFAULT) })
}

fn parse_basic(parameters: &str) -> Result<Scheme, ParseError> {
    let [] = parse_named(parameters, [])?;
    Ok(Scheme::Basic)
}

/// Reads `name=number` pairs in any order.
fn parse_named<const N: usize>(
    parameters: &str,
    names: [&str; N],
) -> Result<[Option<u64>; N], ParseError> {
    let mut values = [None; N];
    for pair in pairs(parameters) {
        let (name, value) = pair?;
        let unknown = || ParseError::UnknownParameter(name.to_owned());
        let index = names.iter().position(|known| *known == name).ok_or_else(unknown)?;
        if values[index].replace(parse_bytes(value)?).is_some() {
            return Err(unknown());
        }
    }
    Ok(values)
}

fn parse_strips(parameters: &str) -> Result<Vec<Strip>, ParseError> {
    pairs(parameters)
        .take(VARSTRIP_STRIPS_MAX + 1)
        .map(|pair| {
            let (slot, size) = pair?;
            Ok(Strip { slot: to_u32(parse_bytes(slot)?)?, size: parse_bytes(size)? })
        })
        .collect()
}

fn pairs(parameters: &str) -> impl Iterator<Item = Result<(&str, &str), ParseError>> {
    parameters.split([',', ';']).filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (name, value) =
            pair.split_once(['=', ':']).ok_or_else(|| ParseError::NotAPair(pair.to_owned()))?;
        Ok((name.trim(), value.trim()))
    })
}

fn to_u32(number: u64) -> Result<u32, ParseError> {
    u32::try_from(number).map_err(|_| ParseError::NotANumber(number.to_string()))
}
