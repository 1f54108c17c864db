//! What a command answers whose `run` is not written yet. This file goes with the last of them.

use crate::cli::exit::{Exit, Failure};

/// The answer of a command that cannot do anything yet.
pub fn not_built_yet(command: &str) -> Failure {
    Failure::new(
        Exit::Failed,
        format!("pvfs {command} is not built yet; see CHANGELOG.md for what is"),
    )
}
