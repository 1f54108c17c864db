//! The cluster key: 32 random bytes that every daemon holds and no user may read.
//!
//! The file is one line of 64 hexadecimal digits with mode 0600; while a key is rolled, one line for each key:
//! the first signs, all are accepted. Reading refuses a file that group or others could read or change, because
//! whoever holds the key can be anybody.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The secret that daemons and agents of one cluster share.
#[derive(Clone, Eq, PartialEq)]
pub struct ClusterKey([u8; KEY_BYTES]);

/// Why a key file was refused.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Not there, or not readable by this user.
    #[error("cannot read the cluster key {}: {source}; \
             run this as the user of the daemons, run pvfs agent on this node, or copy the key here with mode 0600", path.display())]
    Unreadable {
        /// The key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Group or others may read or change it.
    #[error("the cluster key {0} has mode {mode:04o}, open to others than its owner; run chmod 600 {0}", path.display())]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Not lines of 64 hexadecimal digits, or too many of them.
    #[error("{} is not a cluster key; \
             it must hold one line of 64 hexadecimal digits, as pvfs genconfig writes it, \
             or up to {KEYS_MAX} such lines while the key is rolled", path.display())]
    Malformed {
        /// The key file.
        path: PathBuf,
    },
    /// It exists already, and replacing it would lock out a running cluster.
    #[error("the cluster key {0} exists already; keep it, or move it away first", path.display())]
    Exists {
        /// The key file.
        path: PathBuf,
    },
    /// It could not be written.
    #[error("cannot write the cluster key {}: {source}; choose another directory", path.display())]
    Unwritable {
        /// The key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}; check that getrandom(2) is allowed here")]
    NoRandom(getrandom::Error),
}

impl ClusterKey {
    /// A new key from the system's random source.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(KeyError::NoRandom)?;
        Ok(Self(bytes))
    }

    /// The key with these bytes, for tests and for keys that do not live in a file.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The secret itself.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Reads the keys of a file, refusing one that others may read or change. The first one signs.
    pub fn read(path: &Path) -> Result<Vec<Self>, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        // Asked of the open file, so that it cannot be exchanged between the look and the reading.
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = Vec::new();
        file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut text).map_err(unreadable)?;
        let malformed = || KeyError::Malformed { path: path.to_owned() };
        let lines = text.trim_ascii().split(|byte| *byte == b'\n');
        let keys: Option<Vec<Self>> =
            lines.map(|line| parse_hex(line.trim_ascii()).map(Self)).collect();
        keys.filter(|keys| keys.len() <= KEYS_MAX).ok_or_else(malformed)
    }

    /// Writes a key file that must not exist yet, with mode 0600 from its first moment.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        write_new(path, &format!("{}\n", self.hex()), 0o600).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists { path: path.to_owned() },
            _ => KeyError::Unwritable { path: path.to_owned(), source },
        })
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for ClusterKey {
    /// Never the secret: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

/// Writes a file that must not exist yet, with its permissions from its first moment.
pub fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn parse_hex(text: &[u8]) -> Option<[u8; KEY_BYTES]> {
    let mut bytes = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
        *byte = nibble(digits[0])? << 4 | nibble(digits[1])?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

const KEY_BYTES: usize = 32;
/// The one that signs, the one before it, the one after it, and one to spare.
const KEYS_MAX: usize = 4;
/// A key and a newline fit many times; a device or a log named by mistake is not read on and on.
const KEY_FILE_BYTES_MAX: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn key_file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.key");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn a_written_key_is_private_and_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.key");
        let key = ClusterKey::generate().unwrap();
        key.write_new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(ClusterKey::read(&path).unwrap(), std::slice::from_ref(&key));
        assert_ne!(ClusterKey::generate().unwrap(), key);
    }

    #[test]
    fn an_existing_key_is_never_replaced() {
        let (_directory, path) = key_file("kept", 0o600);
        let said = ClusterKey::from_bytes([7; 32]).write_new(&path).unwrap_err().to_string();
        assert!(said.contains("exists already; keep it"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }

    #[test]
    fn a_key_open_to_others_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o601, 0o777] {
            let (_directory, path) = key_file(&"ab".repeat(32), mode);
            let said = ClusterKey::read(&path).unwrap_err().to_string();
            let expected =
                format!("has mode {mode:04o}, open to others than its owner; run chmod 600");
            assert!(said.contains(&expected), "{said}");
        }
    }

    #[test]
    fn a_file_may_hold_the_keys_before_and_after() {
        let line = |digits: &str| digits.repeat(32);
        let (_directory, path) = key_file(&format!("{}\n{}\r\n", line("ab"), line("CD")), 0o600);
        let expected = [[0xab; 32], [0xcd; 32]].map(ClusterKey::from_bytes);
        assert_eq!(ClusterKey::read(&path).unwrap(), expected);
        let (_directory, path) = key_file(&format!("{}\n", line("ab")).repeat(5), 0o600);
        assert!(ClusterKey::read(&path).is_err(), "five are too many");
        let (_directory, path) = key_file(&format!("{}\n\n{}", line("ab"), line("cd")), 0o600);
        assert!(ClusterKey::read(&path).is_err(), "an empty line is no key");
    }

    #[test]
    fn a_file_that_is_no_key_is_refused() {
        for text in ["", "ab", &"zz".repeat(32), &"ab".repeat(33), &"x".repeat(4096)] {
            let (_directory, path) = key_file(text, 0o600);
            let said = ClusterKey::read(&path).unwrap_err().to_string();
            assert!(
                said.contains(
                    "is not a cluster key; \
             it must hold"
                ),
                "{said}"
            );
        }
    }

    #[test]
    fn the_secret_is_not_in_debug_output() {
        assert_eq!(format!("{:?}", ClusterKey::from_bytes([7; 32])), "ClusterKey(..)");
    }
}
