//! Unmodified programs on the file system without a mount, each compared with what it does in a local directory.

#[path = "../support/mod.rs"]
mod support;

mod execution;
mod failures;
mod inheritance;
mod languages;
mod libraries;
mod locks;
mod programs;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::{PVFS, TestCluster, preload_library, text};

/// Runs a line of bash in the file system; `$D` is a directory of its own there, and the working directory.
pub fn inside(cluster: &TestCluster, name: &str, line: &str) -> Output {
    let script = format!("mkdir -p $D && cd $D && {{\n{line}\n}}");
    let mut command = command(cluster);
    command.args(["bash", "-c", &script]).env("D", format!("/pvfs/{name}"));
    command.output().unwrap()
}

/// `timeout 120 pvfs run`, to be completed.
pub fn command(cluster: &TestCluster) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", PVFS, "run"]).stdin(Stdio::null());
    command.env("PVFS_CONFIG", cluster.root().join("cluster.toml"));
    command.env("PVFS_PRELOAD", preload_library()).env("S", cluster.scratch());
    command.env_remove("PVFS_PREFIX").env("LC_ALL", "C");
    command.current_dir(cluster.scratch());
    command
}

fn outside(cluster: &TestCluster, name: &str, line: &str) -> Output {
    let directory = cluster.scratch().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let mut command = Command::new("timeout");
    let script = format!("mkdir -p $D && cd $D && {{\n{line}\n}}");
    command.args(["--kill-after=5", "120", "bash", "-c", &script]).stdin(Stdio::null());
    command.env("D", &directory).env("S", cluster.scratch()).env("LC_ALL", "C");
    command.current_dir(&directory).output().unwrap()
}

/// The line does and says in the file system what it does and says in a local directory. What it says is what
/// counts, so it has to say enough.
#[track_caller]
pub fn same(cluster: &TestCluster, line: &str) {
    let name = format!("d{}", NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let expected = outside(cluster, &name, line);
    let seen = inside(cluster, &name, line);
    let local = cluster.scratch().join(&name);
    let plain = |output: &Output| {
        let said = text(output).replace(&*local.to_string_lossy(), &format!("/pvfs/{name}"));
        (output.status.code(), said)
    };
    assert!(!text(&expected).is_empty(), "{line:?} says nothing");
    assert_eq!(plain(&seen), plain(&expected), "{line}");
}

static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Compiles a C program in the scratch directory; nothing where there is no compiler.
pub fn compiled(cluster: &TestCluster, name: &str, source: &str) -> Option<PathBuf> {
    let path = cluster.scratch().join(format!("{name}.c"));
    std::fs::write(&path, source).unwrap();
    let program = cluster.scratch().join(name);
    compile("gcc", &path, &program)
}

/// Compiles a C or C++ program; nothing where there is no such compiler.
pub fn compile(compiler: &str, source: &Path, program: &Path) -> Option<PathBuf> {
    let output = Command::new(compiler)
        .args([
            "-O2",
            "-D_FORTIFY_SOURCE=2",
            "-D_GNU_SOURCE",
            "-pthread",
            "-Wall",
            "-rdynamic",
            "-o",
        ])
        .args([program, source])
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: {compiler} is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", text(&output));
    Some(program.to_owned())
}
