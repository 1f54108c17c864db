//! libpvfs as programs in C and C++ see it: installed as `make install` does, compiled against, and run on a real
//! file system.

#[path = "../support/mod.rs"]
mod support;

mod documented;
mod examples;
mod groups;
mod mounted;
mod mpi;
mod queue;
mod refused;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use support::{PVFS, TestCluster, text};

/// How a program is linked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Linked {
    /// With the shared library.
    Shared,
    /// With all of the library inside.
    Static,
}

/// Where `make install` put everything.
pub fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // Built with these tests, and so beside them; made anew whenever they run.
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let _ = std::fs::remove_dir_all(&prefix);
        let output = Command::new(source("scripts/install"))
            .env("PREFIX", &prefix)
            .env("DESTDIR", "")
            .env("BUILT", Path::new(PVFS).parent().unwrap())
            .env("LIBRARIES", beside)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        prefix
    })
}

/// A file of this repository.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Compiles a program, by the suffix of its source in C or C++; nothing where there is no compiler.
pub fn compiled(cluster: &TestCluster, source: &Path, linked: Linked) -> Option<PathBuf> {
    let (compiler, standard) = match source.extension().unwrap().to_str().unwrap() {
        "c" => ("gcc", "-std=gnu11"),
        _ => ("g++", "-std=c++17"),
    };
    let program = cluster.scratch().join(format!(
        "{}-{}-{linked:?}",
        source.file_stem().unwrap().to_string_lossy(),
        compiler
    ));
    let mut command = Command::new(compiler);
    command.args([standard, "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg(source).arg("-o").arg(&program).args(flags(linked));
    let Ok(output) = command.output() else {
        eprintln!("skipped: {compiler} is not installed");
        return None;
    };
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    Some(program)
}

/// What pkg-config tells a program to be linked with.
fn flags(linked: Linked) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    command.args(["--cflags", "--libs", "pvfs"]);
    if linked == Linked::Static {
        command.arg("--static");
    }
    let lib = installed().join("lib").display().to_string();
    let told = match command.output() {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        Ok(output) => panic!("{}", text(&output)),
        Err(_) => format!("-I{}/../include -L{lib} -lpvfs -lpthread -ldl -lm", lib),
    };
    let flags = told.split_whitespace().map(str::to_owned);
    match linked {
        Linked::Shared => flags.chain([format!("-Wl,-rpath,{lib}")]).collect(),
        Linked::Static => {
            let archive = format!("{lib}/libpvfs.a");
            flags.map(|flag| if flag == "-lpvfs" { archive.clone() } else { flag }).collect()
        }
    }
}

/// Runs a program on the file system, whose prefix is /pvfs.
pub fn run(cluster: &TestCluster, program: &Path, arguments: &[&str]) -> Output {
    command(cluster, program, arguments).output().unwrap()
}

/// The like, to be completed.
pub fn command(cluster: &TestCluster, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120"]).arg(program).args(arguments).stdin(Stdio::null());
    command.env("PVFS_CONFIG", cluster.root().join("cluster.toml"));
    command.env("PVFS_PREFIX", "/pvfs").env("PVFS_TAB", "/dev/null");
    command.current_dir(cluster.scratch());
    command
}

/// Runs a program that must succeed; what it said.
#[track_caller]
pub fn done(cluster: &TestCluster, program: &Path, arguments: &[&str]) -> String {
    let output = run(cluster, program, arguments);
    assert!(output.status.success(), "{}: {}", program.display(), text(&output));
    text(&output)
}
