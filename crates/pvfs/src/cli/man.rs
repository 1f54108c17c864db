//! `pvfs man`: the manual, made of the same texts as `--help`.
//!
//! A page has the sections people look for: what clap knows, then the examples as EXAMPLES, the exit
//! codes as EXIT STATUS, and where to read on.

use crate::cli::Cli;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use serde_json::json;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

/// Show the manual, or write all its pages
///
/// Shows the page of a command through man(1), or as plain text where there is none; into a pipe it
/// goes as roff. With --output all pages are written below a directory, in man1 and man8, as
/// MANPATH wants them.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The command, such as: cp, or: stripe set
    pub command: Vec<String>,
    /// Write all pages below this directory instead
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    #[arg(conflicts_with = "command")]
    pub output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  Read about a command:
    pvfs man cp
    pvfs man stripe set
  Install the whole manual:
    pvfs man --output /usr/local/share/man";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.output {
        Some(directory) => write_all(directory, context),
        None => show(&find(&args.command)?, context),
    }
}

/// A page of the manual.
struct Page {
    /// `pvfs-cp.1`
    file_name: String,
    roff: String,
}

/// The whole tree, global flags given to every command and names joined by dashes.
fn tree() -> Command {
    let mut tree = Cli::command();
    tree.build();
    tree
}

fn find(words: &[String]) -> Result<Command, Failure> {
    words.iter().try_fold(tree(), |command, word| {
        command.find_subcommand(word).cloned().ok_or_else(|| {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let all = known.join(", ");
            Failure::new(Exit::Usage, format!("there is no command \"{word}\"; there are {all}"))
        })
    })
}

fn show(command: &Command, context: &Context) -> Result<(), Failure> {
    let page = page(command);
    if context.json() {
        return context.value(&json!({ "name": page.file_name, "roff": page.roff }));
    }
    if !io::stdout().is_terminal() {
        return context.line(page.roff.trim_end());
    }
    match read_with_man(&page.roff) {
        Ok(()) => Ok(()),
        Err(_) => context.line(command.clone().render_long_help()),
    }
}

/// Hands the page to man(1), which pages and wraps it.
fn read_with_man(roff: &str) -> io::Result<()> {
    let mut man = Process::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn()?;
    let mut pipe = man.stdin.take().expect("it was asked for");
    // A reader that quits early closes the pipe; that is no failure.
    let _ = pipe.write_all(roff.as_bytes());
    drop(pipe);
    match man.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("man did not show it")),
    }
}

fn write_all(directory: &Path, context: &Context) -> Result<(), Failure> {
    let mut written = Vec::new();
    for page in pages() {
        let section = page.file_name.rsplit('.').next().expect("names end in their section");
        let path = directory.join(format!("man{section}")).join(&page.file_name);
        write_page(&path, &page.roff)
            .map_err(|error| Failure::io(&format!("cannot write {}", path.display()), &error))?;
        written.push(path);
    }
    if context.json() {
        return context.value(&written);
    }
    context.note(format!("wrote {} pages below {}", written.len(), directory.display()));
    Ok(())
}

fn write_page(path: &Path, roff: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("it is in a section's directory"))?;
    fs::write(path, roff)
}

/// Every command's page, and those of the old names, which send the reader on.
fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    collect(&tree(), &mut pages);
    pages.extend(OLD_NAMES.iter().map(|(name, target)| Page {
        file_name: (*name).to_owned(),
        roff: format!(".so man1/{target}.1\n"),
    }));
    pages
}

const OLD_NAMES: [(&str, &str); 5] = [
    ("u2p.1", "pvfs-cp"),
    ("pvstat.1", "pvfs-stat"),
    ("mkmgrconf.1", "pvfs-genconfig"),
    ("mount.pvfs.8", "pvfs-mount"),
    ("mount.fuse.pvfs.8", "pvfs-mount"),
];

fn collect(command: &Command, pages: &mut Vec<Page>) {
    pages.push(page(command));
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    shown.for_each(|below| collect(below, pages));
}

fn page(command: &Command) -> Page {
    let man = Man::new(command.clone())
        .source(concat!("pvfs ", env!("CARGO_PKG_VERSION")))
        .manual("PVFS manual");
    let mut roff = Vec::new();
    render(command, &man, &mut roff).expect("a Vec takes all");
    let roff = String::from_utf8(roff).expect("names and help are text");
    Page { file_name: man.get_filename(), roff }
}

fn render(command: &Command, man: &Man, out: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    examples(command).to_writer(out)?;
    exit_status().to_writer(out)?;
    files().to_writer(out)?;
    see_also(command).to_writer(out)
}

/// Lines of the help's examples: what is indented most is to be typed, the rest explains it.
fn examples(command: &Command) -> Roff {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let text = text.split("\n\n").next().unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for line in text.lines().skip(1) {
        match line.strip_prefix("    ") {
            Some(typed) => {
                roff.control("nf", []).control("RS", ["4"]).text([bold(typed)]);
                roff.control("RE", []).control("fi", []);
            }
            None => drop(roff.control("PP", []).text([roman(line.trim())])),
        }
    }
    roff
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        roff.control("TP", ["4"]).text([bold(exit.code().to_string())]);
        roff.text([roman(exit.meaning())]);
    }
    roff
}

fn files() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["FILES"]);
    roff.text([roman(
        "The cluster file is the first of --config, $PVFS_CONFIG, ./.pvfs/cluster.toml (if it is \
         yours or root's), ~/.config/pvfs/cluster.toml and /etc/pvfs/cluster.toml.",
    )]);
    roff
}

/// The pages above and beside this one.
fn see_also(command: &Command) -> Roff {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut pages: Vec<String> = vec!["pvfs(1)".to_owned()];
    let parts: Vec<&str> = name.split('-').collect();
    if let [first, second, _] = parts[..] {
        pages.push(format!("{first}-{second}(1)"));
    }
    let related: &[&str] = match name {
        "pvfs-cp" => &["pvfs-stripe(1)", "pvfs-sum(1)"],
        "pvfs-mount" => &["pvfs-umount(1)", "mount(8)", "fstab(5)"],
        "pvfs-up" => &["pvfs-down(1)"],
        "pvfs-genconfig" => &["pvfs-mgr(1)", "pvfs-iod(1)", "pvfs-agent(1)"],
        "pvfs-stop" | "pvfs-estop" => &["pvfs-resume(1)", "pvfs-status(1)", "pvfs-sessions(1)"],
        "pvfs-sessions" => &["pvfs-deny(1)", "pvfs-status(1)", "pvfs-umount(1)"],
        "pvfs-deny" | "pvfs-umount" => &["pvfs-sessions(1)"],
        _ => &[],
    };
    pages.extend(related.iter().map(|page| (*page).to_owned()));
    pages.retain(|page| *page != format!("{name}(1)"));
    let mut roff = Roff::new();
    if !pages.is_empty() {
        roff.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(roff: &str) -> String {
        roff.replace("\\-", "-")
    }

    fn each_command(command: &Command, check: &mut impl FnMut(&Command)) {
        check(command);
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        shown.for_each(|below| each_command(below, check));
    }

    #[test]
    fn every_page_mentions_every_option_of_its_command() {
        each_command(&tree(), &mut |command| {
            let page = page(command);
            let text = plain(&page.roff);
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                if let Some(long) = argument.get_long() {
                    assert!(text.contains(&format!("--{long}")), "{} --{long}", page.file_name);
                }
            }
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "FILES"] {
                assert!(text.contains(section), "{} {section}", page.file_name);
            }
        });
    }

    #[test]
    fn every_command_and_every_old_name_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        write_all(directory.path(), &Context::default()).unwrap();
        for page in ["man1/pvfs.1", "man1/pvfs-cp.1", "man1/pvfs-stripe-set.1", "man8/mount.pvfs.8"]
        {
            assert!(directory.path().join(page).exists(), "{page}");
        }
        let mut commands = 0;
        each_command(&tree(), &mut |_| commands += 1);
        assert_eq!(pages().len(), commands + OLD_NAMES.len());
        for (_, target) in OLD_NAMES {
            assert!(directory.path().join(format!("man1/{target}.1")).exists(), "{target}");
        }
    }

    #[test]
    fn exit_codes_are_in_the_manual() {
        let text = page(&tree()).roff;
        assert!(Exit::ALL.iter().all(|exit| text.contains(exit.meaning())));
    }

    #[test]
    fn a_page_is_found_by_the_words_of_its_command() {
        let words = ["stripe", "set"].map(str::to_owned);
        assert_eq!(page(&find(&words).unwrap()).file_name, "pvfs-stripe-set.1");
        assert_eq!(page(&find(&[]).unwrap()).file_name, "pvfs.1");
        let said = find(&["strip".to_owned()]).unwrap_err();
        assert!(said.sentence().starts_with("there is no command \"strip\"; there are up, down"));
    }
}
