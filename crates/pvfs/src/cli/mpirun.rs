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
/// them, Open MPI three components. All other names go where they went before. $PVFS_ROMIO names another library,
/// $PVFS_OMPIO one of the other components.
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
pub enum Family {
    /// MPICH's and Intel's.
    Hydra,
    /// Open MPI's.
    OpenMpi,
    /// A batch system's, which passes its environment on.
    Other,
}

/// ROMIO with our driver, and what goes before it.
#[derive(Clone, Debug)]
pub struct Romio {
    /// The library.
    pub library: PathBuf,
    /// The MPI, where the loader would not find it by itself.
    mpi: Option<PathBuf>,
}

/// Runs the command: the launcher takes this process's place.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let launcher = found(&args.launcher)?;
    let family = Family::of(&launcher);
    let mut command = Command::new(&launcher);
    let mut environment = places(args, context)?;
    if family == Family::OpenMpi {
        // Its launcher hands its own settings on to all ranks.
        command.env(COMPONENT_PATH, component_path()?);
    } else {
        environment.push(("LD_PRELOAD", Romio::before(&launcher)?.preloads()));
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

/// Our components before those that Open MPI would have looked for anyway.
fn component_path() -> Result<OsString, Failure> {
    let components = installed(COMPONENT, "PVFS_OMPIO")
        .map_err(|failure| built_by(&failure, "make -C bindings/mpiio/ompio"))?;
    let mut path = absolute(components.parent().unwrap_or(Path::new("/"))).into_os_string();
    let others = std::env::var_os(COMPONENT_PATH).filter(|others| !others.is_empty());
    path.push(":");
    path.push(others.unwrap_or_else(|| "SYS_DEFAULT:USER_DEFAULT".into()));
    Ok(path)
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

impl Family {
    /// That of a launcher.
    pub fn of(launcher: &Path) -> Self {
        family_of(&said_by(launcher, "--version"))
    }
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

impl Romio {
    /// The library for the MPI that came with the launcher, and that MPI where the loader would not find it: Python loads
    /// it where other libraries cannot see it.
    pub fn before(launcher: &Path) -> Result<Self, Failure> {
        let own = std::fs::canonicalize(launcher).unwrap_or_else(|_| launcher.to_owned());
        let near = [launcher, &own].into_iter().filter_map(Path::parent);
        let mut near = near.flat_map(|bin| LIBRARIES.map(|at| bin.join(at).join("libmpi.so.12")));
        let mpi = near.find(|mpi| mpi.exists()).map(|mpi| absolute(&mpi));
        let library = match &mpi {
            Some(_) => "libpvfs_romio_any.so",
            None => library_for_loaders(),
        };
        let library = installed(library, "PVFS_ROMIO")
            .map_err(|failure| built_by(&failure, "make -C bindings/mpiio"))?;
        Ok(Self { library, mpi })
    }

    /// What a rank is to load.
    pub fn preloads(&self) -> OsString {
        let mut list = preloaded(&self.library);
        if let Some(mpi) = &self.mpi {
            list.push(":");
            list.push(mpi);
        }
        list
    }
}

/// The library for the MPI that the loader finds.
fn library_for_loaders() -> &'static str {
    let known = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].map(|tool| said_by(Path::new(tool), "-p"));
    let knows = |library: &str| known.iter().any(|list| list.contains(library));
    match () {
        () if knows("libmpich.so.12") => "libpvfs_romio.so",
        () if knows("libmpi.so.12") => "libpvfs_romio_mpi.so",
        () => "libpvfs_romio_any.so",
    }
}

fn built_by(failure: &Failure, command: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{}; {command} builds it", failure.sentence()))
}

/// Where an MPI's libraries are, seen from its launcher.
const LIBRARIES: [&str; 3] = ["../lib", "../lib64", "../lib/release"];
/// Where Open MPI looks for its components.
const COMPONENT_PATH: &str = "OMPI_MCA_mca_base_component_path";
/// One of the components for Open MPI; the others are beside it.
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
