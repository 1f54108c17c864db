//! The file at a store's root that says what it is, whose, and in which version.
//!
//! ```text
//! pvfs-iod store
//! version 1
//! iod io3
//! uuid 0d9c6f0e-6f0c-4f3e-9a52-0d8a6c0f7b11
//! ```
//!
//! It is locked (flock) by the daemon that uses the store. A store is made on purpose only: a daemon
//! started over a mount point whose disk is not mounted must not take the empty directory for its store.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Whose store it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreName {
    /// The iod's name in the cluster file.
    pub iod: String,
    /// Random, made with the store.
    pub uuid: String,
}

/// Why a directory cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Nothing there.
    #[error("{} holds no store; if its disk is mounted there, make one with pvfs iod --format", .0.display())]
    NotFormatted(PathBuf),
    /// Something else is there.
    #[error("{} is not empty and holds no pvfs iod store; choose an empty directory", .0.display())]
    Foreign(PathBuf),
    /// A store is there already.
    #[error("{} holds a store already; remove it by hand if its data may go", .0.display())]
    Formatted(PathBuf),
    /// Made by a version after this one.
    #[error("{} has store format {found}, this version knows {VERSION}; run the version that made it", path.display())]
    Newer {
        /// The store.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
    /// Belongs to another iod.
    #[error("{} is the store of {owner}, not of {asked}; check the store paths of both in the cluster file", path.display())]
    OtherIod {
        /// The store.
        path: PathBuf,
        /// Whose it is.
        owner: String,
        /// Who wanted it.
        asked: String,
    },
    /// Another daemon uses it.
    #[error("{} is in use by another daemon; stop it first", .0.display())]
    InUse(PathBuf),
    /// The format file makes no sense.
    #[error("{} is damaged; restore it from the description in docs/disk.md", .0.display())]
    Damaged(PathBuf),
    /// The system refused.
    #[error("cannot use {} as a store: {source}", path.display())]
    System {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes an empty directory (created if need be) the store of `iod`.
pub fn format(root: &Path, iod: &str) -> Result<StoreName, FormatError> {
    let system = |source| FormatError::System { path: root.to_owned(), source };
    std::fs::create_dir_all(root).map_err(system)?;
    if root.join(FILE).exists() {
        return Err(FormatError::Formatted(root.to_owned()));
    }
    if !is_empty(root).map_err(system)? {
        return Err(FormatError::Foreign(root.to_owned()));
    }
    let name = StoreName { iod: iod.to_owned(), uuid: random_uuid().map_err(system)? };
    write_durably(root, &name.text()).map_err(system)?;
    Ok(name)
}

/// Opens and locks the store of `iod`. It stays locked until the file is closed.
pub fn open(root: &Path, iod: &str) -> Result<(File, StoreName), FormatError> {
    let path = root.join(FILE);
    let file = OpenOptions::new().read(true).open(&path).map_err(|e| absent(root, e))?;
    lock(root, &file)?;
    let mut text = String::new();
    let system = |source| FormatError::System { path: root.to_owned(), source };
    (&file).take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(system)?;
    let name = StoreName::parse(root, &text)?;
    if name.iod != iod {
        let (owner, asked) = (name.iod, iod.to_owned());
        return Err(FormatError::OtherIod { path: root.to_owned(), owner, asked });
    }
    Ok((file, name))
}

fn absent(root: &Path, error: io::Error) -> FormatError {
    let path = root.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound if is_empty(root).unwrap_or(true) => {
            FormatError::NotFormatted(path)
        }
        io::ErrorKind::NotFound => FormatError::Foreign(path),
        _ => FormatError::System { path, source: error },
    }
}

fn lock(root: &Path, file: &File) -> Result<(), FormatError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(FormatError::InUse(root.to_owned())),
        Err(error) => Err(FormatError::System { path: root.to_owned(), source: error.into() }),
    }
}

/// A new file system has a `lost+found`, and an interrupted format its temporary file.
fn is_empty(root: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(root)? {
        let name = entry?.file_name();
        if name != "lost+found" && name != FILE_NEW {
            return Ok(false);
        }
    }
    Ok(true)
}

impl StoreName {
    fn text(&self) -> String {
        format!("{MAGIC}\nversion {VERSION}\niod {}\nuuid {}\n", self.iod, self.uuid)
    }

    fn parse(root: &Path, text: &str) -> Result<Self, FormatError> {
        let damaged = || FormatError::Damaged(root.join(FILE));
        let mut lines = text.lines();
        if lines.next() != Some(MAGIC) {
            return Err(damaged());
        }
        let mut field = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.strip_prefix(' ')).map(str::to_owned).ok_or_else(damaged)
        };
        let found = field("version")?.parse().map_err(|_| damaged())?;
        if found > VERSION {
            return Err(FormatError::Newer { path: root.to_owned(), found });
        }
        Ok(Self { iod: field("iod")?, uuid: field("uuid")? })
    }
}

fn write_durably(root: &Path, text: &str) -> io::Result<()> {
    let new = root.join(FILE_NEW);
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, root.join(FILE))?;
    File::open(root)?.sync_all()
}

/// A version 4 UUID.
fn random_uuid() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(text, "{dash}{byte:02x}").expect("writing to a string cannot fail");
    }
    Ok(text)
}

/// The format this version writes, and the newest it reads.
pub const VERSION: u32 = 1;
const MAGIC: &str = "pvfs-iod store";
const FILE: &str = "pvfs-iod";
const FILE_NEW: &str = "pvfs-iod.new";
const FILE_BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_made_once_and_opened_by_its_iod_only() {
        let dir = tempfile::tempdir().unwrap();
        let made = format(dir.path(), "io3").unwrap();
        assert!(matches!(format(dir.path(), "io3"), Err(FormatError::Formatted(_))));
        assert_eq!(open(dir.path(), "io3").unwrap().1, made);
        let error = open(dir.path(), "io4").unwrap_err().to_string();
        assert!(error.contains("is the store of io3, not of io4"), "{error}");
    }

    #[test]
    fn two_daemons_never_share_a_store() {
        let dir = tempfile::tempdir().unwrap();
        format(dir.path(), "io3").unwrap();
        let first = open(dir.path(), "io3").unwrap();
        assert!(matches!(open(dir.path(), "io3"), Err(FormatError::InUse(_))));
        drop(first);
        open(dir.path(), "io3").unwrap();
    }

    #[test]
    fn an_empty_or_foreign_directory_is_no_store() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(open(dir.path(), "io3"), Err(FormatError::NotFormatted(_))));
        let nowhere = dir.path().join("nowhere");
        assert!(matches!(open(&nowhere, "io3"), Err(FormatError::NotFormatted(_))));
        std::fs::write(dir.path().join("homework.txt"), "mine").unwrap();
        assert!(matches!(open(dir.path(), "io3"), Err(FormatError::Foreign(_))));
        assert!(matches!(format(dir.path(), "io3"), Err(FormatError::Foreign(_))));
    }

    #[test]
    fn a_newer_or_damaged_store_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(dir.path().join(FILE), text).unwrap();
        write("pvfs-iod store\nversion 2\nsomething new\n");
        let error = open(dir.path(), "io3").unwrap_err().to_string();
        assert!(error.contains("has store format 2, this version knows 1"), "{error}");
        for text in
            ["", "something\n", "pvfs-iod store\nversion one\n", "pvfs-iod store\nversion 1\n"]
        {
            write(text);
            assert!(matches!(open(dir.path(), "io3"), Err(FormatError::Damaged(_))), "{text:?}");
        }
    }
}
