//! Where the data of a new file will lie: wishes, the directory's defaults, the file system's.

use std::fmt;

use pvfs_layout::{Scheme, choose_base};
use pvfs_wire::Errno;
use pvfs_wire::attr::{Placement, Striping};

use crate::execute::{Context, Policy};

impl Context<'_, '_> {
    /// Places a new file: what `wish` leaves open `defaults` decide, then the policy.
    pub fn place_file(&mut self, wish: &Striping, defaults: &Striping) -> Result<Placement, Errno> {
        let base = choose_base(&self.policy.free_bytes, self.random.number());
        place(self.policy, wish, defaults, base.unwrap_or(0))
    }
}

fn place(
    policy: &Policy,
    wish: &Striping,
    defaults: &Striping,
    base: u32,
) -> Result<Placement, Errno> {
    let (scheme, ssize) = scheme(policy, wish, defaults)?;
    let chosen = pvfs_layout::Placement {
        base: wish.base.or(defaults.base),
        pcount: wish.pcount.or(defaults.pcount).or(policy.pcount),
        ssize,
    };
    let (dist, iods) = chosen.place(&scheme, &policy.iods, base).map_err(|error| {
        tracing::debug!(%error, "striping refused");
        Errno::EINVAL
    })?;
    Ok(Placement { dist, iods })
}

/// The scheme, and the strip size that replaces its own. A strip size goes with the scheme of its
/// level: who names a distribution does not want the strip size of the directory's.
fn scheme(
    policy: &Policy,
    wish: &Striping,
    defaults: &Striping,
) -> Result<(Scheme, Option<u64>), Errno> {
    let parse = |text: &str| text.parse::<Scheme>().map_err(|_| Errno::EINVAL);
    match (&wish.dist, &defaults.dist) {
        (Some(text), _) => Ok((parse(text)?, wish.ssize)),
        (None, Some(text)) => Ok((parse(text)?, wish.ssize.or(defaults.ssize))),
        (None, None) => Ok((policy.scheme.clone(), wish.ssize.or(defaults.ssize))),
    }
}

/// One of the striping parameters that extended attributes show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Parameter {
    /// `user.pvfs.dist`
    Dist,
    /// `user.pvfs.base`
    Base,
    /// `user.pvfs.pcount`
    Pcount,
    /// `user.pvfs.ssize`
    Ssize,
    /// `user.pvfs.iods`: the list, which cannot be set.
    Iods,
}

impl Parameter {
    /// All that a directory can have.
    pub const SETTABLE: [Self; 4] = [Self::Dist, Self::Base, Self::Pcount, Self::Ssize];

    /// The parameter of an attribute's name. ENODATA for other names of the family.
    pub fn of(name: &[u8]) -> Option<Result<Self, Errno>> {
        let known = [Self::Dist, Self::Base, Self::Pcount, Self::Ssize, Self::Iods];
        let ours = name.starts_with(PREFIX.as_bytes());
        let found = known.into_iter().find(|parameter| parameter.name().as_bytes() == name);
        ours.then_some(found.ok_or(Errno::ENODATA))
    }

    /// The attribute's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dist => "user.pvfs.dist",
            Self::Base => "user.pvfs.base",
            Self::Pcount => "user.pvfs.pcount",
            Self::Ssize => "user.pvfs.ssize",
            Self::Iods => "user.pvfs.iods",
        }
    }

    /// Its value for a file.
    pub fn of_file(self, placement: &Placement) -> String {
        match self {
            Self::Dist => placement.dist.to_string(),
            Self::Base => placement.iods.get(0).map_or(0, |iod| iod.0).to_string(),
            Self::Pcount => placement.iods.len().to_string(),
            Self::Ssize => ssize(&placement.dist.scheme()).to_string(),
            Self::Iods => list(placement.iods.iter()),
        }
    }

    /// Its value in the defaults of a directory.
    pub fn of_defaults(self, striping: &Striping) -> Option<String> {
        match self {
            Self::Dist => striping.dist.clone(),
            Self::Base => striping.base.map(|base| base.to_string()),
            Self::Pcount => striping.pcount.map(|pcount| pcount.to_string()),
            Self::Ssize => striping.ssize.map(|ssize| ssize.to_string()),
            Self::Iods => None,
        }
    }

    /// Sets it from text, -1 meaning the default as in PVFS 1. EINVAL when no file could be placed so.
    pub fn set(self, striping: &mut Striping, value: &[u8], policy: &Policy) -> Result<(), Errno> {
        let text = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        self.put(striping, if text == "-1" { None } else { Some(text) })?;
        place(policy, striping, &Striping::default(), 0).map(|_| ())
    }

    /// Forgets it.
    pub fn clear(self, striping: &mut Striping) {
        self.put(striping, None).expect("nothing is always understood");
    }

    fn put(self, striping: &mut Striping, text: Option<&str>) -> Result<(), Errno> {
        match self {
            Self::Dist => striping.dist = text.map(normal).transpose()?,
            Self::Base => striping.base = text.map(number).transpose()?,
            Self::Pcount => striping.pcount = text.map(number).transpose()?,
            Self::Ssize => striping.ssize = text.map(bytes).transpose()?,
            Self::Iods => return Err(Errno::EPERM),
        }
        Ok(())
    }
}

/// The family of the names.
pub const PREFIX: &str = "user.pvfs.";

fn list(items: impl Iterator<Item = impl fmt::Display>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

fn ssize(scheme: &Scheme) -> u64 {
    match scheme {
        Scheme::SimpleStripe { ssize } | Scheme::TwoD { ssize, .. } => *ssize,
        Scheme::Varstrip { .. } | Scheme::Basic => 0,
    }
}

fn normal(text: &str) -> Result<String, Errno> {
    text.parse::<Scheme>().map(|scheme| scheme.to_string()).map_err(|_| Errno::EINVAL)
}

fn number(text: &str) -> Result<u32, Errno> {
    text.parse().map_err(|_| Errno::EINVAL)
}

/// A number of bytes as the distributions' own parameters are written.
fn bytes(text: &str) -> Result<u64, Errno> {
    match format!("simple_stripe:ssize={text}").parse() {
        Ok(Scheme::SimpleStripe { ssize }) => Ok(ssize),
        _ => Err(Errno::EINVAL),
    }
}
