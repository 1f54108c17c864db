//! When the file system is not there: errors in the deadline, and ordinary files as ever.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{command, inside};
use crate::support::{TestCluster, eventually, text};

#[test]
fn with_the_daemons_gone_programs_end_with_an_error() {
    let cluster = TestCluster::start(2);
    assert!(inside(&cluster, "d", "echo x > f").status.success());
    for daemon in ["mgr0", "io0", "io1"] {
        cluster.signal(daemon, rustix::process::Signal::KILL);
    }
    let start = Instant::now();
    let output = command(&cluster).args(["cat", "/pvfs/d/f"]).output().unwrap();
    assert!(text(&output).contains("Input/output error"), "{}", text(&output));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let start = Instant::now();
    let output = command(&cluster).args(["cat", "/etc/hostname"]).output().unwrap();
    assert!(output.status.success() && start.elapsed() < Duration::from_secs(2));
}

/// Not as long as one deadline after the other.
#[test]
fn a_program_with_many_open_files_ends_although_the_manager_is_gone() {
    let cluster = TestCluster::start(1);
    let script = "mkdir /pvfs/d; for i in $(seq 20); do eval \"exec $((i + 20))> /pvfs/d/$i\"; done; \
                  touch $S/ready; while [ -e $S/ready ]; do sleep 0.1; done; echo over";
    let running = command(&cluster).args(["bash", "-c", script]).stdout(Stdio::piped()).spawn();
    let ready = cluster.scratch().join("ready");
    eventually("twenty files are open", Duration::from_secs(60), || ready.exists());
    cluster.signal("mgr0", rustix::process::Signal::KILL);
    let start = Instant::now();
    std::fs::remove_file(ready).unwrap();
    let output = running.unwrap().wait_with_output().unwrap();
    assert_eq!(text(&output), "over\n");
    assert!(start.elapsed() < Duration::from_secs(45), "{:?}", start.elapsed());
}

#[test]
fn without_a_cluster_file_only_the_prefix_fails() {
    let cluster = TestCluster::nowhere();
    let mut run = command(&cluster);
    run.env("PVFS_CONFIG", "/nonexistent/cluster.toml");
    let output =
        run.args(["bash", "-c", "ls / > /dev/null && echo fine; ls /pvfs"]).output().unwrap();
    let said = text(&output);
    assert!(said.starts_with("fine\n") && said.contains("No such device"), "{said}");
}

#[test]
fn another_prefix_moves_the_file_system() {
    let cluster = TestCluster::start(1);
    let output = command(&cluster)
        .args(["--prefix", "/some/where", "bash", "-c"])
        .arg("echo x > /some/where/f; ls /some/where; cd /some/where && pwd; ls /pvfs")
        .output()
        .unwrap();
    let said = text(&output);
    assert!(said.starts_with("f\n/some/where\n") && said.contains("/pvfs"), "{said}");
    let refused = command(&cluster).args(["--prefix", "relative", "ls"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
}

#[test]
fn programs_that_cannot_be_caught_are_told() {
    let cluster = TestCluster::nowhere();
    cluster.shell("pvfs check-binary bash").succeeds().prints("through pvfs run");
    cluster
        .shell("cp $(which cat) suid; chmod u+s suid; pvfs check-binary ./suid")
        .fails(1)
        .says("setuid")
        .says("pvfs mount");
    cluster.shell("pvfs run ./suid /etc/hostname").fails(1).says("cannot be caught");
    cluster.shell("pvfs check-binary no-such-program").fails(1).in_one_sentence();
    let static_one = "echo 'int main(void) { return 0; }' > s.c && gcc -static s.c -o s";
    if cluster.shell(static_one).is_success() {
        cluster.shell("pvfs check-binary ./s").fails(1).says("statically");
    }
    let (own, library) = (
        r#"int main(void) { long r = 263; __asm__ volatile("syscall" : "+a"(r) : "D"(-100L), "S"("none"), "d"(0L)); return r != -2; }"#,
        "int unlink(const char *); int f(void) { return unlink(\"none\"); }",
    );
    std::fs::write(cluster.scratch().join("own.c"), own).unwrap();
    std::fs::write(cluster.scratch().join("library.c"), library).unwrap();
    let built = "gcc -O1 own.c -o own && ./own && gcc -O1 -shared -fPIC library.c -o library.so";
    if cfg!(target_arch = "x86_64") && cluster.shell(built).is_success() {
        cluster.shell("pvfs check-binary ./own").fails(3).says("past the C library (unlinkat)");
        cluster.shell("pvfs check-binary ./library.so").succeeds();
    }
}
