//! Where the file system is, for a process: from the environment, else from the table of file systems, else from the
//! cluster file.
//!
//! The table, `/etc/pvfstab`, has lines like those of fstab(5), as with PVFS 1: the cluster file, the path under
//! which the file system appears, `pvfs`, and fields that do not matter here.
//!
//! ```text
//! /etc/pvfs/cluster.toml  /scratch  pvfs  defaults  0  0
//! ```

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::mounts::{Mount, mounts};

/// Where the file system is, for this process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The path under which the file system appears.
    pub prefix: Vec<u8>,
    /// Another one, which is no path of this node.
    pub also: Option<Vec<u8>>,
    /// The cluster file; found in the usual places when absent.
    pub config: Option<PathBuf>,
}

impl Settings {
    /// As the environment has it, what it does not say as the first line of the table has it, and where that says
    /// nothing either the cluster file.
    pub fn of_process() -> Self {
        Named::of_process().or_default(prefix_of_cluster)
    }

    /// The like; where neither names a prefix, that is where the file system is mounted, and as well the one of nodes
    /// without a mount, unless there is something of that name here.
    pub fn of_process_or_mount() -> Self {
        let settings = Named::of_process().or_mount(&mounts(), prefix_of_cluster);
        let is_absent =
            |path: &Vec<u8>| Path::new(OsStr::from_bytes(path)).symlink_metadata().is_err();
        Self { also: settings.also.filter(is_absent), ..settings }
    }
}

/// What the environment and the table say.
#[derive(Default)]
struct Named {
    prefix: Option<Vec<u8>>,
    config: Option<PathBuf>,
}

impl Named {
    fn of_process() -> Self {
        let tab = std::env::var_os(TAB_VARIABLE).map_or_else(|| TAB.into(), PathBuf::from);
        let lines = std::fs::read(tab).unwrap_or_default();
        Self::of(&lines, std::env::var_os(PREFIX_VARIABLE), std::env::var_os(CONFIG_VARIABLE))
    }

    fn of(tab: &[u8], prefix: Option<OsString>, config: Option<OsString>) -> Self {
        let listed = tab.split(|byte| *byte == b'\n').find_map(parse_line).unwrap_or_default();
        let prefix = prefix.map(OsStringExt::into_vec).filter(|path| is_usable(path));
        Self {
            prefix: prefix.or(listed.prefix),
            config: config.map(PathBuf::from).or(listed.config),
        }
    }

    fn or_default(self, of_cluster: impl FnOnce(Option<&Path>) -> Option<Vec<u8>>) -> Settings {
        let prefix = self.prefix.or_else(|| of_cluster(self.config.as_deref()));
        let prefix = prefix.unwrap_or_else(|| PREFIX.to_vec());
        Settings { prefix, also: None, config: self.config }
    }

    fn or_mount(
        self,
        mounts: &[Mount],
        of_cluster: impl FnOnce(Option<&Path>) -> Option<Vec<u8>>,
    ) -> Settings {
        // A mount of another file system than the one that is named is none of ours.
        let fits = |mount: &&Mount| match (&self.config, mount.config()) {
            (Some(named), Some(mounted)) => is_same(named, &mounted),
            (named, _) => named.is_none(),
        };
        match mounts.iter().find(fits) {
            Some(mount) if self.prefix.is_none() => {
                let config = self.config.clone().or_else(|| mount.config());
                let elsewhere = self.or_default(of_cluster).prefix;
                let prefix = mount.directory.as_os_str().as_bytes().to_vec();
                Settings { prefix, also: Some(elsewhere), config }
            }
            _ => self.or_default(of_cluster),
        }
    }
}

/// What the cluster file says, if there is one that can be read: programs start with or without it.
fn prefix_of_cluster(config: Option<&Path>) -> Option<Vec<u8>> {
    let path = config.map_or_else(|| pvfs_config::find(None).ok(), |path| Some(path.to_owned()))?;
    let cluster = pvfs_config::Cluster::load(&path).ok()?;
    cluster.filesystem().prefix.as_ref().map(|prefix| prefix.as_os_str().as_bytes().to_vec())
}

fn is_same(path: &Path, other: &Path) -> bool {
    path == other
        || matches!((path.canonicalize(), other.canonicalize()), (Ok(path), Ok(other)) if path == other)
}

fn parse_line(line: &[u8]) -> Option<Named> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let (source, prefix, kind) = (fields.next()?, fields.next()?, fields.next()?);
    if source.starts_with(b"#") || kind != b"pvfs" || !is_usable(prefix) {
        return None;
    }
    let config = Path::new(OsStr::from_bytes(source));
    let config = config.is_absolute().then(|| config.to_owned());
    Some(Named { prefix: Some(prefix.to_vec()), config })
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
        Settings { prefix: prefix.into(), also: None, config: config.map(PathBuf::from) }
    }

    fn mounted(prefix: &str, config: &str) -> Settings {
        Settings { also: Some(b"/pvfs".to_vec()), ..settings(prefix, Some(config)) }
    }

    #[test]
    fn the_environment_comes_before_the_table_and_that_before_the_default() {
        let tab =
            b"# a comment\n/dev/sda / ext4 defaults\n/c.toml\t/scratch pvfs\n/d.toml /x pvfs\n";
        let of = |prefix: Option<&str>, config: Option<&str>| {
            Named::of(tab, prefix.map(OsString::from), config.map(OsString::from))
                .or_default(|_| None)
        };
        assert_eq!(of(None, None), settings("/scratch", Some("/c.toml")));
        assert_eq!(of(Some("/a"), None), settings("/a", Some("/c.toml")));
        assert_eq!(of(None, Some("/e.toml")), settings("/scratch", Some("/e.toml")));
        assert_eq!(Named::default().or_default(|_| None), settings("/pvfs", None));
    }

    #[test]
    fn a_mount_is_the_prefix_where_nobody_names_one() {
        let mount = |directory: &str, source: &str| Mount {
            directory: directory.into(),
            source: source.into(),
        };
        let mounts = [mount("/mnt/a", "/a.toml"), mount("/mnt/b", "/b.toml")];
        let of = |prefix: Option<&str>, config: Option<&str>| {
            let prefix = prefix.map(|prefix| prefix.as_bytes().to_vec());
            Named { prefix, config: config.map(PathBuf::from) }.or_mount(&mounts, |_| None)
        };
        assert_eq!(of(None, None), mounted("/mnt/a", "/a.toml"));
        assert_eq!(of(None, Some("/b.toml")), mounted("/mnt/b", "/b.toml"));
        assert_eq!(of(None, Some("/c.toml")), settings("/pvfs", Some("/c.toml")));
        assert_eq!(of(Some("/pvfs"), None), settings("/pvfs", None));
        assert_eq!(Named::default().or_mount(&[], |_| None), settings("/pvfs", None));
    }

    #[test]
    fn the_cluster_file_is_asked_last() {
        let told = |_: Option<&Path>| Some(b"/told".to_vec());
        let unasked = |_: Option<&Path>| panic!("something else has said it");
        assert_eq!(Named::default().or_default(told), settings("/told", None));
        let listed = Named::of(b"/c.toml /x pvfs\n", None, None);
        assert_eq!(listed.or_default(unasked).prefix, b"/x");
        let named = Named::of(b"", Some("/a".into()), None);
        assert_eq!(named.or_default(unasked), settings("/a", None));
    }

    #[test]
    fn a_prefix_that_cannot_be_one_is_passed_over() {
        for prefix in ["", "/", "//", "relative", "/a/.."] {
            let named = Named::of(b"", Some(prefix.into()), None);
            assert_eq!(named.or_default(|_| None), settings("/pvfs", None));
            let line = format!("/c.toml {prefix} pvfs");
            assert_eq!(Named::of(line.as_bytes(), None, None).config, None, "{prefix}");
        }
    }
}
