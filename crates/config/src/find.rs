//! Where the file is when nobody says.

use crate::error::ConfigError;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The environment variable that names the file.
pub const CONFIG_VARIABLE: &str = "PVFS_CONFIG";

/// The configuration to use: `explicit`, else `$PVFS_CONFIG`, else the first that exists of
/// `./.pvfs/cluster.toml`, `~/.config/pvfs/cluster.toml` and `/etc/pvfs/cluster.toml`.
pub fn find(explicit: Option<&Path>) -> Result<PathBuf, ConfigError> {
    if let Some(path) = named(explicit) {
        return Ok(path);
    }
    let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let user = rustix::process::geteuid().as_raw();
    search(Path::new("."), home.as_deref(), Path::new("/"), user)
}

/// The configuration that was named: `explicit`, else `$PVFS_CONFIG`.
pub fn named(explicit: Option<&Path>) -> Option<PathBuf> {
    let variable = || env::var_os(CONFIG_VARIABLE).filter(|path| !path.is_empty());
    explicit.map(Path::to_owned).or_else(|| variable().map(PathBuf::from))
}

/// The search with its surroundings as arguments. The working directory may be anybody's, so a
/// file there counts only if it is the caller's own or root's: otherwise a trap left in /tmp could
/// send a session of root to a server of its choice.
fn search(
    working: &Path,
    home: Option<&Path>,
    root: &Path,
    user: u32,
) -> Result<PathBuf, ConfigError> {
    let here = working.join(".pvfs/cluster.toml");
    if let Ok(metadata) = fs::metadata(&here) {
        return match [0, user].contains(&metadata.uid()) {
            true => Ok(here),
            false => Err(ConfigError::NotYours { path: here }),
        };
    }
    let in_home = home.map(|home| home.join(".config/pvfs/cluster.toml"));
    let elsewhere = in_home.into_iter().chain([root.join("etc/pvfs/cluster.toml")]);
    let looked_in: Vec<PathBuf> = [here].into_iter().chain(elsewhere).collect();
    match looked_in.iter().find(|path| path.exists()) {
        Some(path) => Ok(path.clone()),
        None => Err(ConfigError::NotFound { looked_in }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path, path: &str) -> PathBuf {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn the_nearest_file_wins() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let user = fs::metadata(at).unwrap().uid();
        let found = || search(&at.join("w"), Some(&at.join("h")), &at.join("r"), user);

        let said = found().unwrap_err().to_string();
        assert!(said.contains("h/.config/pvfs/cluster.toml, "), "{said}");
        assert!(said.contains("; start a file system with pvfs up"), "{said}");
        for path in
            ["r/etc/pvfs/cluster.toml", "h/.config/pvfs/cluster.toml", "w/.pvfs/cluster.toml"]
        {
            let placed = place(at, path);
            assert_eq!(found().unwrap(), placed);
        }
    }

    #[test]
    fn a_file_of_another_user_in_the_working_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = place(directory.path(), ".pvfs/cluster.toml");
        // Root's files are trusted by all, so a run as root gives the file away first.
        let owner = match fs::metadata(&path).unwrap().uid() {
            0 => {
                std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
                1234
            }
            owner => owner,
        };
        let said = search(directory.path(), None, Path::new("/nowhere"), owner + 1).unwrap_err();
        assert!(said.to_string().contains("belongs to another user; name it with --config"));
    }

    #[test]
    fn an_explicit_path_needs_no_search() {
        assert_eq!(find(Some(Path::new("/x/y.toml"))).unwrap(), Path::new("/x/y.toml"));
    }
}
