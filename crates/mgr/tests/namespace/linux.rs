//! Linux itself as a [`Side`]: the judge of the model, and through it of the name space.
//!
//! A directory of a local file system, and for each user a process of this test program under
//! setpriv(1), which does what it is told on its standard input. Needs root; passed over without.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::act::{Act, How, Moment, USERS};
use crate::cases::rename_everything;
use crate::model::{Model, errno};
use crate::random::seeds;
use crate::side::{Shown, Side, compare};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, RawMode, RenameFlags, Timespec, Timestamps,
    Uid,
};
use rustix::io::Errno;

/// A directory and the processes of its users.
struct Linux {
    base: tempfile::TempDir,
    users: Vec<User>,
}

struct User {
    process: Child,
    acts: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Linux {
    fn new() -> Self {
        let base = tempfile::Builder::new().prefix("pvfs-namespace-").tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = base.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let root = base.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        let users = (0..USERS.len()).map(|user| User::start(&program, &root, user)).collect();
        Self { users, base }
    }

    fn root(&self) -> std::path::PathBuf {
        self.base.path().join("root")
    }
}

impl User {
    fn start(program: &Path, directory: &Path, user: usize) -> Self {
        let (uid, gid, gids) = USERS[user];
        let gids = gids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let groups =
            if gids.is_empty() { "--clear-groups".into() } else { format!("--groups={gids}") };
        let mut process = Command::new("setpriv")
            .args([format!("--reuid={uid}"), format!("--regid={gid}"), groups])
            .arg(program)
            .args(["linux::one_user", "--exact", "--ignored", "--nocapture"])
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let acts = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, acts, answers }
    }

    fn ask(&mut self, act: &Act) -> Result<String, u32> {
        writeln!(self.acts, "{}", serde_json::to_string(act).unwrap()).unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the user's process ended");
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return serde_json::from_str(answer).unwrap();
            }
        }
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        for user in &mut self.users {
            let _ = user.process.kill();
            let _ = user.process.wait();
        }
    }
}

impl Side for Linux {
    fn name(&self) -> &'static str {
        "Linux"
    }

    fn act(&mut self, user: usize, act: &Act) -> Result<String, u32> {
        self.users[user].ask(act)
    }

    fn clear(&mut self) {
        for entry in fs::read_dir(self.root()).unwrap() {
            let path = entry.unwrap().path();
            let is_dir = fs::symlink_metadata(&path).unwrap().is_dir();
            if is_dir { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
    }

    fn tree(&mut self) -> BTreeMap<String, Shown> {
        let mut tree = BTreeMap::new();
        gather(&self.root(), "", &mut tree);
        tree
    }
}

fn gather(real: &Path, path: &str, into: &mut BTreeMap<String, Shown>) {
    let meta = fs::symlink_metadata(real).unwrap();
    let is_dir = meta.is_dir();
    let target = fs::read_link(real).map_or(String::new(), |t| t.to_str().unwrap().to_owned());
    let kind = match meta.file_type() {
        kind if kind.is_dir() => 'd',
        kind if kind.is_file() => 'f',
        kind if kind.is_symlink() => 'l',
        kind if kind.is_fifo() => 'p',
        other => panic!("{other:?}"),
    };
    let time =
        |seconds, nanos| if seconds < 1000 { seconds } else { seconds * 1_000_000_000 + nanos };
    let shown = Shown {
        kind,
        mode: meta.mode() & 0o7777,
        nlink: meta.nlink() as u32,
        uid: meta.uid(),
        gid: meta.gid(),
        size: if is_dir { 0 } else { meta.size() },
        target,
        object: meta.ino(),
        times: [time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec())],
        written: false,
    };
    into.insert(path.to_owned(), shown);
    if is_dir {
        for entry in fs::read_dir(real).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            gather(&real.join(&name), &format!("{path}/{name}"), into);
        }
    }
}

/// The model without what a model alone can see.
struct Judged(Model);

impl Side for Judged {
    fn name(&self) -> &'static str {
        "the model"
    }

    fn act(&mut self, user: usize, act: &Act) -> Result<String, u32> {
        self.0.act(user, act)
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn open_slots(&self) -> Vec<(usize, u32)> {
        self.0.open_slots()
    }

    fn tree(&mut self) -> BTreeMap<String, Shown> {
        self.0.tree()
    }

    /// truncate(2) to the size that is changes nothing on Linux, where POSIX leaves it open; here it
    /// does, since the manager need not know the size.
    fn is_unfair(&mut self, user: usize, act: &Act) -> bool {
        let same_size =
            matches!(act, Act::Truncate { path, size } if self.0.size_of(path) == Some(*size));
        same_size || self.0.is_unfair(user, act)
    }
}

fn is_possible() -> bool {
    let possible = rustix::process::geteuid().is_root() && Path::new("/usr/bin/setpriv").exists();
    if !possible {
        eprintln!("passed over: needs root and setpriv to act as several users");
    }
    possible
}

#[test]
fn renames_of_the_model_end_as_on_linux() {
    if is_possible() {
        // All of them take half a minute; they were run when this was written.
        let nth = if std::env::var("PVFS_RUNS").is_ok() { 1 } else { 13 };
        rename_everything(&mut Judged(Model::new()), &mut Linux::new(), nth);
    }
}

#[test]
fn the_model_does_what_linux_does() {
    if !is_possible() {
        return;
    }
    for seed in seeds(8) {
        compare(&mut Judged(Model::new()), &mut Linux::new(), seed, 400, false);
    }
}

/// Not a test: the process of one user, see [`User::start`].
#[test]
#[ignore = "run by the_model_does_what_linux_does"]
fn one_user() {
    rustix::process::umask(Mode::empty());
    let mut slots = BTreeMap::new();
    for line in std::io::stdin().lines() {
        let act: Act = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = run(&mut slots, &act).map_err(|errno| errno.raw_os_error() as u32);
        println!("{ANSWER}{}", serde_json::to_string(&answer).unwrap());
    }
}

const ANSWER: &str = "answer: ";

type Slots = BTreeMap<u32, (fs::File, How)>;

fn run(slots: &mut Slots, act: &Act) -> Result<String, Errno> {
    let mode = |mode: u32| Mode::from_raw_mode(mode as RawMode);
    let at = |follow| if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    match act {
        Act::Mkdir { path, mode: bits } => rustix::fs::mkdir(path.as_str(), mode(*bits))?,
        Act::File { path, mode: bits } => {
            rustix::fs::mknodat(CWD, path.as_str(), FileType::RegularFile, mode(*bits), 0)?;
        }
        Act::Fifo { path, mode: bits } => {
            rustix::fs::mknodat(CWD, path.as_str(), FileType::Fifo, mode(*bits), 0)?;
        }
        Act::Symlink { to, path } => rustix::fs::symlink(to.as_str(), path.as_str())?,
        Act::Link { old, new, follow } => {
            let flags = if *follow { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
            rustix::fs::linkat(CWD, old.as_str(), CWD, new.as_str(), flags)?;
        }
        Act::LinkOpen { slot, new } => {
            let (file, _) = slots.get(slot).ok_or(Errno::BADF)?;
            let old = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, old, CWD, new.as_str(), AtFlags::SYMLINK_FOLLOW)?;
        }
        Act::Unlink { path } => rustix::fs::unlink(path.as_str())?,
        Act::Rmdir { path } => rustix::fs::rmdir(path.as_str())?,
        Act::Rename { old, new, flags } => {
            let flags = RenameFlags::from_bits_retain(*flags);
            rustix::fs::renameat_with(CWD, old.as_str(), CWD, new.as_str(), flags)?;
        }
        Act::Chmod { path, mode: bits } => {
            rustix::fs::chmodat(CWD, path.as_str(), mode(*bits), AtFlags::empty())?;
        }
        Act::Chown { path, uid, gid, follow } => {
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            rustix::fs::chownat(CWD, path.as_str(), uid, gid, at(*follow))?;
        }
        Act::Times { path, atime, mtime } => {
            let times =
                Timestamps { last_access: moment(*atime), last_modification: moment(*mtime) };
            rustix::fs::utimensat(CWD, path.as_str(), &times, AtFlags::empty())?;
        }
        Act::Stat { path, follow } => {
            let stat = rustix::fs::statat(CWD, path.as_str(), at(*follow))?;
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            return Ok(if is_dir { "directory" } else { "other" }.to_owned());
        }
        Act::Readlink { path } => {
            let target = rustix::fs::readlink(path.as_str(), Vec::new())?;
            return Ok(target.into_string().unwrap());
        }
        Act::Access { path, bits } => {
            let access = Access::from_bits_retain(*bits);
            rustix::fs::accessat(CWD, path.as_str(), access, AtFlags::empty())?;
        }
        Act::List { path } => return list(path),
        Act::Truncate { path, size } => truncate(path, *size)?,
        Act::Open { path, how, mode: bits, slot } => {
            slots.remove(slot);
            let opened = rustix::fs::open(path.as_str(), flags(*how), mode(*bits))?;
            let opened = fs::File::from(opened);
            if opened.metadata().is_ok_and(|meta| meta.is_file()) {
                slots.insert(*slot, (opened, *how));
            }
        }
        Act::Close { slot } => drop(slots.remove(slot).ok_or(Errno::BADF)?),
        Act::Write { slot, end } => {
            let (file, how) = slots.get(slot).ok_or(Errno::BADF)?;
            // Linux' pwrite appends on a file opened so.
            let offset = if how.append { 0 } else { end - 1 };
            rustix::io::pwrite(file, b"x", offset)?;
        }
        Act::Append { slot } => {
            let (file, how) = slots.get(slot).ok_or(Errno::BADF)?;
            if !how.write || !how.append {
                return Err(Errno::BADF);
            }
            rustix::io::write(file, b"x")?;
        }
        Act::Ftruncate { slot, size } => {
            rustix::fs::ftruncate(&slots.get(slot).ok_or(Errno::BADF)?.0, *size)?;
        }
    }
    Ok(String::new())
}

fn list(path: &str) -> Result<String, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    let entries = rustix::fs::Dir::new(dir)?.map(|entry| entry.unwrap());
    let names = entries.map(|entry| entry.file_name().to_str().unwrap().to_owned());
    let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
    names.sort();
    Ok(names.join(" "))
}

/// truncate(2), which rustix does not have. A fifo or directory must be refused without opening it.
fn truncate(path: &str, size: u64) -> Result<(), Errno> {
    let status = Command::new("perl")
        .args(["-e", "truncate($ARGV[0], $ARGV[1]) or exit($!)", path, &size.to_string()])
        .status()
        .unwrap();
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Errno::from_raw_os_error(code.unwrap())),
    }
}

fn moment(moment: Moment) -> Timespec {
    let (tv_sec, tv_nsec) = match moment {
        Moment::Omit => (0, rustix::fs::UTIME_OMIT),
        Moment::Now => (0, rustix::fs::UTIME_NOW),
        Moment::At(seconds) => (seconds, 0),
    };
    Timespec { tv_sec, tv_nsec: tv_nsec as _ }
}

fn flags(how: How) -> OFlags {
    let access = match (how.read, how.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    let others = [
        (how.create, OFlags::CREATE),
        (how.exclusive, OFlags::EXCL),
        (how.truncate, OFlags::TRUNC),
        (how.append, OFlags::APPEND),
        (how.nofollow, OFlags::NOFOLLOW),
        (how.directory, OFlags::DIRECTORY),
        (how.nameless, OFlags::TMPFILE.difference(OFlags::DIRECTORY)),
        (true, OFlags::NONBLOCK),
    ];
    others.into_iter().filter(|(set, _)| *set).fold(access, |flags, (_, flag)| flags | flag)
}

/// Keeps the list of error numbers honest.
#[test]
fn error_numbers_are_those_of_linux() {
    for (ours, theirs) in [
        (errno::EPERM, Errno::PERM),
        (errno::ENOENT, Errno::NOENT),
        (errno::EACCES, Errno::ACCESS),
        (errno::EEXIST, Errno::EXIST),
        (errno::ENOTDIR, Errno::NOTDIR),
        (errno::EISDIR, Errno::ISDIR),
        (errno::ENOTEMPTY, Errno::NOTEMPTY),
        (errno::ELOOP, Errno::LOOP),
    ] {
        assert_eq!(ours, theirs.raw_os_error() as u32);
    }
}
