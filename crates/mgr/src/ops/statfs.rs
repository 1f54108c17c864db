//! Statfs, Map.

use pvfs_wire::Errno;
use pvfs_wire::ops::{ClusterMap, FilesystemStat, Map, Statfs};

use crate::execute::{Context, Execute};

impl Execute for Statfs {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<FilesystemStat, Errno> {
        let counters = cx.counters()?;
        Ok(FilesystemStat {
            files: counters.objects,
            files_free: cx.policy.objects_free,
            purging: counters.purging,
        })
    }
}

impl Execute for Map {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<ClusterMap, Errno> {
        Ok(cx.policy.map.clone())
    }
}
