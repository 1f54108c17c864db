//! What every command is given: the global flags, and the ways to print by them.

use crate::cli::Global;
use crate::cli::exit::{Exit, Failure};
use pvfs_config::Cluster;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The surroundings of one run of a command.
#[derive(Clone, Debug, Default)]
pub struct Context {
    global: Global,
}

impl Context {
    /// From the global flags.
    pub fn new(global: &Global) -> Self {
        Self { global: global.clone() }
    }

    /// Whether results are to be JSON.
    pub fn json(&self) -> bool {
        self.global.json
    }

    /// Whether only results and errors are wanted.
    pub fn quiet(&self) -> bool {
        self.global.quiet
    }

    /// How often more was asked for.
    pub fn verbose(&self) -> u8 {
        self.global.verbose
    }

    /// Where the cluster file is.
    pub fn config_path(&self) -> Result<PathBuf, Failure> {
        Ok(pvfs_config::find(self.global.config.as_deref())?)
    }

    /// The cluster file that `--config` names.
    pub fn chosen_config(&self) -> Option<&Path> {
        self.global.config.as_deref()
    }

    /// The cluster of the file named by `--config`, or found in the usual places.
    pub fn cluster(&self) -> Result<Cluster, Failure> {
        Ok(Cluster::load(&self.config_path()?)?)
    }

    /// The cluster of a file that a mount names, unless `--config` names another.
    pub fn cluster_of(&self, file: Option<&Path>) -> Result<Cluster, Failure> {
        match (&self.global.config, file) {
            (None, Some(file)) => Ok(Cluster::load(file)?),
            _ => self.cluster(),
        }
    }

    /// One line of a result.
    pub fn line(&self, text: impl Display) -> Result<(), Failure> {
        written(writeln!(io::stdout().lock(), "{text}"))
    }

    /// One line of a result with names in it, which are bytes.
    pub fn line_of_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        written(io::stdout().lock().write_all(&[bytes, b"\n"].concat()))
    }

    /// A result as JSON, on one line.
    pub fn value(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(serde_json::to_string(value).expect("our types have string keys only"))
    }

    /// A result in the form that was asked for; `text` may have several lines.
    pub fn report(&self, value: &impl Serialize, text: impl Display) -> Result<(), Failure> {
        if self.json() { self.value(value) } else { self.line(text) }
    }

    /// That what was asked for is done: with `--quiet` the exit code says it.
    pub fn outcome(&self, value: &impl Serialize, text: impl Display) -> Result<(), Failure> {
        if self.quiet() && !self.json() { Ok(()) } else { self.report(value, text) }
    }

    /// What is going on, for people: on standard error, not with `--quiet` or `--json`.
    pub fn note(&self, text: impl Display) {
        if !self.quiet() && !self.json() {
            // Nobody is left to hear that standard error is closed.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// The like of [`Context::note`], for those who asked for more.
    pub fn detail(&self, text: impl Display) {
        if self.verbose() > 0 {
            self.note(text);
        }
    }

    /// One of several failures, when the others go on; end with [`Failure::told`].
    pub fn warn(&self, failure: &Failure) {
        let _ = crate::cli::exit::finish(&Err(failure.clone()), self.json());
    }
}

/// A reader that has seen enough (`pvfs ls | head`) is no failure worth a sentence.
fn written(outcome: io::Result<()>) -> Result<(), Failure> {
    outcome.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::told(Exit::Failed),
        _ => Failure::io("cannot write the result", &error),
    })
}
