//! What a path on a command line means: inside of the file system, or of this machine.
//!
//! `pvfs:/a/b` is inside. So is a path below a mount of the file system, as in `/scratch/a/b`; then
//! the mount also says which cluster is meant. Every other path is of this machine, except that
//! commands which know no other place than the file system take it as inside. Names are bytes, as the kernel has them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

pub use pvfs_posix::mounts::{Mount, mounts};

/// A path of a command line, understood.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// Of this machine.
    Local(PathBuf),
    /// Inside of the file system.
    Inside(Inside),
}

/// A path inside of the file system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Inside {
    /// From its root, beginning with a slash.
    pub path: PathBuf,
    /// The cluster file of the mount it was named through.
    pub config: Option<PathBuf>,
}

impl Place {
    /// Understands a path; relative ones start from `working`, an absolute path.
    pub fn of(text: &OsStr, working: &Path, mounts: &[Mount]) -> Self {
        if let Some(path) = text.as_bytes().strip_prefix(b"pvfs:") {
            let path = rooted(Path::new(OsStr::from_bytes(path)));
            return Self::Inside(Inside { path, config: None });
        }
        let path = plain(&working.join(text));
        let below = |mount: &&Mount| path.starts_with(&mount.directory);
        match mounts.iter().filter(below).max_by_key(|m| m.directory.as_os_str().len()) {
            Some(mount) => Self::Inside(inside(mount, &path)),
            None => Self::Local(text.into()),
        }
    }

    /// The path inside of the file system, where no other place makes sense.
    pub fn into_inside(self) -> Inside {
        match self {
            Self::Inside(inside) => inside,
            Self::Local(path) => Inside { path: rooted(&path), config: None },
        }
    }
}

fn inside(mount: &Mount, path: &Path) -> Inside {
    let rest = path.strip_prefix(&mount.directory).expect("the caller asked whether it is below");
    Inside { path: rooted(rest), config: mount.config() }
}

fn rooted(path: &Path) -> PathBuf {
    plain(&Path::new("/").join(path))
}

/// An absolute path without `.` and `..`, by its text alone: what is inside is not ours to follow.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::from("/"), |mut plain, component| {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            _ => {}
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn inside(path: &str, config: Option<&str>) -> Place {
        Place::Inside(Inside { path: path.into(), config: config.map(PathBuf::from) })
    }

    #[test]
    fn a_path_is_inside_by_its_prefix_or_its_mount() {
        let mount = |directory: &str, source: &str| Mount {
            directory: directory.into(),
            source: source.into(),
        };
        let mounts = [mount("/scratch", "/etc/pvfs/cluster.toml"), mount("/scratch/in", "other")];
        let of = |text: &str| Place::of(OsStr::new(text), Path::new("/scratch/home"), &mounts);
        let config = Some("/etc/pvfs/cluster.toml");
        assert_eq!(of("pvfs:/a/../b"), inside("/b", None));
        assert_eq!(of("pvfs:a"), inside("/a", None));
        assert_eq!(of("pvfs:"), inside("/", None));
        assert_eq!(of("/scratch"), inside("/", config));
        assert_eq!(of("/scratch/a/b"), inside("/a/b", config));
        assert_eq!(of("x"), inside("/home/x", config));
        assert_eq!(of("/scratch/in/x"), inside("/x", None));
        assert_eq!(of("/scratchy/x"), Place::Local("/scratchy/x".into()));
        assert_eq!(of("../../tmp"), Place::Local("../../tmp".into()));
        assert_eq!(of("/tmp/x").into_inside().path, Path::new("/tmp/x"));
    }

    #[test]
    fn a_path_keeps_bytes_that_are_no_text() {
        let inside = |bytes| Place::of(OsStr::from_bytes(bytes), Path::new("/"), &[]).into_inside();
        let of = |bytes| inside(bytes).path.into_os_string().into_vec();
        assert_eq!(of(b"pvfs:/a\xff/\xfe"), b"/a\xff/\xfe");
        assert_eq!(of(b"/a\xff"), b"/a\xff");
    }
}
