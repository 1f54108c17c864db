//! `pvfs mount`: the file system in the directory tree of this machine; as `mount.pvfs` and `mount.fuse.pvfs` as well.

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::mounting::{Plan, detach_from_terminal, run_in_background, serve};
use pvfs_config::Cluster;
use pvfs_fuse::{MountError, MountOptions, OptionError};
use std::path::PathBuf;

/// Mount the file system
///
/// Runs in the background once the mount can be used. All users of the node see it, each with the
/// rights of their own. Also called by mount(8) as mount.pvfs, so a line in /etc/fstab of type pvfs
/// works; the first field there is the cluster file or the name of the file system.
///
/// Options, as in fstab: ro, rw; hard (retry for ever, but killable) or soft (fail at the deadline,
/// the default); allow_other, noallow_other; config=FILE; cache=lease (names and attributes are kept
/// until they are changed elsewhere, which is seen at once; the default), cache=none (every question
/// goes to the manager) or cache=timeout=SECONDS (changes are seen that late); direct=auto, on or
/// off (bypass the page cache); threads=COUNT; nosuid, nodev, noexec, noatime, sync, dirsync and their opposites;
/// fsname=NAME; debug. With remount, a mount is made read-only or writable, or is given others of
/// the options between nosuid and dirsync; it stays what it is otherwise, and files stay open.
/// Those that only mount(8) or systemd look at (defaults, _netdev, noauto, nofail, user, x-...) are
/// taken and ignored.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to mount it
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub directory: PathBuf,
    /// What to mount: a cluster file (with a slash in it) or the name of a file system
    #[arg(long)]
    pub source: Option<String>,
    /// Options with commas between them, as in /etc/fstab
    #[arg(short, long = "option", value_name = "OPTIONS", value_delimiter = ',')]
    pub options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Ignore options that are unknown, as mount -s asks
    #[arg(long)]
    pub sloppy: bool,
    /// Do all but the mount itself, as mount -f asks
    #[arg(long)]
    pub fake: bool,
    /// Where messages go once it runs in the background [default: nowhere]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// This is the process in the background: tell the one that waits, then let go of the terminal
    #[arg(long, hide = true)]
    pub background: bool,
}

const EXAMPLES: &str = "\
Examples:
  The cluster file found in its usual place:
    pvfs mount /scratch
  Read-only, of another cluster:
    pvfs mount --config /etc/pvfs/other.toml -o ro,noexec /other
  For reading only from now on:
    pvfs mount -o remount,ro /scratch
  As mount(8) does it:
    mount.pvfs /etc/pvfs/cluster.toml /scratch -o rw,hard";

impl Args {
    /// What the options say together, the cluster file apart.
    pub fn mount_options(&self) -> Result<MountOptions, Failure> {
        self.options_over(MountOptions::default())
    }

    /// The like, and what they do not say from elsewhere.
    fn options_over(&self, mut all: MountOptions) -> Result<MountOptions, Failure> {
        let texts = self.options.iter().filter(|text| !text.is_empty() && *text != REMOUNT);
        for text in texts.filter(|text| !text.starts_with(CONFIG)) {
            match all.set(text) {
                Err(OptionError::Unknown(_)) if self.sloppy => {}
                outcome => {
                    outcome.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
                }
            }
        }
        Ok(all)
    }

    /// Whether it is mounted already, and is to be changed.
    pub fn is_remount(&self) -> bool {
        self.options.iter().any(|text| text == REMOUNT)
    }

    /// The cluster file that the options or the source name.
    pub fn config(&self) -> Option<PathBuf> {
        let option = self.options.iter().rev().find_map(|text| text.strip_prefix(CONFIG));
        let source = self.source.as_deref().filter(|source| source.contains('/'));
        option.or(source).map(PathBuf::from)
    }

    /// The file system that the source names, to compare with the one in the cluster file.
    pub fn filesystem(&self) -> Option<&str> {
        self.source.as_deref().filter(|source| !source.contains('/'))
    }
}

const CONFIG: &str = "config=";
const REMOUNT: &str = "remount";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.is_remount() {
        return change(args);
    }
    let cluster = context.cluster_of(args.config().as_deref())?;
    let plan = plan(args, cluster)?;
    if args.fake {
        return Ok(());
    }
    if !args.foreground && !args.background {
        return run_in_background(&args.directory);
    }
    serve(&plan, context, || {
        if args.background {
            detach_from_terminal(args.log.as_deref())
        }
    })
}

/// Changes a mount. Who names its source too, as mount(8) does, has said all options, and others what differs.
fn change(args: &Args) -> Result<(), Failure> {
    let failed = |error: MountError| Failure::new(Exit::Failed, error.to_string());
    let present = match args.source {
        Some(_) => MountOptions::default(),
        None => pvfs_fuse::options_at(&args.directory).map_err(failed)?,
    };
    let options = args.options_over(present)?;
    if args.fake {
        return Ok(());
    }
    pvfs_fuse::remount(&args.directory, &options).map_err(failed)
}

/// What is to be mounted, checked as far as that is possible without doing it.
fn plan(args: &Args, cluster: Cluster) -> Result<Plan, Failure> {
    let mut options = args.mount_options()?;
    let name = &cluster.filesystem().name;
    if let Some(wanted) = args.filesystem().filter(|wanted| wanted != name) {
        let file = cluster.path.display();
        let sentence = format!("{file} describes {name}, not {wanted}; give --config or the file");
        return Err(Failure::new(Exit::Usage, sentence));
    }
    // By its source other commands find the cluster that a path below the mount belongs to.
    if options.source == MountOptions::default().source {
        options.source = cluster.path.display().to_string();
    }
    Ok(Plan { cluster, directory: args.directory.clone(), options })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn mount(flags: &[&str]) -> Args {
        let line = ["pvfs", "mount", "/mnt"].into_iter().chain(flags.iter().copied());
        match Cli::try_parse_from(line).unwrap().command {
            Command::Mount(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_cluster_file_comes_from_the_options_or_the_source() {
        let source = ["--source", "/etc/a.toml"];
        assert_eq!(mount(&source).config(), Some("/etc/a.toml".into()));
        assert_eq!(mount(&[]).config(), None);
        let both = mount(&["--source", "/etc/a.toml", "-o", "ro,config=/etc/b.toml"]);
        assert_eq!(both.config(), Some("/etc/b.toml".into()));
        assert!(both.mount_options().unwrap().read_only);
        let named = mount(&["--source", "scratch"]);
        assert_eq!((named.config(), named.filesystem()), (None, Some("scratch")));
    }

    #[test]
    fn a_mount_shows_its_cluster_file_as_its_source_unless_told_otherwise() {
        let text = "version = 1\n[filesystem]\nname = \"scratch\"\nid = 1\n[security]\nmode = \"none\"\n\
                    [[manager]]\nname = \"m\"\nlisten = [\"tcp://127.0.0.1:1\"]\nstore = \"m\"\n\
                    [[iod]]\nname = \"i\"\nlisten = [\"tcp://127.0.0.1:2\"]\nstore = \"i\"\n";
        let cluster = || Cluster::parse(text, "/etc/c.toml".as_ref()).unwrap();
        assert_eq!(plan(&mount(&[]), cluster()).unwrap().options.source, "/etc/c.toml");
        let named = mount(&["-o", "fsname=x", "--source", "scratch"]);
        assert_eq!(plan(&named, cluster()).unwrap().options.source, "x");
        let other = plan(&mount(&["--source", "other"]), cluster()).err().unwrap();
        assert!(other.sentence().contains("describes scratch, not other"));
    }

    #[test]
    fn an_unknown_option_is_refused_unless_sloppy() {
        let refused = mount(&["-o", "ro,fast"]).mount_options().unwrap_err();
        assert!(refused.sentence().starts_with("unknown mount option \"fast\"; "));
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(mount(&["-o", "ro,fast,,defaults", "--sloppy"]).mount_options().unwrap().read_only);
    }
}
