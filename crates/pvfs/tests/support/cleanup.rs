//! Leaves nothing of a test behind, however it ended: mounts, loop devices and processes below its directory.

use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

/// Takes away whatever is mounted below, the innermost first.
pub fn unmount_below(directory: &Path) {
    for mount in mounts_below(directory).iter().rev() {
        let _ = unmount(mount, UnmountFlags::DETACH);
    }
}

/// Kills the processes that were started with a path below this directory: it is ours alone.
pub fn kill_below(directory: &Path) {
    let needle = directory.as_os_str().as_encoded_bytes();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let ours = command.windows(needle.len()).any(|part| part == needle);
        if let Some(pid) = Pid::from_raw(pid).filter(|_| ours && pid != std::process::id() as i32) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Where something is mounted, in the order of mounting.
pub fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    points.map(PathBuf::from).filter(|point| point.starts_with(directory)).collect()
}
