//! A process that serves one mount and goes, mount and all, when whoever started it does.

use crate::bench::error::{Doing, Error, Result};
use crate::bench::testbed::Testbed;
use pvfs_client::credentials::Issuer;
use pvfs_client::{Blocking, Filesystem, Options};
use pvfs_config::Cluster;
use pvfs_fuse::{MountError, MountOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A mount, from outside.
pub struct MountProcess {
    child: Child,
    directory: PathBuf,
}

impl MountProcess {
    /// Mounts a cluster, or a file system in memory, below the testbed's place.
    pub fn start(testbed: &Testbed, cluster: Option<&Cluster>) -> Result<Self> {
        let name = if cluster.is_some() { "mounted" } else { "mounted-memory" };
        let directory = testbed.place().directory().join(name);
        std::fs::create_dir_all(&directory).doing("make a mount point")?;
        let program = std::env::current_exe().doing("find this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "mounted"]).arg(&directory);
        match cluster {
            Some(cluster) => command.arg("--config").arg(&cluster.path),
            None => command.arg("--memory"),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().doing("start a mount")?;
        let output = child.stdout.take().expect("it is piped");
        let mount = Self { child, directory };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).doing("hear from the mount")?;
        match line.trim() == READY {
            true => Ok(mount),
            false => Err(Error::Daemon { daemon: "the mount".into(), reason: "see above".into() }),
        }
    }

    /// The testbed's directory, as it is seen through the mount.
    pub fn home(&self, testbed: &Testbed) -> Result<PathBuf> {
        let home = self.directory.join(testbed.home());
        std::fs::create_dir_all(&home).doing("make a directory on a mount")?;
        Ok(home)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for MountProcess {
    fn drop(&mut self) {
        // The end of its input tells it to unmount.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What the process does: mounts a cluster, or a file system in memory, until its standard input ends.
pub fn serve(directory: &Path, cluster: Option<&Cluster>) -> Result<()> {
    let options = MountOptions::default();
    let session = match cluster {
        None => pvfs_fuse::memory::mount_memory(directory, options),
        Some(cluster) => {
            let issuer = Issuer::of(cluster).doing("get a session")?;
            let filesystem = Filesystem::new(Blocking, cluster, Options::of(cluster));
            pvfs_fuse::mount(filesystem.doing("use the file system")?, issuer, directory, options)
        }
    };
    let session = session.map_err(failed)?;
    println!("{READY}");
    std::io::stdin().read_to_end(&mut Vec::new()).doing("wait for the end")?;
    session.unmount().map_err(failed)?;
    session.join().doing("serve the mount")
}

fn failed(error: MountError) -> Error {
    Error::Daemon { daemon: "the mount".into(), reason: error.to_string() }
}

const READY: &str = "ready";
