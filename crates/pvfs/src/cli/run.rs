//! `pvfs run`: programs use the file system without a mount.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pvfs_posix::{PREFIX_VARIABLE, Settings};

use crate::binary::{Examined, examine, find, interpreter};
use crate::cli::check_binary::{advice, found};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

/// Run a program that sees the file system without a mount
///
/// A library put before the C library answers the program's calls for paths below the prefix, and those of all
/// programs it starts. The prefix is /pvfs unless said otherwise, here, in $PVFS_PREFIX, in /etc/pvfstab or in the
/// cluster file; it need not exist. Shared writable mappings are refused; see pvfs check-binary for programs that
/// cannot be caught.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The path under which the file system appears
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub prefix: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  A command, a shell with redirections:
    pvfs run ls -l /pvfs
    pvfs run bash -c 'sort < /pvfs/in > /pvfs/out'
  Under another path:
    pvfs run --prefix /scratch python3 analyse.py /scratch/run1
  A Python environment in the file system:
    pvfs run python3 -m venv /pvfs/env
    pvfs run /pvfs/env/bin/pip install numpy";

/// Runs the command: the program takes this process's place.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (program, arguments) = args.program.split_first().expect("clap demands one");
    let name = program.to_string_lossy();
    let checked = found(&name).and_then(|path| {
        let examined = examine(&path);
        examined.map_err(|error| Failure::io(&format!("cannot run {name}"), &error))
    });
    let mut command = match checked {
        Ok(Examined { obstacle: Some(obstacle), .. }) => {
            let why = advice(&obstacle);
            return Err(Failure::new(Exit::Failed, format!("{name} cannot be caught: {why}")));
        }
        Ok(_) => Command::new(program),
        Err(_) if is_of_the_file_system(&prefixes(args, context), program) => by_shell(program),
        Err(failure) => return Err(failure),
    };
    command.args(arguments).env("LD_PRELOAD", preloaded(&library()?));
    if let Some(prefix) = &args.prefix {
        command.env(PREFIX_VARIABLE, usable(prefix)?);
    }
    // Where neither names one, the program looks in the usual places, as we do.
    if let (Ok(config), None) = (context.config_path(), Settings::of_process().config) {
        command.env(pvfs_config::CONFIG_VARIABLE, absolute(&config));
    }
    if let Some(config) = context.chosen_config() {
        command.env(pvfs_config::CONFIG_VARIABLE, absolute(config));
    }
    Err(Failure::io(&format!("cannot run {name}"), &command.exec()))
}

/// Where the file system may appear; the program's own settings decide.
fn prefixes(args: &Args, context: &Context) -> Vec<PathBuf> {
    if let Some(prefix) = &args.prefix {
        return vec![prefix.clone()];
    }
    let chosen = context.chosen_config().and_then(|_| context.cluster().ok());
    let of_cluster = chosen.and_then(|cluster| cluster.filesystem().prefix.clone());
    let of_process = OsString::from_vec(Settings::of_process().prefix);
    of_cluster.into_iter().chain([of_process.into()]).collect()
}

/// Whether a program, or the interpreter of a script that lies elsewhere, may lie in the file system.
fn is_of_the_file_system(prefixes: &[PathBuf], program: &OsStr) -> bool {
    let script = program.to_str().and_then(find);
    let by = script.and_then(|script| interpreter(&script).ok().flatten());
    lies_below(prefixes, program) || by.is_some_and(|by| lies_below(prefixes, by.as_os_str()))
}

/// Whether a program may lie in the file system: by its path, or by one of the directories where it is looked for.
fn lies_below(prefixes: &[PathBuf], program: &OsStr) -> bool {
    let is_below = |path: PathBuf| prefixes.iter().any(|prefix| path.starts_with(prefix));
    if program.as_bytes().contains(&b'/') {
        return is_below(absolute(Path::new(program)));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(is_below)
}

/// This process does not see the file system, but a shell does that is run as programs are.
fn by_shell(program: &OsStr) -> Command {
    let mut command = Command::new("/bin/sh");
    // What it says of a program that is not there begins with the name after the line.
    command.args(["-c", "exec \"$@\"", "pvfs"]).arg(program);
    command
}

/// The prefix asked for, if it can be one.
pub fn usable(prefix: &Path) -> Result<&Path, Failure> {
    if prefix.is_absolute() && prefix.parent().is_some() {
        return Ok(prefix);
    }
    let sentence = format!("{} cannot be the prefix; write an absolute path", prefix.display());
    Err(Failure::new(Exit::Usage, sentence))
}

/// A path as it is from anywhere.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Ours first, then what was to be loaded anyway.
pub fn preloaded(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// The preload library.
pub fn library() -> Result<PathBuf, Failure> {
    installed(LIBRARY, "PVFS_PRELOAD")
}

/// A library of ours: named by the variable, else where it is installed or built beside this executable.
pub fn installed(library: &str, variable: &str) -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(variable) {
        return Ok(named.into());
    }
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let own = own.map_err(|error| Failure::io("cannot find this executable", &error))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let found = PLACES.iter().map(|place| beside.join(place).join(library)).find(|at| at.exists());
    found.ok_or_else(|| {
        let sentence = format!(
            "cannot find {library} beside {}; install it there or in ../lib, or name it in ${variable}",
            own.display()
        );
        Failure::new(Exit::Usage, sentence)
    })
}

/// Where libraries are, seen from the executable.
const PLACES: &[&str] = &[
    "",
    "deps",
    "../mpiio/lib",
    "../mpiio/ompio",
    "../lib/pvfs",
    "../lib/pvfs/ompio",
    "../lib",
    "../lib64/pvfs",
    "../lib64",
];

const LIBRARY: &str = "libpvfs_preload.so";
