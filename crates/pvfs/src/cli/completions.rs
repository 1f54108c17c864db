//! `pvfs completions`: what shells need to complete commands, flags and paths.

use crate::cli::Cli;
use crate::cli::context::Context;
use crate::cli::exit::Failure;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print completions for a shell
///
/// Commands, flags, their values and paths complete with the tab key once the shell has read them.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// For which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  bash, for all users:
    pvfs completions bash > /usr/share/bash-completion/completions/pvfs
  zsh, in a directory of $fpath:
    pvfs completions zsh > ~/.zfunc/_pvfs
  fish:
    pvfs completions fish > ~/.config/fish/completions/pvfs.fish";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let script = script(args.shell);
    if context.json() {
        return context.value(&serde_json::json!({
            "shell": args.shell.to_string(), "script": script,
        }));
    }
    context.line(script.trim_end())
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pvfs", &mut script);
    String::from_utf8(script).expect("names and help are text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn every_shell_completes_every_command_and_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell} {}", command.get_name());
            }
            for flag in ["pcount", "no-mount", "config", "json"] {
                assert!(script.contains(flag), "{shell} {flag}");
            }
        }
    }

    #[test]
    fn bash_reads_its_completions_without_complaint() {
        let script = script(Shell::Bash);
        let check = "eval \"$1\" && complete -p pvfs";
        let outcome = Command::new("bash")
            .args(["--norc", "-c", check, "bash", &script])
            .stdin(Stdio::null())
            .output()
            .expect("bash is there");
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    }
}
