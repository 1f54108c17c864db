//! Where file systems of ours are mounted on this machine, as the kernel tells.

use std::fs;
use std::path::PathBuf;

/// A mounted file system of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mount {
    /// Where it is mounted.
    pub directory: PathBuf,
    /// What it was mounted from: the absolute path of the cluster file.
    pub source: String,
}

impl Mount {
    /// The cluster file, where the mount names it.
    pub fn config(&self) -> Option<PathBuf> {
        self.source.starts_with('/').then(|| self.source.clone().into())
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

#[cfg(test)]
mod tests {
    use super::*;

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
