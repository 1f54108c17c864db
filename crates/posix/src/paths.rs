//! What a path means: an object of ours, or a path of somebody else's.
//!
//! A path below the prefix goes to the manager whole, symlinks and all. The manager cannot follow a link that
//! leaves the file system and says EXDEV; then the path is walked here, component by component, to where it
//! leads: out, or by an absolute link back in.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use pvfs_client::{User, block_on};
use pvfs_wire::attr::{Attr, FileKind};
use pvfs_wire::ops::Target;
use pvfs_wire::{Errno, Handle, PATH_BYTES_MAX};

use crate::errno::{Reach, Stop};
use crate::process::Process;
use crate::runtime::Apart;

/// Where a relative path begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum At {
    /// In the working directory.
    Working,
    /// In the directory of a descriptor.
    Directory(RawFd),
}

/// The path under which the file system appears: absolute, without a slash at its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prefix {
    path: Vec<u8>,
    /// Another path that means the same.
    also: Option<Vec<u8>>,
}

/// A path below a directory of ours.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    /// Where it begins.
    pub(crate) dir: Handle,
    /// The way from there.
    pub(crate) rest: Vec<u8>,
    /// The path of `dir` below the prefix.
    pub(crate) base: Vec<u8>,
}

/// Where a path leads, once every link is followed.
pub(crate) struct Walked {
    /// The directory of the last component.
    pub(crate) spot: Spot,
    /// The object, if it is there.
    pub(crate) attr: Option<Attr>,
    links: u32,
}

impl Prefix {
    /// From a path as a user writes it.
    pub fn new(path: &[u8]) -> Self {
        Self { path: without_slash(path), also: None }
    }

    /// The same under another path as well.
    #[must_use]
    pub fn and(self, also: Option<&[u8]>) -> Self {
        Self { also: also.map(without_slash), ..self }
    }

    /// As text of a path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.path
    }

    /// What is left of a path below the prefix, with its slash; by its text alone.
    #[inline]
    pub fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let below = |prefix: &[u8]| {
            // Few other paths have the same byte there.
            if let Some(last) = prefix.last()
                && path.get(prefix.len() - 1) != Some(last)
            {
                return None;
            }
            let rest = path.strip_prefix(prefix)?;
            (rest.is_empty() || rest[0] == b'/').then_some(rest)
        };
        below(&self.path).or_else(|| below(self.also.as_ref()?))
    }

    /// Whether an absolute path leads below the prefix, by its text. The usual path is told by one comparison.
    #[inline]
    pub fn covers(&self, path: &[u8]) -> bool {
        self.below(path).is_some() || may_have_detours(path) && self.covers_by_detours(path)
    }

    #[cold]
    #[inline(never)]
    fn covers_by_detours(&self, path: &[u8]) -> bool {
        has_detours(path) && self.below(&plain(path)).is_some()
    }

    /// The absolute path of one below the prefix.
    pub fn join(&self, below: &[u8]) -> Vec<u8> {
        [self.path.as_slice(), below].concat()
    }
}

fn without_slash(path: &[u8]) -> Vec<u8> {
    let plain = plain(path);
    let end = plain.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    plain[..end].to_vec()
}

impl Spot {
    pub(crate) fn target(&self) -> Target {
        Target::below(self.dir, self.rest.as_slice())
    }

    /// Whether it is the directory where it begins.
    pub(crate) fn is_start(&self) -> bool {
        components(&self.rest).is_empty()
    }

    /// Its path below the prefix, by its text.
    pub(crate) fn below(&self) -> Vec<u8> {
        let joined = plain(&[self.base.as_slice(), b"/", &self.rest].concat());
        if joined == b"/" { Vec::new() } else { joined }
    }
}

impl Process {
    /// Does something at a path; where links lead elsewhere, there.
    pub(crate) fn reach<T>(
        &self,
        at: At,
        path: &[u8],
        follow: bool,
        operation: impl Fn(&User<Apart>, &Spot) -> pvfs_client::Result<T>,
    ) -> Reach<T> {
        let user = self.user_for(at, path)?;
        let mut spot = self.spot(&user, at, path)?;
        for detour in 0..DETOURS_MAX {
            match operation(&user, &spot) {
                Err(error) if detour == 0 && self.is_way_up(at, path, error.errno()) => {
                    spot = self.absolute(&user, &self.way_up(at, path)?)?;
                }
                Err(error) if error.errno() == Errno::EXDEV => {
                    let walked = self.walk(&user, spot, follow)?;
                    if walked.links == 0 {
                        return Err(Errno::EXDEV.into());
                    }
                    spot = walked.spot;
                }
                // A working directory that was removed.
                Err(error) if error.errno() == Errno::ESTALE => return Err(Errno::ENOENT.into()),
                done => return Ok(done?),
            }
        }
        Err(Errno::ELOOP.into())
    }

    /// Whether this path did not lead anywhere since it goes up from a working directory that was removed.
    fn is_way_up(&self, at: At, path: &[u8], error: Errno) -> bool {
        let is_lost = matches!(error, Errno::ENOENT | Errno::ESTALE);
        let climbs = at == At::Working && (path == b".." || path.starts_with(b"../"));
        is_lost && climbs && self.check_working() == Err(Errno::ENOENT.into())
    }

    /// That way, which is known by its text only.
    fn way_up(&self, at: At, path: &[u8]) -> Reach<Vec<u8>> {
        let (_, base) = self.place(at)?;
        Ok(plain(&self.prefix.join(&[base.as_slice(), b"/", path].concat())))
    }

    /// The user, once it is clear that the path is not somebody else's.
    pub(crate) fn user_for(&self, at: At, path: &[u8]) -> Reach<User<Apart>> {
        if path.first() == Some(&b'/') {
            if !self.prefix.covers(path) {
                return Err(Stop::NotOurs);
            }
        } else if at == At::Working && !self.is_inside() {
            return Err(Stop::NotOurs);
        }
        Ok(self.user()?)
    }

    /// Where a path begins and how it goes on.
    pub(crate) fn spot(&self, user: &User<Apart>, at: At, path: &[u8]) -> Reach<Spot> {
        match path.first() {
            None => Err(Errno::ENOENT.into()),
            Some(_) if path.len() > PATH_BYTES_MAX => Err(Errno::ENAMETOOLONG.into()),
            Some(b'/') => self.absolute(user, path),
            Some(_) => {
                let (dir, base) = self.place(at)?;
                self.relative(user, dir, base, path)
            }
        }
    }

    /// The directory that relative paths begin at, and its path below the prefix.
    pub(crate) fn place(&self, at: At) -> Reach<(Handle, Vec<u8>)> {
        match at {
            At::Working => {
                let working = self.working.read().expect(crate::process::NO_PANIC);
                let working = working.as_ref().ok_or(Stop::NotOurs)?;
                Ok((working.handle, working.below.clone()))
            }
            At::Directory(fd) => {
                let description = self.description(fd)?;
                if description.kind() != FileKind::Directory {
                    return Err(Errno::ENOTDIR.into());
                }
                let below = self.prefix.below(description.path()).unwrap_or_default();
                Ok((description.record.handle, below.to_vec()))
            }
        }
    }

    fn absolute(&self, user: &User<Apart>, path: &[u8]) -> Reach<Spot> {
        if let Some(rest) = self.prefix.below(path)
            && !climbs_out(&[], rest)
        {
            let rest = rest.to_vec();
            return Ok(Spot { dir: self.root(user)?, rest, base: Vec::new() });
        }
        let plain = plain(path);
        match self.prefix.below(&plain) {
            Some(rest) => {
                let rest = rest.to_vec();
                Ok(Spot { dir: self.root(user)?, rest, base: Vec::new() })
            }
            None => Err(Stop::Outside(plain)),
        }
    }

    fn relative(&self, user: &User<Apart>, dir: Handle, base: Vec<u8>, path: &[u8]) -> Reach<Spot> {
        if !climbs_out(&base, path) {
            return Ok(Spot { dir, rest: path.to_vec(), base });
        }
        self.absolute(user, &[self.prefix.as_bytes(), &base, b"/", path].concat())
    }

    /// Walks a path component by component, following links wherever they lead.
    pub(crate) fn walk(&self, user: &User<Apart>, spot: Spot, follow: bool) -> Reach<Walked> {
        let mut dir = spot.dir;
        let mut base = components(&spot.base);
        let mut left = components(&spot.rest);
        let slash = spot.rest.ends_with(b"/");
        let mut links = 0;
        let mut reached = None;
        while let Some(name) = left.pop_front() {
            let is_last = left.is_empty();
            if name == b".." && base.pop_back().is_none() {
                let out = [self.prefix.as_bytes(), b"/../", &join(&left)].concat();
                return Err(Stop::Outside(plain(&out)));
            }
            let stat = block_on(user.stat_lite(Target::below(dir, name.as_slice()), false));
            let attr = match stat {
                Err(error) if error.errno() == Errno::ENOENT && is_last => {
                    let spot = Spot { dir, rest: name, base: joined(&base) };
                    return Ok(Walked { spot, attr: None, links });
                }
                stat => stat?,
            };
            if attr.kind == FileKind::Symlink && (!is_last || follow || slash) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::ELOOP.into());
                }
                let link = block_on(user.readlink(Target::object(attr.handle)))?;
                if link.first() == Some(&b'/') {
                    let onward = [link.as_slice(), b"/", &join(&left)].concat();
                    let onward = if left.is_empty() { link } else { onward };
                    if !self.prefix.covers(&onward) {
                        return Err(Stop::Outside(onward));
                    }
                    let spot = self.absolute(user, &onward)?;
                    (dir, base, left) = (spot.dir, VecDeque::new(), components(&spot.rest));
                } else {
                    components(&link).into_iter().rev().for_each(|name| left.push_front(name));
                }
                continue;
            }
            if is_last {
                let spot = match name.as_slice() {
                    b".." => Spot { dir: attr.handle, rest: Vec::new(), base: joined(&base) },
                    _ => Spot { dir, rest: name, base: joined(&base) },
                };
                return Ok(Walked { spot, attr: Some(attr), links });
            }
            if name != b".." {
                base.push_back(name);
            }
            dir = attr.handle;
            reached = Some(attr);
        }
        let attr = match reached {
            Some(attr) => attr,
            None => block_on(user.stat_lite(Target::object(dir), false))?,
        };
        let spot = Spot { dir, rest: Vec::new(), base: joined(&base) };
        Ok(Walked { spot, attr: Some(attr), links })
    }

    /// The path of an object without links, and its attributes (realpath).
    pub fn canonical(&self, at: At, path: &[u8]) -> Reach<(Vec<u8>, Attr)> {
        let user = self.user_for(at, path)?;
        let spot = self.spot(&user, at, path)?;
        let walked = match self.walk(&user, spot, true) {
            Err(Stop::Errno(error)) if self.is_way_up(at, path, error) => {
                let spot = self.absolute(&user, &self.way_up(at, path)?)?;
                self.walk(&user, spot, true)?
            }
            Err(Stop::Errno(Errno::ESTALE)) => return Err(Errno::ENOENT.into()),
            walked => walked?,
        };
        let attr = walked.attr.ok_or(Errno::ENOENT)?;
        Ok((self.prefix.join(&walked.spot.below()), attr))
    }

    /// Follows the links of a path that is not ours by its text; the path below the prefix that they lead to.
    /// For paths that the kernel did not find: it does not know our prefix.
    pub fn linked_in(&self, start: &[u8]) -> Option<Vec<u8>> {
        let mut reached: Vec<u8> = Vec::new();
        let mut left = components(start);
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            if name == b".." {
                let parent = reached.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                reached.truncate(parent);
                continue;
            }
            let parent = reached.len();
            reached.push(b'/');
            reached.extend_from_slice(&name);
            if self.prefix.below(&reached).is_some() {
                let rest = join(&left);
                let slash: &[u8] = if rest.is_empty() { b"" } else { b"/" };
                return Some([reached.as_slice(), slash, &rest].concat());
            }
            let link = match rustix::fs::readlink(reached.as_slice(), Vec::new()) {
                Ok(link) => link.into_bytes(),
                Err(rustix::io::Errno::INVAL) => continue,
                // The prefix need not exist for the kernel, but then it has to come next.
                Err(rustix::io::Errno::NOENT) if self.leads_to_prefix(&reached) => continue,
                Err(_) => return None,
            };
            links += 1;
            if links > LINKS_MAX {
                return None;
            }
            reached.truncate(if link.first() == Some(&b'/') { 0 } else { parent });
            components(&link).into_iter().rev().for_each(|name| left.push_front(name));
        }
        None
    }

    fn leads_to_prefix(&self, path: &[u8]) -> bool {
        self.prefix.as_bytes().starts_with(path)
    }
}

/// The components of a path, without empty ones and `.`.
fn components(path: &[u8]) -> VecDeque<Vec<u8>> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(<[u8]>::to_vec)
        .collect()
}

fn join(names: &VecDeque<Vec<u8>>) -> Vec<u8> {
    names.iter().map(Vec::as_slice).collect::<Vec<_>>().join(&b'/')
}

/// A path below the prefix, from its components.
fn joined(names: &VecDeque<Vec<u8>>) -> Vec<u8> {
    names.iter().flat_map(|name| [b"/".as_slice(), name]).flatten().copied().collect()
}

/// Whether `..` leads above the prefix from this base, as far as the text tells.
fn climbs_out(base: &[u8], path: &[u8]) -> bool {
    if !path.windows(2).any(|pair| pair == b"..") {
        return false;
    }
    let mut depth = components(base).len();
    for name in components(path) {
        if name != b".." {
            depth += 1;
        } else if depth == 0 {
            return true;
        } else {
            depth -= 1;
        }
    }
    false
}

/// Whether a path has empty components, `.` or `..` in it.
fn has_detours(path: &[u8]) -> bool {
    let goes_nowhere = |rest: &[u8]| {
        matches!(
            rest,
            [b'/', ..] | [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..]
        )
    };
    memchr::memchr_iter(b'/', path).any(|slash| goes_nowhere(&path[slash + 1..]))
}

/// Whether a slash may have another one or a dot behind it, as in all paths with detours. Asked for every path of a
/// program: eight places at a time.
#[inline]
fn may_have_detours(path: &[u8]) -> bool {
    let Some(last) = path.len().checked_sub(9) else {
        return path.windows(2).any(|pair| pair[0] == b'/' && matches!(pair[1], b'/' | b'.'));
    };
    let mut at = 0;
    loop {
        let nine = &path[at..at + 9];
        let (here, behind) = (word(&nine[..8]), word(&nine[1..]));
        if places_of(b'/', here) & (places_of(b'/', behind) | places_of(b'.', behind)) != 0 {
            return true;
        }
        if at == last {
            return false;
        }
        at = (at + 8).min(last);
    }
}

#[inline]
fn word(eight: &[u8]) -> u64 {
    u64::from_le_bytes(eight.try_into().expect("eight bytes"))
}

/// Marks the top bits of the places in a word where this byte is, and perhaps of places above such a one.
#[inline]
fn places_of(byte: u8, word: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let zeros = word ^ u64::from_le_bytes([byte; 8]);
    zeros.wrapping_sub(LOW) & !zeros & HIGH
}

/// An absolute path without empty components, `.` and `..`, by its text; a slash at the end stays.
pub(crate) fn plain(path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let mut plain: Vec<u8> =
        names.iter().flat_map(|name| [b"/".as_slice(), name]).flatten().copied().collect();
    if plain.is_empty() || [b"/".as_slice(), b"/.", b"/.."].iter().any(|end| path.ends_with(end)) {
        plain.push(b'/');
    }
    plain
}

/// As on Linux.
const LINKS_MAX: u32 = 40;

/// Links that leave and come back in one path.
const DETOURS_MAX: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_ours_by_its_text() {
        let prefix = Prefix::new(b"/mnt/pvfs/");
        assert_eq!(prefix.as_bytes(), b"/mnt/pvfs");
        for dots in ["/a/.b", "/a/..b/c", "/.a/b.", "/a"] {
            assert!(!has_detours(dots.as_bytes()), "{dots}");
        }
        // Wherever in a path it lies.
        for (before, after) in (0..20).flat_map(|before| (0..20).map(move |after| (before, after)))
        {
            let [before, after] = [before, after].map(|length| "x".repeat(length));
            for detour in ["//", "/./", "/../"] {
                let path = format!("/{before}{detour}{after}");
                assert!(
                    may_have_detours(path.as_bytes()) && has_detours(path.as_bytes()),
                    "{path}"
                );
            }
            for none in ["/", "/.x/", "/..x", "/x./"] {
                let path = format!("/y{before}{none}{after}");
                assert!(!has_detours(path.as_bytes()), "{path}");
            }
            let usual = format!("/y{before}/.{after}").replace('.', "x");
            assert!(!may_have_detours(usual.as_bytes()), "{usual}");
        }
        for ours in ["/mnt/pvfs", "/mnt/pvfs/", "/mnt/pvfs/a", "//mnt/./pvfs/a", "/x/../mnt/pvfs/a"]
        {
            assert!(prefix.covers(ours.as_bytes()), "{ours}");
        }
        for other in ["/", "/mnt", "/mnt/pvfsx", "/mnt/pvf", "/mnt/x/pvfs", "/mnt/pvfsx/../a"] {
            assert!(!prefix.covers(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn plain_paths_keep_what_a_slash_at_the_end_means() {
        for (path, expected) in [
            ("/", "/"),
            ("//a//b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("/a/./b/.", "/a/b/"),
            ("/a/b/..", "/a/"),
            ("/../a", "/a"),
            ("/a/../..", "/"),
        ] {
            assert_eq!(plain(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_path_that_climbs_above_the_prefix_is_told() {
        for (base, path, out) in [
            ("", "..", true),
            ("", "/a/../..", true),
            ("/a", "..", false),
            ("/a", "../..", true),
            ("/a/b", "c/../../../x", false),
            ("", "a..b", false),
        ] {
            assert_eq!(climbs_out(base.as_bytes(), path.as_bytes()), out, "{base} {path}");
        }
    }
}
