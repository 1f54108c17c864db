//! `pvfs mpirun`: MPI programs do their parallel I/O by our drivers.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pvfs_posix::{PREFIX_VARIABLE, Settings};

use crate::cli::check_binary::found;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::run::{absolute, installed, preloaded, usable};

/// Run an MPI program whose MPI-IO uses our drivers
///
/// Starts mpirun with what makes MPI_File_open and all that follows use one open for all ranks, native
/// noncontiguous requests and our striping, for names below a mount or the prefix and for names with pvfs: in front.
/// The program and its MPI stay as they are: MPICH and its relatives (Intel MPI, MVAPICH) get a library put before
/// them, Open MPI two components. All other names go where they went before. $PVFS_ROMIO names another library.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What starts the job: mpirun, mpiexec, srun ...
    #[arg(long, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandName)]
    #[arg(default_value = "mpirun")]
    pub launcher: String,
    /// The path under which the file system appears
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub prefix: Option<PathBuf>,
    /// The launcher's arguments, the program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "ARGS", value_hint = clap::ValueHint::CommandWithArguments)]
    pub arguments: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  Four ranks, a file below a mount:
    pvfs mpirun -n 4 ./solver /scratch/field.dat
  Without a mount, by another launcher:
    pvfs mpirun --launcher mpiexec.mpich -n 4 ./solver pvfs:/field.dat";

/// The launchers that take arguments of their own for the environment of ranks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Family {
    /// MPICH's and Intel's.
    Hydra,
    OpenMpi,
    /// A batch system's, which passes its environment on.
    Other,
}

/// Runs the command: the launcher takes this process's place.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let launcher = found(&args.launcher)?;
    let family = family_of(&said_by(&launcher, "--version"));
    let mut command = Command::new(&launcher);
    let mut environment = places(args, context)?;
    if family == Family::OpenMpi {
        let components = installed(COMPONENT, "PVFS_OMPIO")?;
        let directory = components.parent().unwrap_or(Path::new("/")).display().to_string();
        command.args(["--mca", "mca_base_component_path", &format!("{directory}:SYS_DEFAULT")]);
    } else {
        environment.push(("LD_PRELOAD", romio(&launcher)?));
    }
    for (name, value) in &environment {
        match family {
            Family::Hydra => command.arg("-genv").arg(name).arg(value),
            Family::OpenMpi => command.arg("-x").arg(name).env(name, value),
            Family::Other => command.env(name, value),
        };
    }
    command.args(&args.arguments);
    Err(Failure::io(&format!("cannot run {}", launcher.display()), &command.exec()))
}

/// Where the ranks find the cluster and the file system, as far as they would not find it themselves.
fn places(args: &Args, context: &Context) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut known = Vec::new();
    let settled = Settings::of_process().config;
    let config = match context.chosen_config() {
        Some(chosen) => Some(chosen.to_owned()),
        None if settled.is_none() => context.config_path().ok(),
        None => std::env::var_os(pvfs_config::CONFIG_VARIABLE).map(PathBuf::from),
    };
    if let Some(config) = config {
        known.push((pvfs_config::CONFIG_VARIABLE, absolute(&config).into_os_string()));
    }
    let prefix = match &args.prefix {
        Some(prefix) => Some(usable(prefix)?.as_os_str().to_owned()),
        None => std::env::var_os(PREFIX_VARIABLE),
    };
    known.extend(prefix.map(|prefix| (PREFIX_VARIABLE, prefix)));
    Ok(known)
}

/// What a program prints, whatever it thinks of the argument.
fn said_by(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output();
    output.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default()
}

fn family_of(version: &str) -> Family {
    if ["Open MPI", "OpenRTE", "PRRTE", "prterun"].iter().any(|word| version.contains(word)) {
        Family::OpenMpi
    } else if version.contains("HYDRA") || version.contains("Intel(R) MPI") {
        Family::Hydra
    } else {
        Family::Other
    }
}

/// What to load before the program. The library for the MPI that came with the launcher, and that MPI's where the loader
/// would not find it: Python loads it where other libraries cannot see it.
fn romio(launcher: &Path) -> Result<OsString, Failure> {
    const VARIABLE: &str = "PVFS_ROMIO";
    let own = std::fs::canonicalize(launcher).unwrap_or_else(|_| launcher.to_owned());
    let near = [launcher, &own].into_iter().filter_map(Path::parent);
    let near = near.flat_map(|bin| LIBRARIES.map(|place| bin.join(place).join("libmpi.so.12")));
    if let Some(mpi) = near.into_iter().find(|mpi| mpi.exists()) {
        let mut list = preloaded(&installed("libpvfs_romio_any.so", VARIABLE)?);
        list.push(":");
        list.push(absolute(&mpi));
        return Ok(list);
    }
    let known = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].map(|tool| said_by(Path::new(tool), "-p"));
    let knows = |library: &str| known.iter().any(|list| list.contains(library));
    let library = match () {
        () if knows("libmpich.so.12") => "libpvfs_romio.so",
        () if knows("libmpi.so.12") => "libpvfs_romio_mpi.so",
        () => "libpvfs_romio_any.so",
    };
    let library = installed(library, VARIABLE).map_err(|failure| {
        Failure::new(
            Exit::Usage,
            format!("{}; make -C bindings/mpiio builds it", failure.sentence()),
        )
    })?;
    Ok(preloaded(&library))
}

/// Where an MPI's libraries are, seen from its launcher.
const LIBRARIES: [&str; 3] = ["../lib", "../lib64", "../lib/release"];
/// One of the two components for Open MPI; the other is beside it.
const COMPONENT: &str = "mca_fs_pvfs.so";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_told_apart_by_what_they_say() {
        let cases = [
            ("mpirun (Open MPI) 4.1.4", Family::OpenMpi),
            ("mpirun (OpenRTE) 2.1.1", Family::OpenMpi),
            ("HYDRA build details:\n    Version: 4.0.2", Family::Hydra),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.9", Family::Hydra),
            ("slurm 22.05.8", Family::Other),
            ("", Family::Other),
        ];
        for (version, family) in cases {
            assert_eq!(family_of(version), family, "{version}");
        }
    }
}
