//! Where the stores lie: a huge-page tmpfs of our own where one can be mounted, else a directory.
//!
//! With 4 KiB pages a tmpfs is slower than ext4's page cache, and what is measured is the kernel.

use super::error::{Doing, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory for one run, gone when dropped.
#[derive(Debug)]
pub struct Place {
    directory: PathBuf,
    mounted: bool,
}

impl Place {
    /// Below `parent`; without one on a tmpfs with huge pages, or where temporary files go if this user
    /// may not mount.
    pub fn prepare(parent: Option<&Path>) -> Result<Self> {
        let temporary = std::env::temp_dir();
        let directory =
            parent.unwrap_or(&temporary).join(format!("pvfs-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory).doing(&format!("make {}", directory.display()))?;
        let directory = directory.canonicalize().doing("resolve the directory's path")?;
        let mounted = parent.is_none() && mount_huge(&directory);
        Ok(Self { directory, mounted })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What kind of store that is, for people.
    pub fn describe(&self) -> String {
        let kind = if self.mounted { "tmpfs with huge pages" } else { "a directory" };
        format!("{} ({kind})", self.directory.display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.mounted {
            quietly(Command::new("umount").arg(&self.directory));
            let _ = std::fs::remove_dir(&self.directory);
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

fn mount_huge(directory: &Path) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "huge=always,mode=0700", "pvfs-bench"]).arg(directory);
    quietly(&mut mount)
}

fn quietly(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_away_with_what_is_in_it() {
        let parent = std::env::temp_dir();
        let place = Place::prepare(Some(&parent)).unwrap();
        let directory = place.directory().to_owned();
        std::fs::write(directory.join("file"), "x").unwrap();
        drop(place);
        assert!(!directory.exists());
    }
}
