//! Where file systems of ours are mounted on this machine, as the kernel tells.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A mounted file system of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mount {
    /// Where it is mounted.
    pub directory: PathBuf,
    /// What it was mounted from: the absolute path of the cluster file.
    pub source: OsString,
}

impl Mount {
    /// The cluster file, where the mount names it.
    pub fn config(&self) -> Option<PathBuf> {
        self.source.as_bytes().starts_with(b"/").then(|| self.source.clone().into())
    }
}

/// The mounts of this machine, from /proc/self/mountinfo; none where it cannot be read.
pub fn mounts() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect()
}

/// A line of proc(5): `36 35 98:0 / /mnt rw,noatime master:1 - fuse.pvfs SOURCE rw,...`. Names are bytes, of any kind.
fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let directory = fields.nth(4)?;
    let mut about = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (about.next()?, about.next()?);
    let is_ours = matches!(kind, b"fuse.pvfs" | b"pvfs");
    is_ours.then(|| Mount {
        directory: OsString::from_vec(unescape(directory)).into(),
        source: OsString::from_vec(unescape(source)),
    })
}

/// The kernel writes what would be taken for something else as `\` and three octal digits.
fn unescape(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        let code = rest.first_chunk::<3>().filter(|_| *first == b'\\').and_then(octal);
        plain.push(code.unwrap_or(*first));
        text = if code.is_some() { &rest[3..] } else { rest };
    }
    plain
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_as_the_kernel_writes_them() {
        let line = br"36 35 0:98 / /mnt/my\040files rw,nosuid shared:1 - fuse.pvfs /etc/c.toml rw";
        let expected = Mount { directory: "/mnt/my files".into(), source: "/etc/c.toml".into() };
        assert_eq!(parse_mount(line), Some(expected));
        for other in ["", "36 35 0:98 / / rw - ext4 /dev/sda rw", "- fuse.pvfs", " - fuse.pvfs x"] {
            assert_eq!(parse_mount(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn names_are_any_bytes() {
        let line = b"36 35 0:98 / /m\xff\\043\\134040\\08 rw - pvfs pvfs rw";
        let directory = parse_mount(line).unwrap().directory.into_os_string().into_vec();
        assert_eq!(directory, b"/m\xff#\\040\\08");
    }
}
