//! Striping as commands set and show it: wishes for a new file, defaults of a directory.

use pvfs_client::block_on;
use pvfs_wire::Errno;
use pvfs_wire::attr;
use pvfs_wire::ops::XattrFlags;
use serde_json::{Map, Value};

use crate::cli::exit::Failure;
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

/// Makes the flags' striping the default of a directory; what they do not say stays.
pub fn set_directory(place: &Inner, striping: &Striping) -> Result<(), Failure> {
    let wishes = wishes(striping)?;
    let values = [
        ("dist", wishes.dist),
        ("ssize", wishes.ssize.map(|value| value.to_string())),
        ("pcount", wishes.pcount.map(|value| value.to_string())),
        ("base", wishes.base.map(|value| value.to_string())),
    ];
    for (name, value) in values {
        let Some(value) = value else { continue };
        let (target, name) = (place.target()?, xattr(name));
        let set = place.user().set_xattr(
            target,
            true,
            name.as_bytes(),
            value.as_bytes(),
            XattrFlags::NONE,
        );
        place.done(&format!("set {name} of"), block_on(set))?;
    }
    Ok(())
}

/// Takes a directory's own defaults away.
pub fn inherit_directory(place: &Inner) -> Result<(), Failure> {
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
