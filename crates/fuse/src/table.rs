//! The kernel's table of mounts: what is mounted where, also where nobody answers any more.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Where.
    pub directory: PathBuf,
    /// Device number, `major:minor`.
    pub device: String,
    /// Type of file system, such as `fuse.pvfs`.
    pub kind: String,
    /// What is mounted.
    pub source: OsString,
    /// How, as in /etc/fstab: for the whole file system and then for this place.
    pub options: String,
}

/// All mounts, in the order they were made.
pub fn entries() -> io::Result<Vec<Entry>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(parsed).collect())
}

/// The mount on top of a directory, if it is a mount point. Touches the directory's parent only, since the
/// directory itself may be one that no longer answers.
pub fn mounted_at(directory: &Path) -> io::Result<Option<Entry>> {
    let directory = without_touching(directory)?;
    Ok(entries()?.into_iter().rev().find(|entry| entry.directory == directory))
}

/// The full path of a directory that may be dead.
pub fn without_touching(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => {
            let path = parent.canonicalize()?.join(name);
            // Unlike stat(2), readlink(2) of a mount point does not ask whatever is mounted there.
            if fs::read_link(&path).is_ok() { path.canonicalize() } else { Ok(path) }
        }
        _ => absolute.canonicalize(),
    }
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext3 /dev/root rw,errors=continue`
fn parsed(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let (whole, here) = (text(fields.get(dash + 3)?), text(fields.get(5)?));
    Some(Entry {
        directory: PathBuf::from(unescaped(fields.get(4)?)),
        device: text(fields.get(2)?),
        kind: text(fields.get(dash + 1)?),
        source: unescaped(fields.get(dash + 2)?),
        options: format!("{whole},{here}"),
    })
}

/// Space, tab, newline and backslash are written `\040` and so on.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Whether a mount is one of ours.
impl Entry {
    /// Whether the mount was made by this program.
    pub fn is_pvfs(&self) -> bool {
        self.kind == KIND || self.kind == KIND_MEMORY || self.source.as_bytes().starts_with(b"pvfs")
    }
}

/// The type our mounts have.
pub const KIND: &str = "fuse.pvfs";

/// The type of in-memory file systems made for measuring.
pub const KIND_MEMORY: &str = "fuse.pvfs-memory";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_optional_fields() {
        let line = b"36 35 0:98 / /mnt/a\\040b rw,noatime shared:1 master:2 - fuse.pvfs scratch rw,user_id=0";
        let entry = parsed(line).unwrap();
        assert_eq!(entry.directory, PathBuf::from("/mnt/a b"));
        assert_eq!((entry.device.as_str(), entry.kind.as_str()), ("0:98", KIND));
        assert_eq!(entry.source, "scratch");
        assert_eq!(entry.options, "rw,user_id=0,rw,noatime");
        assert!(entry.is_pvfs());
    }

    #[test]
    fn nonsense_is_no_entry() {
        for line in
            [&b""[..], b"-", b"1 2 3", b"36 35 98:0 / /mnt rw -", b"36 35 98:0 / /mnt rw - ext4"]
        {
            assert_eq!(parsed(line), None);
        }
    }

    #[test]
    fn a_link_stands_for_what_it_points_to() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        assert_eq!(without_touching(&link).unwrap(), Path::new("/proc"));
        assert!(mounted_at(&link).unwrap().is_some());
    }

    #[test]
    fn the_root_is_mounted_and_a_plain_directory_is_not() {
        assert!(mounted_at(Path::new("/")).unwrap().is_some());
        let plain = tempfile::tempdir().unwrap();
        assert_eq!(mounted_at(plain.path()).unwrap(), None);
    }
}
