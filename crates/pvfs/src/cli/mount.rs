//! `pvfs mount`: the file system in the directory tree of this machine; as `mount.pvfs` as well.

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::unbuilt::not_built_yet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Mount the file system
///
/// Runs in the background once the mount can be used. All users of the node see it, each with the
/// rights of their own. Also called by mount(8) as mount.pvfs, so a line in /etc/fstab of type pvfs
/// works; the first field there is the cluster file or the name of the file system.
///
/// Options, as in fstab: ro, rw, hard (retry for ever, but killable) or soft (fail at the deadline;
/// the default), allow_other or noallow_other, config=FILE, nosuid, nodev, noexec, noatime, sync,
/// dirsync. Those that only mount(8) or systemd look at (defaults, _netdev, noauto, nofail, user,
/// x-...) are taken and ignored.
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
    pub options: Vec<MountOption>,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Threads that serve the kernel
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Ignore options that are unknown, as mount -s asks
    #[arg(long)]
    pub sloppy: bool,
    /// Do all but the mount itself, as mount -f asks
    #[arg(long)]
    pub fake: bool,
}

const EXAMPLES: &str = "\
Examples:
  The cluster file found in its usual place:
    pvfs mount /scratch
  Read-only, of another cluster:
    pvfs mount --config /etc/pvfs/other.toml -o ro,noexec /other
  As mount(8) does it:
    mount.pvfs /etc/pvfs/cluster.toml /scratch -o rw,hard";

/// One of the options after `-o`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MountOption {
    /// `ro`, and `rw` for the opposite.
    ReadOnly(bool),
    /// `hard`, and `soft` for the opposite.
    Hard(bool),
    /// `allow_other`, and `noallow_other` for the opposite.
    AllowOther(bool),
    /// `config=FILE`
    Config(PathBuf),
    /// A flag the kernel looks at.
    Kernel(&'static str),
    /// Means nothing to us, but to mount(8), systemd or users of /etc/fstab.
    Ignored,
    /// Not known.
    Unknown(String),
}

/// What all options together say; a later one overrides an earlier one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MountOptions {
    /// Nothing may be changed through this mount.
    pub read_only: bool,
    /// Operations are repeated for ever instead of failing at their deadline.
    pub hard: bool,
    /// Whether other users may use the mount; unsaid, root's mounts are for all.
    pub allow_other: Option<bool>,
    /// The cluster file.
    pub config: Option<PathBuf>,
    /// Flags for the kernel: some of [`KERNEL_FLAGS`].
    pub kernel: Vec<&'static str>,
}

/// The flags that go on to the kernel. Their opposites are the default and ignored.
pub const KERNEL_FLAGS: [&str; 6] = ["nosuid", "nodev", "noexec", "noatime", "sync", "dirsync"];

const IGNORED: [&str; 18] = [
    "defaults",
    "_netdev",
    "auto",
    "noauto",
    "nofail",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "suid",
    "dev",
    "exec",
    "atime",
    "async",
    "relatime",
    "norelatime",
    "lazytime",
];

impl FromStr for MountOption {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "ro" => Self::ReadOnly(true),
            "rw" => Self::ReadOnly(false),
            "hard" => Self::Hard(true),
            "soft" => Self::Hard(false),
            "allow_other" => Self::AllowOther(true),
            "noallow_other" => Self::AllowOther(false),
            _ => Self::from_lists(text),
        })
    }
}

impl MountOption {
    fn from_lists(text: &str) -> Self {
        if let Some(flag) = KERNEL_FLAGS.iter().find(|flag| **flag == text) {
            Self::Kernel(flag)
        } else if let Some(path) = text.strip_prefix("config=") {
            Self::Config(path.into())
        } else if text.is_empty() || text.starts_with("x-") || IGNORED.contains(&text) {
            Self::Ignored
        } else {
            Self::Unknown(text.to_owned())
        }
    }
}

impl Args {
    /// What the options say together.
    pub fn options(&self) -> Result<MountOptions, Failure> {
        let mut all = MountOptions::default();
        for option in &self.options {
            match option {
                MountOption::ReadOnly(read_only) => all.read_only = *read_only,
                MountOption::Hard(hard) => all.hard = *hard,
                MountOption::AllowOther(allow) => all.allow_other = Some(*allow),
                MountOption::Config(path) => all.config = Some(path.clone()),
                MountOption::Kernel(flag) => all.kernel.push(flag),
                MountOption::Unknown(text) if !self.sloppy => return Err(unknown_option(text)),
                MountOption::Ignored | MountOption::Unknown(_) => {}
            }
        }
        Ok(all)
    }
}

fn unknown_option(text: &str) -> Failure {
    let known = "write ro, rw, hard, soft, allow_other, noallow_other, config=FILE";
    let flags = KERNEL_FLAGS.join(", ");
    Failure::new(Exit::Usage, format!("unknown mount option \"{text}\"; {known}, {flags}"))
}

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("mount"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn options(text: &str, sloppy: bool) -> Result<MountOptions, Failure> {
        let mut line = vec!["pvfs", "mount", "/mnt", "-o", text];
        line.extend(sloppy.then_some("--sloppy"));
        match Cli::try_parse_from(line).unwrap().command {
            Command::Mount(args) => args.options(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn later_options_override_earlier_ones() {
        let expected = MountOptions {
            hard: true,
            allow_other: Some(false),
            config: Some("/c.toml".into()),
            kernel: vec!["nosuid", "noatime"],
            ..MountOptions::default()
        };
        let text = "ro,rw,soft,hard,allow_other,noallow_other,nosuid,noatime,config=/c.toml";
        assert_eq!(options(text, false), Ok(expected));
    }

    #[test]
    fn what_only_mount_looks_at_is_ignored() {
        let text = "defaults,_netdev,nofail,x-systemd.requires=pvfs-agent.service,,user";
        assert_eq!(options(text, false), Ok(MountOptions::default()));
    }

    #[test]
    fn an_unknown_option_is_refused_unless_sloppy() {
        let refused = options("ro,fast", false).unwrap_err();
        assert!(refused.sentence().starts_with("unknown mount option \"fast\"; write ro, rw"));
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(options("ro,fast", true).unwrap().read_only);
    }
}
