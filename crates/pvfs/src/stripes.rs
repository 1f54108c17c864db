//! Striping as commands set and show it: wishes for a new file, defaults of a directory.

use pvfs_client::block_on;
use pvfs_config::Cluster;
use pvfs_wire::Errno;
use pvfs_wire::attr;
use pvfs_wire::ops::XattrFlags;
use serde_json::{Map, Value};

use crate::cli::exit::{Exit, Failure};
use crate::cli::striping::Striping;
use crate::connected::Inner;

/// What the flags wish for a new file.
pub fn wishes(striping: &Striping) -> Result<attr::Striping, Failure> {
    let placement = striping.placement()?;
    Ok(attr::Striping {
        base: placement.base,
        pcount: placement.pcount,
        ssize: placement.ssize,
        dist: striping.distribution.as_ref().map(ToString::to_string),
    })
}

/// Refuses what this cluster cannot do, in words: the manager would only say `invalid argument`.
pub fn refuse_unfit(striping: &Striping, cluster: &Cluster) -> Result<(), Failure> {
    let (placement, iods) = (striping.placement()?, cluster.iods.len() as u32);
    let has = if iods == 1 { "1 iod".into() } else { format!("{iods} iods, 0 to {}", iods - 1) };
    let refused = |sentence| Err(Failure::new(Exit::Usage, sentence));
    match (placement.pcount, placement.base) {
        (Some(0), _) => refused("pcount 0: a file lies on at least one iod".into()),
        (Some(pcount), _) if pcount > iods => {
            refused(format!("pcount {pcount} is too many: the file system has {has}"))
        }
        (_, Some(base)) if base >= iods => {
            refused(format!("there is no iod {base}: the file system has {has}"))
        }
        _ if placement.ssize == Some(0) => refused("a strip has at least one byte".into()),
        _ => Ok(()),
    }
}

/// Makes the flags' striping the default of a directory; what they do not say stays.
pub fn set_directory(place: &Inner, striping: &Striping) -> Result<(), Failure> {
    let wishes = wishes(striping)?;
    let values = [
        ("dist", wishes.dist),
        ("ssize", wishes.ssize.map(|value| value.to_string())),
        ("pcount", wishes.pcount.map(|value| value.to_string())),
        ("base", wishes.base.map(|value| value.to_string())),
    ];
    let wished = values.into_iter().filter_map(|(name, value)| Some((name, value?)));
    wished.into_iter().try_for_each(|(name, value)| set(place, name, &value))
}

/// Gives a directory the defaults of its parent in place of its own, as if it were made now.
pub fn inherit_directory(place: &Inner) -> Result<(), Failure> {
    forget_directory(place)?;
    let Some(parent) = place.parent() else { return Ok(()) };
    let Value::Object(fields) = of_directory(&parent)? else { return Ok(()) };
    let values = fields.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    values.into_iter().try_for_each(|(name, value)| set(place, name, value))
}

fn set(place: &Inner, name: &str, value: &str) -> Result<(), Failure> {
    let (target, name) = (place.target()?, xattr(name));
    let flags = XattrFlags::NONE;
    let set = place.user().set_xattr(target, true, name.as_bytes(), value.as_bytes(), flags);
    place.done(&format!("set {name} of"), block_on(set))
}

/// Takes a directory's own defaults away.
fn forget_directory(place: &Inner) -> Result<(), Failure> {
    for name in NAMES {
        let (target, name) = (place.target()?, xattr(name));
        match block_on(place.user().remove_xattr(target, true, name.as_bytes())) {
            Err(error) if error.errno() == Errno::ENODATA => {}
            removed => place.done(&format!("remove {name} of"), removed)?,
        }
    }
    Ok(())
}

/// The defaults that a directory has of its own.
pub fn of_directory(place: &Inner) -> Result<Value, Failure> {
    let mut fields = Map::new();
    for name in NAMES {
        match block_on(place.user().get_xattr(place.target()?, true, xattr(name).as_bytes())) {
            Err(error) if error.errno() == Errno::ENODATA => {}
            value => {
                let value = place.done("look at", value)?;
                fields.insert(name.into(), String::from_utf8_lossy(&value).into_owned().into());
            }
        }
    }
    Ok(Value::Object(fields))
}

fn xattr(name: &str) -> String {
    format!("user.pvfs.{name}")
}

const NAMES: [&str; 4] = ["dist", "ssize", "pcount", "base"];
