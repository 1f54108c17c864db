//! Beside a mount: its path and the prefix of nodes without one are the same file system.

use std::path::Path;

use crate::support::{TestCluster, can_mount, text};
use crate::{Linked, command, compiled, source};

#[test]
fn beside_a_mount_its_path_and_the_usual_prefix_both_lead_in() {
    // What is on the node comes before the usual prefix.
    if !can_mount() || Path::new("/pvfs").exists() {
        println!("skipped: this takes root, FUSE and a node without a /pvfs of its own");
        return;
    }
    let cluster = TestCluster::start(2);
    let mount = cluster.mount("mnt");
    let source = source("crates/pvfs/tests/capi/alone.c");
    let Some(program) = compiled(&cluster, &source, Linked::Shared) else { return };
    let handle = cluster.scratch().join("handle").display().to_string();
    // Opening for a group takes a file of ours: the kernel's view of the mount would not do.
    for (path, inside) in [(mount.join("beside"), "beside"), ("/pvfs/usual".into(), "usual")] {
        let mut command =
            command(&cluster, &program, &["open", &path.display().to_string(), &handle]);
        let output = command.env_remove("PVFS_PREFIX").output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(mount.join(inside).exists(), "{inside}");
    }
}
