//! Layouts of files as C has them, and as the file system does.

use pvfs_layout::Scheme;
use pvfs_wire::Errno;
use pvfs_wire::attr::{Placement, Striping};

/// `struct pvfs_filestat`, the striping of PVFS 1. Of ordinary files: no iods.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Filestat {
    base: i32,
    pcount: i32,
    ssize: i32,
    soff: i32,
    bsize: i32,
}

/// What a struct wishes for a new file: -1 is the default, as is a strip size of 0.
pub fn wishes_of(meta: &Filestat) -> Result<Striping, Errno> {
    Ok(Striping {
        base: wish(meta.base.into())?,
        pcount: wish(meta.pcount.into())?,
        ssize: if meta.ssize == 0 { None } else { wish(meta.ssize.into())? },
        dist: None,
    })
}

impl Filestat {
    /// What is so. A strip size that does not fit, or that there is not just one of, is -1.
    pub fn of(placement: &Placement) -> Self {
        let small = |number: u64| i32::try_from(number).unwrap_or(-1);
        Self {
            base: small(placement.iods.get(0).map_or(0, |iod| iod.0.into())),
            pcount: small(placement.iods.len().into()),
            ssize: strip_bytes(placement).map_or(-1, small),
            soff: 0,
            bsize: 0,
        }
    }
}

/// Bytes of a strip, where all are of one size.
fn strip_bytes(placement: &Placement) -> Option<u64> {
    match placement.dist.scheme() {
        Scheme::SimpleStripe { ssize } | Scheme::TwoD { ssize, .. } => Some(ssize),
        Scheme::Varstrip { .. } | Scheme::Basic => None,
    }
}

fn wish<T: TryFrom<i64>>(number: i64) -> Result<Option<T>, Errno> {
    match number {
        -1 => Ok(None),
        number => T::try_from(number).map(Some).map_err(|_| Errno::EINVAL),
    }
}

/// `struct pvfs_layout`, in words of Rust.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Laid {
    /// The distribution as text; empty for the default.
    pub distribution: String,
    /// Where the first strip is; -1 for the file system's choice.
    pub base: i32,
    /// How many iods; -1 for the default.
    pub pcount: i32,
    /// Bytes of a strip; 0 for the default, -1 where there is none.
    pub ssize: i64,
    /// The iods, slot by slot; none for the file system's choice.
    pub iods: Vec<u32>,
}

/// A file's layout. EOVERFLOW where the struct has no room for it.
pub fn laid_file(placement: &Placement) -> Result<Laid, Errno> {
    let iods: Vec<u32> = placement.iods.iter().map(|iod| iod.0).collect();
    if iods.len() > IODS_MAX {
        return Err(Errno::EOVERFLOW);
    }
    Ok(Laid {
        distribution: fitting(placement.dist.to_string())?,
        base: iods.first().map_or(-1, |iod| *iod as i32),
        pcount: iods.len() as i32,
        ssize: strip_bytes(placement).map_or(-1, |bytes| bytes as i64),
        iods,
    })
}

/// What a directory gives to new files.
pub fn laid_directory(striping: &Striping) -> Result<Laid, Errno> {
    let or_default = |number: Option<u32>| number.map_or(-1, |number| number as i32);
    Ok(Laid {
        distribution: fitting(striping.dist.clone().unwrap_or_default())?,
        base: or_default(striping.base),
        pcount: or_default(striping.pcount),
        ssize: striping.ssize.map_or(0, |bytes| bytes as i64),
        iods: Vec::new(),
    })
}

/// What a layout wishes for, on a file system of `iod_count` iods. A list of iods has to be what a base and a count
/// can say: consecutive ones, the first after the last; EOPNOTSUPP for others.
pub fn striping(laid: &Laid, iod_count: u32) -> Result<Striping, Errno> {
    let dist = Some(&laid.distribution).filter(|text| !text.is_empty());
    if let Some(text) = dist {
        text.parse::<Scheme>().map_err(|_| Errno::EINVAL)?;
    }
    let mut striping = Striping {
        base: wish(laid.base.into())?,
        pcount: wish(laid.pcount.into())?,
        ssize: if laid.ssize == 0 { None } else { wish(laid.ssize)? },
        dist: dist.cloned(),
    };
    let Some(first) = laid.iods.first() else { return Ok(striping) };
    let count = laid.iods.len() as u32;
    if laid.iods.iter().any(|iod| *iod >= iod_count) || count > iod_count {
        return Err(Errno::EINVAL);
    }
    if laid.iods.windows(2).any(|pair| (pair[0] + 1) % iod_count != pair[1]) {
        return Err(Errno::EOPNOTSUPP);
    }
    let (base, pcount) =
        (striping.base.get_or_insert(*first), striping.pcount.get_or_insert(count));
    if *base != *first || *pcount != count {
        return Err(Errno::EINVAL);
    }
    Ok(striping)
}

fn fitting(text: String) -> Result<String, Errno> {
    // A zero byte comes after it.
    if text.len() < DISTRIBUTION_MAX { Ok(text) } else { Err(Errno::EOVERFLOW) }
}

/// Room for a distribution in the struct.
pub const DISTRIBUTION_MAX: usize = 256;

/// Room for iods in the struct.
pub const IODS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_layout::{Dist, IodId, IodList};

    fn laid() -> Laid {
        Laid { distribution: String::new(), base: -1, pcount: -1, ssize: 0, iods: Vec::new() }
    }

    #[test]
    fn what_is_so_can_be_wished_for() {
        let iods = IodList::new([2, 3, 0].map(IodId)).unwrap();
        let placement = Placement { dist: Dist::simple_stripe(4096, 3).unwrap(), iods };
        let told = laid_file(&placement).unwrap();
        assert_eq!((told.base, told.pcount, told.ssize), (2, 3, 4096));
        let wished = striping(&told, 4).unwrap();
        assert_eq!((wished.base, wished.pcount, wished.ssize), (Some(2), Some(3), Some(4096)));
        let meta = Filestat::of(&placement);
        assert_eq!((meta.base, meta.pcount, meta.ssize), (2, 3, 4096));
    }

    #[test]
    fn defaults_are_wished_for_as_in_pvfs_1() {
        assert!(striping(&laid(), 0).unwrap().is_default());
        assert!(
            wishes_of(&Filestat { base: -1, pcount: -1, ..Filestat::default() })
                .unwrap()
                .is_default()
        );
        assert_eq!(laid_directory(&Striping::default()), Ok(laid()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let of = |change: fn(&mut Laid)| {
            let mut laid = laid();
            change(&mut laid);
            striping(&laid, 4).err()
        };
        assert_eq!(of(|laid| laid.base = -2), Some(Errno::EINVAL));
        assert_eq!(of(|laid| laid.ssize = -2), Some(Errno::EINVAL));
        assert_eq!(of(|laid| laid.distribution = "nonsense".into()), Some(Errno::EINVAL));
        assert_eq!(of(|laid| laid.iods = vec![4]), Some(Errno::EINVAL));
        assert_eq!(of(|laid| laid.iods = vec![0, 2]), Some(Errno::EOPNOTSUPP));
        assert_eq!(of(|laid| (laid.base, laid.iods) = (1, vec![0, 1])), Some(Errno::EINVAL));
        assert_eq!(of(|laid| laid.iods = vec![3, 0]), None);
    }
}
