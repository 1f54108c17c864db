//! MPI programs by `pvfs mpirun` with the drivers that `make install` has installed, where these were built.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::{TestCluster, text};
use crate::{installed, source};

#[test]
fn mpich_uses_the_installed_driver() {
    runs("mpich", "lib/pvfs/libpvfs_romio.so", &[]);
}

#[test]
fn open_mpi_uses_the_installed_components() {
    // Machines for tests have few processors and one user.
    runs("openmpi", "lib/pvfs/ompio/mca_fs_pvfs.so", &["--allow-run-as-root", "--oversubscribe"]);
}

fn runs(mpi: &str, driver: &str, arguments: &[&str]) {
    if !installed().join(driver).exists() {
        return eprintln!("skipped: {driver} was not built (make -C bindings/mpiio)");
    }
    let cluster = TestCluster::start(4);
    let Some(program) = compiled(&cluster, mpi) else {
        return eprintln!("skipped: mpicc.{mpi} or mpirun.{mpi} is not installed");
    };
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120"]).arg(installed().join("bin/pvfs"));
    command.args(["mpirun", "--launcher", &format!("mpirun.{mpi}")]).args(arguments);
    command.args(["-n", "3"]).arg(program).arg("pvfs:/together").stdin(Stdio::null());
    command.env("PVFS_CONFIG", cluster.root().join("cluster.toml"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3 ranks\n");

    let written = ["a", "b", "c"].map(|byte| byte.repeat(100_000)).concat();
    assert_eq!(cluster.run(&["cat", "pvfs:/together"]), written);
    let striping = cluster.run(&["stripe", "get", "pvfs:/together"]);
    assert!(striping.contains("8192") || striping.contains("8 KiB"), "{striping}");
}

fn compiled(cluster: &TestCluster, mpi: &str) -> Option<PathBuf> {
    let program = cluster.scratch().join(format!("mpi-{mpi}"));
    let mut command = Command::new(format!("mpicc.{mpi}"));
    command.args(["-O1", "-Wall", "-Wextra", "-Werror"]);
    command.arg(source("crates/pvfs/tests/capi/mpi.c")).arg("-o").arg(&program);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    Command::new(format!("mpirun.{mpi}")).arg("--version").output().ok().map(|_| program)
}
