//! Tests that help teaches: every command explains itself, by examples that can be typed.

use crate::cli::{Cli, alias};
use clap::{Command, CommandFactory, Parser};
use std::ffi::OsString;

/// Every command that help shows; hidden ones are for ourselves.
fn commands() -> Vec<Command> {
    fn collect(command: &Command, all: &mut Vec<Command>) {
        all.push(command.clone());
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        shown.for_each(|below| collect(below, all));
    }
    let (mut tree, mut all) = (Cli::command(), Vec::new());
    tree.build();
    collect(&tree, &mut all);
    all
}

/// The lines of the examples that are to be typed, continuation lines joined.
fn typed(command: &Command) -> Vec<String> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let text = text.replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Words as a shell makes them of our examples: single quotes, and redirections left out.
fn words(line: &str) -> Vec<OsString> {
    let line = line.split(" > ").next().unwrap();
    let pieces = line.split('\'').enumerate();
    pieces
        .flat_map(|(index, piece)| match index % 2 {
            0 => piece.split_whitespace().map(OsString::from).collect(),
            _ => vec![OsString::from(piece)],
        })
        .collect()
}

#[test]
fn the_tree_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_a_summary_a_paragraph_and_an_example() {
    for mut command in commands() {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let summary =
            command.get_about().unwrap_or_else(|| panic!("{name}: no summary")).to_string();
        assert!(summary.len() <= 72 && !summary.contains('\n'), "{name}: {summary}");
        let paragraph = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        assert!(paragraph.len() > summary.len() + 60, "{name}: no paragraph");
        assert!(!typed(&command).is_empty(), "{name}: no example");
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            assert!(help.contains("Examples:") && help.contains("Usage:"), "{name}: {help}");
        }
    }
}

#[test]
fn every_argument_says_what_it_is() {
    for command in commands() {
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
        }
    }
}

#[test]
fn every_example_can_be_typed() {
    for command in commands() {
        let name = command.get_name().to_owned();
        for line in typed(&command) {
            let arguments = alias::translate(words(&line));
            match Cli::try_parse_from(arguments) {
                Ok(_) => {}
                Err(error) if !error.use_stderr() => {}
                Err(error) => panic!("{name}: {line}: {error}"),
            }
        }
    }
}

/// Lines that begin with one of our names, in the shell blocks of a document.
fn documented(path: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("pvfs "));
    lines.map(|line| line.split(" # ").next().unwrap().to_owned()).collect()
}

#[test]
fn every_documented_command_line_parses() {
    for document in ["docs/configuration.md", "dist/README.md"] {
        let lines = documented(document);
        assert!(!lines.is_empty(), "{document}");
        for line in lines {
            let arguments = words(&line);
            Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}

#[test]
fn every_command_has_an_example_of_itself() {
    for command in commands().into_iter().filter(|command| !command.has_subcommands()) {
        let name = command.get_bin_name().expect("the tree is built");
        assert!(typed(&command).iter().any(|line| line.starts_with(name)), "{name}");
    }
}

/// The command lines of the systemd units are as much a promise as those of the help.
#[test]
fn every_unit_starts_a_command_there_is() {
    let units = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/systemd");
    let mut checked = 0;
    for unit in std::fs::read_dir(units).unwrap() {
        let text = std::fs::read_to_string(unit.unwrap().path()).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("ExecStart=")) {
            Cli::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(text.contains("Type=notify") && text.contains("NoNewPrivileges=yes"));
            assert!(text.contains("ExecReload=/bin/kill -HUP $MAINPID"));
            checked += 1;
        }
    }
    assert_eq!(checked, 3);
}
