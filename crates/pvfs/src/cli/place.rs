//! What a path on a command line means: inside of the file system, or of this machine.
//!
//! `pvfs:/a/b` is inside. So is a path below a mount of the file system, as in `/scratch/a/b`; then
//! the mount also says which cluster is meant. Every other path is of this machine, except that
//! commands which know no other place than the file system take it as inside.

use std::fs;
use std::path::{Component, Path, PathBuf};

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
    pub path: String,
    /// The cluster file of the mount it was named through.
    pub config: Option<PathBuf>,
}

/// A mounted file system of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mount {
    /// Where it is mounted.
    pub directory: PathBuf,
    /// What it was mounted from: the absolute path of the cluster file.
    pub source: String,
}

impl Place {
    /// Understands a path; relative ones start from `working`, an absolute path.
    pub fn of(text: &str, working: &Path, mounts: &[Mount]) -> Self {
        if let Some(path) = text.strip_prefix("pvfs:") {
            return Self::Inside(Inside { path: rooted(Path::new(path)), config: None });
        }
        let path = plain(&working.join(text));
        let below = |mount: &&Mount| path.starts_with(&mount.directory);
        match mounts.iter().filter(below).max_by_key(|m| m.directory.as_os_str().len()) {
            Some(mount) => Self::Inside(mount.inside(&path)),
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

impl Mount {
    fn inside(&self, path: &Path) -> Inside {
        let rest =
            path.strip_prefix(&self.directory).expect("the caller asked whether it is below");
        let config = self.source.starts_with('/').then(|| self.source.clone().into());
        Inside { path: rooted(rest), config }
    }
}

/// The mounts of this machine, from /proc/self/mountinfo; none where it cannot be read.
pub fn mounts() -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

/// A line of proc(5): `36 35 98:0 / /mnt rw,noatime master:1 - fuse.pvfs SOURCE rw,...`
fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut about = after.split(' ');
    let (kind, source) = (about.next()?, about.next()?);
    let directory = before.split(' ').nth(4)?;
    matches!(kind, "fuse.pvfs" | "pvfs")
        .then(|| Mount { directory: unescape(directory).into(), source: unescape(source) })
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

fn rooted(path: &Path) -> String {
    plain(&Path::new("/").join(path)).display().to_string()
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
        let of = |text| Place::of(text, Path::new("/scratch/home"), &mounts);
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
        assert_eq!(of("/tmp/x").into_inside().path, "/tmp/x");
    }

    #[test]
    fn mounts_are_read_as_the_kernel_writes_them() {
        let line = r"36 35 0:98 / /mnt/my\040files rw,nosuid shared:1 - fuse.pvfs /etc/c.toml rw";
        let expected = Mount { directory: "/mnt/my files".into(), source: "/etc/c.toml".into() };
        assert_eq!(parse_mount(line), Some(expected));
        for other in ["", "36 35 0:98 / / rw - ext4 /dev/sda rw", "- fuse.pvfs", " - fuse.pvfs x"] {
            assert_eq!(parse_mount(other), None, "{other}");
        }
    }
}
