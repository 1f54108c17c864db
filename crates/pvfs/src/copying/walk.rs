//! Finding what to copy: directories are made and links copied on the way, files become jobs.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use pvfs_client::block_on;
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, FileKind, Time};
use pvfs_wire::ops::{SetAttr, SetTime};

use super::{About, Job, Wishes};
use crate::cli::exit::{Exit, Failure};
use crate::connected::Location;

/// What is left to do for a directory once everything in it is copied.
pub type Finish = Box<dyn FnOnce() -> Result<(), Failure>>;

/// Walks one source; returns what failed on the way.
pub fn gather(
    from: Location,
    to: Location,
    wishes: &Wishes,
    jobs: &mut VecDeque<Job>,
    finishing: &mut Vec<Finish>,
) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut left = vec![(from, to)];
    while let Some((from, to)) = left.pop() {
        match visit(&from, &to, wishes, jobs, finishing) {
            Ok(below) => left.extend(below),
            Err(failure) => failures.push(failure),
        }
    }
    failures
}

/// Deals with one object; returns what is below it.
fn visit(
    from: &Location,
    to: &Location,
    wishes: &Wishes,
    jobs: &mut VecDeque<Job>,
    finishing: &mut Vec<Finish>,
) -> Result<Vec<(Location, Location)>, Failure> {
    let (kind, about) = look(from, wishes.recursive)?;
    match kind {
        FileKind::Regular => jobs.push_back(Job { from: from.clone(), to: to.clone(), about }),
        FileKind::Directory if !wishes.recursive => {
            let sentence = format!("{from} is a directory; copy it with -r");
            return Err(Failure::new(Exit::Failed, sentence));
        }
        FileKind::Directory => {
            let children = names(from)?;
            make_directory(to, about.mode & !wishes.umask)?;
            if wishes.preserve {
                let to = to.clone();
                finishing.push(Box::new(move || keep(&to, &about)));
            }
            return Ok(children
                .into_iter()
                .map(|name| (from.child(&name), to.child(&name)))
                .collect());
        }
        FileKind::Symlink => copy_link(from, to)?,
        _ => {
            let sentence = format!("{from} is neither file, directory nor link, and is not copied");
            return Err(Failure::new(Exit::Failed, sentence));
        }
    }
    Ok(Vec::new())
}

/// What is there. A link is followed unless whole directories are copied.
pub fn look(place: &Location, links_themselves: bool) -> Result<(FileKind, About), Failure> {
    match place {
        Location::Inside(inner) => {
            let attr = inner.stat(!links_themselves)?;
            Ok((attr.kind, about_attr(&attr)))
        }
        Location::Local(path) => {
            let found =
                if links_themselves { fs::symlink_metadata(path) } else { fs::metadata(path) };
            let found = found.map_err(|error| local_failure("look at", path, &error))?;
            Ok((local_kind(&found), about_metadata(&found)))
        }
    }
}

/// Whether it is a directory; what is not there is none.
pub fn is_directory(place: &Location) -> Result<bool, Failure> {
    match place {
        Location::Inside(inner) => match block_on(inner.user().stat_lite(inner.target()?, true)) {
            Err(error) if error.errno() == Errno::ENOENT => Ok(false),
            stated => Ok(inner.done("look at", stated)?.kind == FileKind::Directory),
        },
        Location::Local(path) => Ok(path.is_dir()),
    }
}

/// The names in a directory, in no order.
pub fn names(place: &Location) -> Result<Vec<OsString>, Failure> {
    match place {
        Location::Inside(inner) => {
            let handle = inner.stat(true)?.handle;
            let entries = inner.done("list", block_on(inner.user().list(handle, false)))?;
            Ok(entries.into_iter().map(|entry| OsString::from_vec(entry.name.0)).collect())
        }
        Location::Local(path) => {
            let entries =
                fs::read_dir(path).map_err(|error| local_failure("list", path, &error))?;
            entries
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<Result<_, _>>()
                .map_err(|error| local_failure("list", path, &error))
        }
    }
}

fn make_directory(place: &Location, mode: u32) -> Result<(), Failure> {
    // The owner must be able to fill it; the mode that is wished for is set at the end.
    let mode = mode | 0o700;
    match place {
        Location::Inside(inner) => match block_on(inner.user().mkdir(inner.target()?, mode)) {
            Err(error) if error.errno() == Errno::EEXIST => Ok(()),
            made => inner.done("make", made).map(|_| ()),
        },
        Location::Local(path) => match fs::DirBuilder::new().mode(mode).create(path) {
            Err(_) if path.is_dir() => Ok(()),
            made => made.map_err(|error| local_failure("make", path, &error)),
        },
    }
}

fn copy_link(from: &Location, to: &Location) -> Result<(), Failure> {
    let target = match from {
        Location::Inside(inner) => {
            inner.done("read", block_on(inner.user().readlink(inner.target()?)))?
        }
        Location::Local(path) => {
            let target =
                fs::read_link(path).map_err(|error| local_failure("read", path, &error))?;
            target.as_os_str().as_bytes().to_vec()
        }
    };
    match to {
        Location::Inside(inner) => {
            let made = block_on(inner.user().symlink(inner.target()?, &target));
            inner.done("make the link", made).map(|_| ())
        }
        Location::Local(path) => {
            let made = std::os::unix::fs::symlink(OsStr::from_bytes(&target), path);
            made.map_err(|error| local_failure("make the link", path, &error))
        }
    }
}

/// Gives the copy the mode, owner (if allowed) and times of its source.
pub fn keep(place: &Location, about: &About) -> Result<(), Failure> {
    match place {
        Location::Inside(inner) => {
            let at = |nanos| Some(SetTime::At(Time::from_nanos(nanos)));
            let target = inner.target()?;
            let request = SetAttr {
                target: target.clone(),
                follow: false,
                mode: None,
                uid: Some(about.uid),
                gid: Some(about.gid),
                atime: None,
                mtime: None,
            };
            // Only root may give files away; whoever may not keeps them.
            let _ = block_on(inner.user().set_attr(request));
            let request = SetAttr {
                target,
                follow: false,
                mode: Some(about.mode),
                uid: None,
                gid: None,
                atime: at(about.atime_ns),
                mtime: at(about.mtime_ns),
            };
            inner
                .done("set the attributes of", block_on(inner.user().set_attr(request)))
                .map(|_| ())
        }
        Location::Local(path) => keep_local(path, about),
    }
}

fn keep_local(path: &Path, about: &About) -> Result<(), Failure> {
    let _ = std::os::unix::fs::lchown(path, Some(about.uid), Some(about.gid));
    let doing = |error| local_failure("set the attributes of", path, &error);
    fs::set_permissions(path, fs::Permissions::from_mode(about.mode)).map_err(doing)?;
    let spec = |nanos: i64| rustix::fs::Timespec {
        tv_sec: nanos.div_euclid(1_000_000_000),
        tv_nsec: nanos.rem_euclid(1_000_000_000),
    };
    let times = rustix::fs::Timestamps {
        last_access: spec(about.atime_ns),
        last_modification: spec(about.mtime_ns),
    };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty())
        .map_err(|error| doing(error.into()))
}

/// A failure with a file of this machine.
pub fn local_failure(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(&format!("cannot {doing} {}", path.display()), error)
}

fn about_attr(attr: &Attr) -> About {
    About {
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        has_holes: attr.blocks() * 512 < attr.size,
        atime_ns: attr.atime.as_nanos(),
        mtime_ns: attr.mtime.as_nanos(),
    }
}

fn about_metadata(found: &fs::Metadata) -> About {
    About {
        mode: found.mode() & 0o7777,
        uid: found.uid(),
        gid: found.gid(),
        size: found.len(),
        has_holes: found.blocks() * 512 < found.len(),
        atime_ns: found.atime() * 1_000_000_000 + found.atime_nsec(),
        mtime_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
    }
}

fn local_kind(found: &fs::Metadata) -> FileKind {
    match found.file_type() {
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        kind if kind.is_file() => FileKind::Regular,
        _ => FileKind::Fifo,
    }
}
