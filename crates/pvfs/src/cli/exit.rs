//! How a command ends: the exit codes, and the one place where errors are printed.

use pvfs_config::{ConfigError, KeyError};
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// The exit code of every command. Scripts rely on them: they never change their meaning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// The operation failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Some of several things failed, or the file system is degraded.
    Partial = 3,
    /// A server is unreachable or did not answer in time.
    Unreachable = 4,
    /// Permission denied.
    Denied = 5,
}

impl Exit {
    /// Every code, in order.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::Failed, Self::Usage, Self::Partial, Self::Unreachable, Self::Denied];

    /// What it tells, for the manual.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "Done.",
            Self::Failed => "The operation failed.",
            Self::Usage => "The command line or the configuration is wrong.",
            Self::Partial => "Some of several things failed, or the file system is degraded.",
            Self::Unreachable => "A server is unreachable or did not answer in time.",
            Self::Denied => "Permission denied.",
        }
    }

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command did not do all it was asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    exit: Exit,
    sentence: String,
}

impl Failure {
    /// A failure and the sentence to print for it: lower case, no full stop, says what to do.
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Self { exit, sentence: sentence.into() }
    }

    /// A failure all of whose sentences have been printed already.
    pub fn told(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// What could not be done (`cannot read /a/b`), and what the system said.
    pub fn io(doing: &str, error: &io::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::PermissionDenied => Exit::Denied,
            ErrorKind::TimedOut
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable => Exit::Unreachable,
            _ => Exit::Failed,
        };
        Self::new(exit, format!("{doing}: {error}"))
    }

    /// How the program will end.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// What it will say; empty if all was said.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = match &error {
            ConfigError::Key(error) => return Self::new(key_exit(error), error.to_string()),
            ConfigError::Unreadable { source, .. } if is_denied(source) => Exit::Denied,
            ConfigError::NoRandom(_) => Exit::Failed,
            _ => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new(key_exit(&error), error.to_string())
    }
}

fn key_exit(error: &KeyError) -> Exit {
    match error {
        KeyError::Unreadable { source, .. } | KeyError::Unwritable { source, .. }
            if is_denied(source) =>
        {
            Exit::Denied
        }
        KeyError::Unwritable { .. } | KeyError::NoRandom(_) => Exit::Failed,
        _ => Exit::Usage,
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// Ends a command that ran.
pub(crate) fn finish(outcome: &Result<(), Failure>, json: bool) -> ExitCode {
    let Err(failure) = outcome else {
        return ExitCode::from(Exit::Ok.code());
    };
    if !failure.sentence.is_empty() {
        eprintln!("{}", rendered(failure, json));
    }
    ExitCode::from(failure.exit.code())
}

/// Ends a command line that could not be read, or asked for help.
pub(crate) fn misused(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        // Help and version go to standard output; nobody is left to hear that it is closed.
        let _ = error.print();
        return ExitCode::from(Exit::Ok.code());
    }
    if arguments.iter().any(|argument| argument == "--json") {
        return finish(&Err(Failure::new(Exit::Usage, first_sentence(error))), true);
    }
    // A command group named alone is answered with its help, which begins with no error.
    let text = error.render().to_string();
    eprint!(
        "{}",
        text.strip_prefix("error: ").map_or(text.clone(), |rest| format!("pvfs: {rest}"))
    );
    ExitCode::from(Exit::Usage.code())
}

/// Without the usage and the hints that clap adds for people.
fn first_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn rendered(failure: &Failure, json: bool) -> String {
    match json {
        true => json!({ "error": failure.sentence, "code": failure.exit.code() }).to_string(),
        false => format!("pvfs: {}", failure.sentence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn codes_are_stable() {
        assert_eq!(Exit::ALL.map(Exit::code), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn an_error_is_one_line_for_people_and_an_object_for_programs() {
        let failure = Failure::new(Exit::Denied, "no \"key\"");
        assert_eq!(rendered(&failure, false), "pvfs: no \"key\"");
        let value: serde_json::Value = serde_json::from_str(&rendered(&failure, true)).unwrap();
        assert_eq!(value, json!({ "error": "no \"key\"", "code": 5 }));
    }

    #[test]
    fn wrong_usage_is_one_sentence() {
        let error = Cli::try_parse_from(["pvfs", "--json", "cpp"]).unwrap_err();
        assert_eq!(first_sentence(&error), "unrecognized subcommand 'cpp'");
        let error = Cli::try_parse_from(["pvfs", "mv", "a"]).unwrap_err();
        assert!(!first_sentence(&error).contains('\n'));
    }

    #[test]
    fn a_wrong_configuration_and_a_forbidden_one_differ() {
        let not_found = ConfigError::NotFound { looked_in: Vec::new() };
        assert_eq!(Failure::from(not_found).exit(), Exit::Usage);
        let source = io::Error::from(ErrorKind::PermissionDenied);
        let key = KeyError::Unreadable { path: "k".into(), source };
        assert_eq!(Failure::from(ConfigError::Key(key)).exit(), Exit::Denied);
    }
}
