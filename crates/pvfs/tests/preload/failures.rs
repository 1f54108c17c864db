//! When the file system is not there: errors in the deadline, and ordinary files as ever.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pvfs_client::block_on;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

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

/// What a program asks of a file that it has open waits as its data does, F2.
#[test]
fn programs_go_on_though_an_iod_is_killed_and_started_again() {
    let cluster = TestCluster::start(2);
    let line = "head -c 3M /dev/zero > $S/data && cp $S/data old && \
                touch $S/ready && while [ -e $S/ready ]; do sleep 0.05; done; \
                cp $S/data new && cat $S/data > other && tar cf old -C $S data && \
                cmp $S/data new && cmp $S/data other && tar xOf old | cmp - $S/data && echo fine";
    let ready = cluster.scratch().join("ready");
    let output = std::thread::scope(|scope| {
        let program = scope.spawn(|| inside(&cluster, "d", line));
        eventually("the program is there", Duration::from_secs(30), || ready.exists());
        cluster.signal("io1", rustix::process::Signal::KILL);
        std::fs::remove_file(&ready).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        cluster.up();
        program.join().unwrap()
    });
    assert!(output.status.success() && text(&output).contains("fine"), "{}", text(&output));
}

#[test]
fn a_listing_waits_for_a_hung_iod_once() {
    let cluster = TestCluster::start(2);
    let user = cluster.user();
    let root = block_on(user.root()).unwrap();
    let flags = OpenFlags::CREATE | OpenFlags::WRITE;
    let open = |number: u32| {
        let name = Target::below(root, format!("w{number}"));
        let file = block_on(user.open_regular(name, flags, 0o644, Striping::default())).unwrap();
        block_on(user.write_at(&file, 0, b"data", false)).unwrap();
        file
    };
    let files: Vec<_> = (0..6).map(open).collect();
    cluster.hang("io1");
    let begun = Instant::now();
    let output = inside(&cluster, "..", "ls -l /pvfs");
    let took = begun.elapsed();
    cluster.wake("io1");
    assert_eq!(text(&output).matches("? w").count(), 6, "{}", text(&output));
    assert!(took < Duration::from_millis(5500), "{took:?}");
    files.into_iter().for_each(|file| block_on(user.close(file)).unwrap());
}
