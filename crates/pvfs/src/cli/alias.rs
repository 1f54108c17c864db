//! The old names: what a link to `pvfs` does that is called otherwise.
//!
//! ```text
//! u2p -s 64K -b 0 -n 4 src dst      pvfs cp --u2p -s 64K -b 0 -n 4 src dst       (PVFS 1)
//! pvstat FILE                       pvfs stat FILE                               (PVFS 1)
//! mkmgrconf ...                     pvfs genconfig ...                           (PVFS 1)
//! mgr, iod                          pvfs mgr, pvfs iod                           (PVFS 1)
//! mount.pvfs SOURCE DIR -o opts     pvfs mount --source SOURCE DIR -o opts       (mount(8))
//! mount.fuse.pvfs                   the same, of a mount that is there           (mount(8))
//! ```

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The command line as `pvfs` itself would have been given it.
pub(crate) fn translate(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.is_empty() {
        return vec!["pvfs".into()];
    }
    let name = Path::new(&arguments[0]).file_name().and_then(OsStr::to_str).unwrap_or("pvfs");
    let words: &[&str] = match name {
        "u2p" => &["cp", "--u2p"],
        "pvstat" => &["stat"],
        "mkmgrconf" => &["genconfig"],
        "mgr" => &["mgr"],
        "iod" => &["iod"],
        "mount.pvfs" | "mount.fuse.pvfs" => return mount(arguments.split_off(1)),
        _ => &[],
    };
    let command = ["pvfs"].iter().chain(words).map(OsString::from);
    command.chain(arguments.split_off(1)).collect()
}

/// mount(8) calls helpers as `mount.pvfs SOURCE DIR [-sfnv] [-N namespace] [-o options] [-t type]`.
/// All but the two places goes on as it is, save what means nothing here: `-n` (there is no mtab to
/// leave alone) and `-t` (the type is known).
fn mount(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut command: Vec<OsString> = ["pvfs", "mount"].map(OsString::from).to_vec();
    let mut places = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-t") => drop(rest.next()),
            Some("-o") => command.extend([argument].into_iter().chain(rest.next())),
            Some(flags) if is_flag_cluster(flags) => command.extend(long_flags(flags)),
            Some(text) if text.starts_with('-') => command.push(argument),
            _ => places.push(argument),
        }
    }
    if places.len() > 1 {
        command.push("--source".into());
    }
    command.extend(places);
    command
}

/// Whether this is one or several of mount(8)'s flags without a value, such as `-sv`.
fn is_flag_cluster(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|flags| !flags.is_empty() && flags.chars().all(|flag| "sfnv".contains(flag)))
}

fn long_flags(flags: &str) -> impl Iterator<Item = OsString> {
    flags.chars().filter_map(|flag| match flag {
        's' => Some("--sloppy".into()),
        'f' => Some("--fake".into()),
        'v' => Some("--verbose".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::striping::Striping;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn translated(line: &str) -> String {
        let words = translate(line.split(' ').map(OsString::from).collect());
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    fn parsed(line: &str) -> Command {
        let words = translate(line.split(' ').map(OsString::from).collect());
        Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).command
    }

    #[test]
    fn old_names_stand_for_commands() {
        for (old, new) in [
            ("/usr/bin/pvfs ls -l", "pvfs ls -l"),
            ("pvfs-1.2 ls", "pvfs ls"),
            ("/usr/bin/u2p -n 4 a b", "pvfs cp --u2p -n 4 a b"),
            ("./pvstat f", "pvfs stat f"),
            ("mkmgrconf --iods n1", "pvfs genconfig --iods n1"),
            ("iod --name io0", "pvfs iod --name io0"),
            ("mgr --name mgr0", "pvfs mgr --name mgr0"),
        ] {
            assert_eq!(translated(old), new);
        }
        assert_eq!(translate(Vec::new()), ["pvfs"]);
    }

    #[test]
    fn mount_helpers_are_called_as_mount_calls_them() {
        for (old, new) in [
            ("/sbin/mount.pvfs fs /mnt -o rw,noatime", "pvfs mount -o rw,noatime --source fs /mnt"),
            (
                "mount.pvfs fs /mnt -sfnv -o rw",
                "pvfs mount --sloppy --fake --verbose -o rw --source fs /mnt",
            ),
            ("mount.pvfs fs /mnt -n -t pvfs.x", "pvfs mount --source fs /mnt"),
            ("mount.fuse.pvfs fs /mnt -o rw,remount", "pvfs mount -o rw,remount --source fs /mnt"),
            ("mount.pvfs --help", "pvfs mount --help"),
        ] {
            assert_eq!(translated(old), new);
        }
    }

    #[test]
    fn old_command_lines_parse() {
        let Command::Cp(cp) = parsed("u2p -s 16384 -b 1 -n 4 /tmp/src /pvfs/dst") else { panic!() };
        let Striping { ssize, base, pcount, .. } = cp.striping;
        assert_eq!((ssize, base, pcount, cp.u2p), (16384, 1, 4, true));
        let Command::Cp(cp) = parsed("u2p -s -1 -b -1 -n -1 src dst") else { panic!() };
        assert_eq!(cp.striping, Striping::default());
        assert!(matches!(parsed("pvstat /pvfs/dst"), Command::Stat(_)));
        assert!(matches!(parsed("mkmgrconf"), Command::Genconfig(_)));
        assert!(matches!(parsed("iod --name io0"), Command::Iod(_)));
        assert!(matches!(parsed("mgr"), Command::Mgr(_)));
        let Command::Mount(mount) = parsed("mount.pvfs /etc/c.toml /mnt -v -o ro,_netdev") else {
            panic!()
        };
        assert_eq!(mount.config(), Some("/etc/c.toml".into()));
        assert!(mount.mount_options().unwrap().read_only);
    }
}
