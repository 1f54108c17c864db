//! `pvfs check-binary`: whether the preload library can catch a program.

use serde_json::json;

use crate::binary::{examine, find, own_calls};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::for_each;

/// Say whether programs can use the file system without a mount
///
/// `pvfs run` puts a library between a program and the C library. It cannot catch programs that are statically
/// linked, setuid, made for another C library or processor, or that make system calls of their own: for those,
/// mount the file system. Of a script, its interpreter counts. Shared libraries can be looked at, too: modules of Python, say.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Programs: paths, or names to be found in $PATH
    #[arg(required = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandName)]
    pub programs: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  One that is found in the path, and one by its path:
    pvfs check-binary python3 /opt/app/bin/solver";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    for_each(context, &args.programs, |program| {
        let path = found(program)?;
        let examined = examine(&path)
            .map_err(|error| Failure::io(&format!("cannot read {program}"), &error))?;
        let why = examined.obstacle.as_ref().map(advice);
        let past = match why {
            None => own_calls(&examined.executable)
                .map_err(|error| Failure::io(&format!("cannot read {program}"), &error))?,
            Some(_) => Vec::new(),
        };
        if context.json() {
            let executable = examined.executable.display().to_string();
            context.value(&json!({ "program": program, "executable": executable,
                "caught": why.is_none(), "obstacle": why, "past": past }))?;
        }
        match why {
            Some(why) => {
                Err(Failure::new(Exit::Failed, format!("{program} cannot be caught: {why}")))
            }
            None if !past.is_empty() => Err(Failure::new(
                Exit::Partial,
                format!(
                    "{program} is caught but for calls of its own past the C library ({}): mount the file system, with pvfs \
                     mount, if it makes them on files there",
                    past.join(", ")
                ),
            )),
            None if context.json() => Ok(()),
            None => context.line(format!("{program}: can use the file system through pvfs run")),
        }
    })
}

/// Where a program is.
pub fn found(program: &str) -> Result<std::path::PathBuf, Failure> {
    find(program).ok_or_else(|| {
        Failure::new(Exit::Failed, format!("cannot find {program} in $PATH; write its path"))
    })
}

/// What stands against catching a program, and what to do.
pub fn advice(obstacle: &crate::binary::Obstacle) -> String {
    format!("{}; mount the file system for it, with pvfs mount", obstacle.text())
}
