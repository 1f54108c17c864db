//! Where the file system is, for a process: from the environment, else from the table of file systems.
//!
//! The table, `/etc/pvfstab`, has lines like those of fstab(5), as with PVFS 1: the cluster file, the path under
//! which the file system appears, `pvfs`, and fields that do not matter here.
//!
//! ```text
//! /etc/pvfs/cluster.toml  /scratch  pvfs  defaults  0  0
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where the file system is, for this process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The path under which the file system appears.
    pub prefix: Vec<u8>,
    /// The cluster file; found in the usual places when absent.
    pub config: Option<PathBuf>,
}

impl Settings {
    /// As the environment has it, what it does not say as the first line of the table has it.
    pub fn of_process() -> Self {
        let tab = std::env::var_os(TAB_VARIABLE).map_or_else(|| TAB.into(), PathBuf::from);
        let lines = std::fs::read(tab).unwrap_or_default();
        Self::of(&lines, std::env::var_os(PREFIX_VARIABLE), std::env::var_os(CONFIG_VARIABLE))
    }

    fn of(tab: &[u8], prefix: Option<OsString>, config: Option<OsString>) -> Self {
        let listed = tab.split(|byte| *byte == b'\n').find_map(parse_line);
        let prefix = prefix.map(OsStringExt::into_vec).filter(|path| is_usable(path));
        let config = config.map(PathBuf::from);
        match listed {
            Some(listed) => {
                Self { prefix: prefix.unwrap_or(listed.prefix), config: config.or(listed.config) }
            }
            None => Self { prefix: prefix.unwrap_or_else(|| PREFIX.to_vec()), config },
        }
    }
}

fn parse_line(line: &[u8]) -> Option<Settings> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let (source, prefix, kind) = (fields.next()?, fields.next()?, fields.next()?);
    if source.starts_with(b"#") || kind != b"pvfs" || !is_usable(prefix) {
        return None;
    }
    let config = Path::new(std::ffi::OsStr::from_bytes(source));
    let config = config.is_absolute().then(|| config.to_owned());
    Some(Settings { prefix: prefix.to_vec(), config })
}

/// A prefix is an absolute path, and not the root of all.
fn is_usable(prefix: &[u8]) -> bool {
    prefix.first() == Some(&b'/') && crate::paths::plain(prefix).iter().any(|byte| *byte != b'/')
}

/// The path under which the file system appears where nobody says otherwise.
pub const PREFIX: &[u8] = b"/pvfs";

/// Says where the file system appears.
pub const PREFIX_VARIABLE: &str = "PVFS_PREFIX";

/// Names another table.
pub const TAB_VARIABLE: &str = "PVFS_TAB";

const CONFIG_VARIABLE: &str = pvfs_config::CONFIG_VARIABLE;
const TAB: &str = "/etc/pvfstab";

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(prefix: &str, config: Option<&str>) -> Settings {
        Settings { prefix: prefix.into(), config: config.map(PathBuf::from) }
    }

    #[test]
    fn the_environment_comes_before_the_table_and_that_before_the_default() {
        let tab =
            b"# a comment\n/dev/sda / ext4 defaults\n/c.toml\t/scratch pvfs\n/d.toml /x pvfs\n";
        let of = |prefix: Option<&str>, config: Option<&str>| {
            Settings::of(tab, prefix.map(OsString::from), config.map(OsString::from))
        };
        assert_eq!(of(None, None), settings("/scratch", Some("/c.toml")));
        assert_eq!(of(Some("/a"), None), settings("/a", Some("/c.toml")));
        assert_eq!(of(None, Some("/e.toml")), settings("/scratch", Some("/e.toml")));
        assert_eq!(Settings::of(b"", None, None), settings("/pvfs", None));
    }

    #[test]
    fn a_prefix_that_cannot_be_one_is_passed_over() {
        for prefix in ["", "/", "//", "relative", "/a/.."] {
            assert_eq!(Settings::of(b"", Some(prefix.into()), None), settings("/pvfs", None));
            let line = format!("/c.toml {prefix} pvfs");
            assert_eq!(Settings::of(line.as_bytes(), None, None).config, None, "{prefix}");
        }
    }
}
