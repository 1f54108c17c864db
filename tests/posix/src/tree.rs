//! A random stream of operations on names, done in two directories: the one in question and a plain one. Every
//! answer must be the same, and in the end so must the trees.

use std::collections::BTreeMap;

use crate::chance::Chance;
use crate::sys::*;

/// What of an object can be compared.
type Shape = (u32, u64, i64, Option<String>);

/// Does the same `steps` operations, chosen by `seed`, in each directory.
pub fn run(seed: u64, directories: [&str; 2], steps: usize) {
    run_seen_from(seed, directories, directories[0], steps);
}

/// The like; the first directory is looked at as `seen`, which may be the same on another mount.
pub fn run_seen_from(seed: u64, directories: [&str; 2], seen: &str, steps: usize) {
    // One further down: some symlinks lead out of where the operations are, which is to be seen too, and to be gone with it.
    let inside = directories.map(|directory| format!("{directory}/inside"));
    inside.iter().for_each(|directory| mkdir(directory, 0o755).expect("an empty directory"));
    let mut chance = Chance::new(seed);
    let mut story = Vec::new();
    for _ in 0..steps {
        let step = Step::any(&mut chance);
        story.push(format!("{step:?}"));
        let [one, other] = inside.each_ref().map(|directory| step.run(directory));
        let told = story[story.len().saturating_sub(12)..].join("; ");
        assert_eq!(one, other, "after {told}");
        let [one, other] = [seen, directories[1]].map(shapes);
        if one != other {
            let differing = one.iter().find(|(path, shape)| other.get(*path) != Some(*shape));
            let missing = other.keys().find(|path| !one.contains_key(*path));
            panic!("the trees differ in {differing:?} {missing:?}, after {told}");
        }
    }
}

/// An operation; paths are below the directory.
#[derive(Debug)]
enum Step {
    Create(String, bool),
    Mkdir(String),
    Symlink(String, String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, u32),
    Chmod(String, u32),
    Write(String, usize),
    Fifo(String),
}

impl Step {
    fn any(chance: &mut Chance) -> Self {
        let path = path(chance);
        match chance.below(14) {
            0..2 => Self::Create(path, chance.below(2) == 0),
            2..4 => Self::Mkdir(path),
            4 => Self::Symlink(chance.of(&["a", "b/c", "../a", "absent", "."]).to_owned(), path),
            5 => Self::Link(path, self::path(chance)),
            6 => Self::Unlink(path),
            7 => Self::Rmdir(path),
            8..11 => {
                let flags = chance.of(&[0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE]);
                Self::Rename(path, self::path(chance), flags)
            }
            11 => Self::Chmod(path, chance.of(&[0o600, 0o755, 0o4711, 0o1777])),
            12 => Self::Write(path, chance.below(100_000)),
            _ => Self::Fifo(path),
        }
    }

    fn run(&self, directory: &str) -> Result<()> {
        let at = |path: &str| format!("{directory}/{path}");
        match self {
            Self::Create(path, exclusive) => {
                let flags = O_WRONLY | O_CREAT | O_NONBLOCK | if *exclusive { O_EXCL } else { 0 };
                open(&at(path), flags, 0o644).map(drop)
            }
            Self::Mkdir(path) => mkdir(&at(path), 0o755),
            Self::Symlink(target, path) => symlink(target, &at(path)),
            Self::Link(old, new) => link(&at(old), &at(new)),
            Self::Unlink(path) => unlink(&at(path)),
            Self::Rmdir(path) => rmdir(&at(path)),
            Self::Rename(old, new, 0) => rename(&at(old), &at(new)),
            Self::Rename(..) if !has("renameat2") => Ok(()),
            Self::Rename(old, new, flags) => renameat2(&at(old), &at(new), *flags),
            Self::Chmod(path, mode) => chmod(&at(path), *mode),
            Self::Write(path, bytes) => {
                let file = open(&at(path), O_WRONLY | O_TRUNC | O_NONBLOCK, 0)?;
                write(&file, &vec![7; *bytes]).map(drop)
            }
            Self::Fifo(_) if !has("mkfifo") => Ok(()),
            Self::Fifo(path) => mkfifo(&at(path), 0o640),
        }
    }
}

/// One to three components of few names, so that they meet often.
fn path(chance: &mut Chance) -> String {
    let names = ["a", "b", "c", "d"];
    let mut path = chance.of(&names).to_owned();
    for _ in 0..chance.below(3) {
        path = format!("{path}/{}", chance.of(&names));
    }
    path
}

/// Everything below a directory: mode, links, size of files, targets of symlinks.
fn shapes(directory: &str) -> BTreeMap<String, Shape> {
    let mut found = BTreeMap::new();
    let mut left = vec![String::new()];
    while let Some(below) = left.pop() {
        let here = format!("{directory}/{below}");
        for name in crate::wants::names(&here) {
            let path = format!("{below}{name}");
            let full = format!("{directory}/{path}");
            let stat = lstat(&full).expect("what is listed is there");
            let kind = stat.st_mode & S_IFMT;
            let size = if kind == S_IFREG { stat.st_size } else { 0 };
            let target = (kind == S_IFLNK).then(|| readlink(&full).expect("a symlink"));
            found.insert(path.clone(), (stat.st_mode, stat.st_nlink, size, target));
            if kind == S_IFDIR {
                left.push(format!("{path}/"));
            }
        }
    }
    found
}
