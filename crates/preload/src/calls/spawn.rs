//! Spawning programs.
//!
//! posix_spawn keeps its child in the kernel's hands until it executes something, so nothing of ours runs there. What
//! the file actions name of ours is therefore made ready here: a file is opened by the parent and handed over as a
//! descriptor, and a directory to begin in goes with the environment.
//!
//! ```text
//!   actions of the program        actions for the C library
//!   chdir  /pvfs/d                                           environment: the directory
//!   open   1 out                  dup2   1 from 1000         1000 is opened here: /pvfs/d/out
//!   dup2   2 from 1               dup2   2 from 1
//! ```

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{AT_FDCWD, mode_t};
use pvfs_posix::numbers::OURS;
use pvfs_posix::{At, Stop};
use pvfs_wire::Errno;

use super::execute::{
    Environment, Image, Libraries, Program, Subject, Texts, candidates, interpreted_here,
    is_absent, lead_in, prepare, program, tried, variable, working_variable,
};
use crate::interpose;
use pvfs_posix::c::answer::errno;
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::leads_in;
use pvfs_posix::c::state::{INSIDE, with};

type Actions = libc::posix_spawn_file_actions_t;
type Attributes = libc::posix_spawnattr_t;

/// What a child is to do before it executes something.
#[derive(Clone)]
enum Action {
    Open { fd: c_int, path: CString, flags: c_int, mode: mode_t },
    Duplicate { from: c_int, to: c_int },
    Close(c_int),
    CloseFrom(c_int),
    Directory(CString),
    OpenDirectory(c_int),
    Terminal(c_int),
}

/// The actions of each list of the program's, by its address: the C library shows nobody what is in one.
static ACTIONS: Mutex<BTreeMap<usize, Vec<Action>>> = Mutex::new(BTreeMap::new());

interpose! {
    /// posix_spawn(3)
    fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const Actions, attributes: *const Attributes, arguments: Texts, environment: Texts) -> c_int as real {
        with_child(actions, |child| {
            let environment = Environment::of(environment, child.variable());
            let (actions, environment) = (child.actions(actions), environment.texts());
            child.spawn(path, arguments, environment, |path, arguments, environment| {
                real(pid, path, actions, attributes, arguments, environment)
            })
        })
    }
    /// posix_spawnp(3)
    fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: *const Actions, attributes: *const Attributes, arguments: Texts, environment: Texts) -> c_int as real {
        with_child(actions, |child| {
            let environment = Environment::of(environment, child.variable());
            let (actions, environment) = (child.actions(actions), environment.texts());
            let real = |file, arguments, environment| {
                real(pid, file, actions, attributes, arguments, environment)
            };
            if file.is_null() || text(file).contains(&b'/') {
                return child.spawn(file, arguments, environment, real);
            }
            let paths = candidates(file);
            if !lead_in(&paths) {
                let failed = real(file, arguments, environment);
                // What is there for all that may be a script whose interpreter is ours.
                if !is_absent(Errno(failed.unsigned_abs())) {
                    return failed;
                }
            }
            let begun = |path| Errno(child.spawn(path, arguments, environment, real).unsigned_abs());
            tried(&paths, begun).map_or(0, |errno| errno.0 as c_int)
        })
    }
    /// posix_spawn_file_actions_init(3)
    fn posix_spawn_file_actions_init(actions: *mut Actions) -> c_int as real {
        known().remove(&actions.addr());
        real(actions)
    }
    /// posix_spawn_file_actions_destroy(3)
    fn posix_spawn_file_actions_destroy(actions: *mut Actions) -> c_int as real {
        known().remove(&actions.addr());
        real(actions)
    }
    /// posix_spawn_file_actions_addopen(3)
    fn posix_spawn_file_actions_addopen(actions: *mut Actions, fd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int as real {
        let path_of_ours = text(path).to_vec();
        noted(actions, real(actions, fd, path, flags, mode), || {
            Action::Open { fd, path: c_string(path_of_ours), flags, mode }
        })
    }
    /// posix_spawn_file_actions_adddup2(3)
    fn posix_spawn_file_actions_adddup2(actions: *mut Actions, from: c_int, to: c_int) -> c_int as real {
        noted(actions, real(actions, from, to), || Action::Duplicate { from, to })
    }
    /// posix_spawn_file_actions_addclose(3)
    fn posix_spawn_file_actions_addclose(actions: *mut Actions, fd: c_int) -> c_int as real {
        noted(actions, real(actions, fd), || Action::Close(fd))
    }
    /// posix_spawn_file_actions_addclosefrom_np(3)
    fn posix_spawn_file_actions_addclosefrom_np(actions: *mut Actions, first: c_int) -> c_int as real {
        noted(actions, real(actions, first), || Action::CloseFrom(first))
    }
    /// posix_spawn_file_actions_addchdir_np(3)
    fn posix_spawn_file_actions_addchdir_np(actions: *mut Actions, path: *const c_char) -> c_int as real {
        let path_of_ours = text(path).to_vec();
        noted(actions, real(actions, path), || Action::Directory(c_string(path_of_ours)))
    }
    /// posix_spawn_file_actions_addfchdir_np(3)
    fn posix_spawn_file_actions_addfchdir_np(actions: *mut Actions, fd: c_int) -> c_int as real {
        noted(actions, real(actions, fd), || Action::OpenDirectory(fd))
    }
    /// posix_spawn_file_actions_addtcsetpgrp_np(3)
    fn posix_spawn_file_actions_addtcsetpgrp_np(actions: *mut Actions, terminal: c_int) -> c_int as real {
        noted(actions, real(actions, terminal), || Action::Terminal(terminal))
    }
}

fn noted(actions: *mut Actions, added: c_int, action: impl FnOnce() -> Action) -> c_int {
    if added == 0 {
        known().entry(actions.addr()).or_default().push(action());
    }
    added
}

fn known() -> MutexGuard<'static, BTreeMap<usize, Vec<Action>>> {
    ACTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn c_string(text: Vec<u8>) -> CString {
    CString::new(text).expect("it came from a C string")
}

/// Where relative paths of the child begin.
enum Place {
    /// Where those of the parent do.
    Unchanged,
    /// A directory of ours: its path, and what the environment says of it.
    Ours { path: Vec<u8>, told: Vec<u8> },
    /// One of the kernel's.
    Kernel,
}

/// What was made ready for a child.
struct Child {
    place: Place,
    /// It begins elsewhere than the parent is.
    moves: bool,
    /// In the program's list's stead, where that names something of ours.
    list: Option<List>,
    /// What the list hands over.
    opened: Vec<OwnedFd>,
}

/// Spawns with what the actions demand made ready; the answer is posix_spawn's.
fn with_child(actions: *const Actions, spawn: impl FnOnce(&Child) -> c_int) -> c_int {
    let asked = known().get(&actions.addr()).cloned();
    match Child::ready(asked.unwrap_or_default()) {
        Ok(child) => spawn(&child),
        Err(errno) => errno.0 as c_int,
    }
}

impl Child {
    fn ready(asked: Vec<Action>) -> Result<Self, Errno> {
        let moving =
            |action: &Action| matches!(action, Action::Directory(_) | Action::OpenDirectory(_));
        let moves = asked.iter().any(moving);
        let mut child = Self { place: Place::Unchanged, moves, list: None, opened: Vec::new() };
        if !asked.iter().any(concerns_us) {
            return Ok(child);
        }
        let mut list = List::new()?;
        for action in &asked {
            child.make_ready(action, &mut list)?;
        }
        child.list = Some(list);
        Ok(child)
    }

    fn make_ready(&mut self, action: &Action, list: &mut List) -> Result<(), Errno> {
        match action {
            Action::Open { fd, path, flags, mode } => {
                let path = self.seen(path);
                if !self.leads_in(&path) {
                    return list.add(action);
                }
                let opened = open_high(&path, *flags, *mode)?;
                list.add(&Action::Duplicate { from: opened.as_raw_fd(), to: *fd })?;
                self.opened.push(opened);
                Ok(())
            }
            Action::Directory(path) => {
                let path = self.seen(path);
                if !self.leads_in(&path) {
                    self.place = Place::Kernel;
                    return list.add(action);
                }
                self.begin_in(path.to_bytes())
            }
            Action::OpenDirectory(fd) if OURS.has(*fd) => {
                let path = with(|process| Ok(process.description(*fd)?.path().to_vec()));
                self.begin_in(&path.map_err(|stop| stop.errno())?)
            }
            Action::OpenDirectory(_) => {
                self.place = Place::Kernel;
                list.add(action)
            }
            _ => list.add(action),
        }
    }

    fn begin_in(&mut self, path: &[u8]) -> Result<(), Errno> {
        let told = with(|process| process.directory_to_resume(At::Working, path));
        let told = told.map_err(|stop| stop.errno())?;
        let colon = told.iter().position(|byte| *byte == b':').unwrap_or(0);
        self.place = Place::Ours { path: told[colon + 1..].to_vec(), told };
        Ok(())
    }

    /// A path as the parent would say it.
    fn seen(&self, path: &CString) -> CString {
        match &self.place {
            Place::Ours { path: base, .. } if !path.to_bytes().starts_with(b"/") => {
                c_string([base, b"/".as_slice(), path.to_bytes()].concat())
            }
            _ => path.clone(),
        }
    }

    fn leads_in(&self, path: &CString) -> bool {
        // SAFETY: a C string.
        let leads_in = unsafe { leads_in(AT_FDCWD, path.as_ptr()) };
        leads_in && (path.to_bytes().starts_with(b"/") || !matches!(self.place, Place::Kernel))
    }

    /// The directory that its environment names.
    fn variable(&self) -> Option<CString> {
        match &self.place {
            Place::Unchanged => working_variable(),
            Place::Ours { told, .. } => variable(told),
            Place::Kernel => None,
        }
    }

    fn actions(&self, given: *const Actions) -> *const Actions {
        self.list.as_ref().map_or(given, |list| &raw const *list.0)
    }

    /// Spawns a program that may be ours; the answer is posix_spawn's.
    ///
    /// # Safety
    ///
    /// The lists are as execve demands, the path null or a C string.
    unsafe fn spawn(
        &self,
        path: *const c_char,
        arguments: Texts,
        environment: Texts,
        real: impl Fn(*const c_char, Texts, Texts) -> c_int,
    ) -> c_int {
        if path.is_null() {
            return real(path, arguments, environment);
        }
        // SAFETY: the caller's promise.
        let seen = self.seen(&c_string(unsafe { text(path) }.to_vec()));
        if !self.leads_in(&seen) {
            // SAFETY: the caller's promise.
            let failed = unsafe {
                let libraries = Libraries::of_an_ordinary_program(path, environment);
                real(path, arguments, libraries.environment(environment).texts())
            };
            let is_seen = !self.moves || seen.to_bytes().starts_with(b"/");
            if !is_seen || !is_absent(Errno(failed.unsigned_abs())) {
                return failed;
            }
            // SAFETY: the caller's promise.
            return unsafe {
                match interpreted_here(path, (arguments, environment)) {
                    Ok(program) => begin(&program, environment, real),
                    Err(Stop::Errno(errno)) => errno.0 as c_int,
                    Err(_) => failed,
                }
            };
        }
        let program = with(|process| {
            let copy = program(|to| process.copy_program(At::Working, seen.to_bytes(), to))?;
            let subject = Subject::Copy(copy);
            // SAFETY: the caller's promise.
            unsafe { prepare(process, subject, seen.to_bytes(), (arguments, environment)) }
        });
        match program {
            // SAFETY: the caller's promise.
            Ok(program) => unsafe { begin(&program, environment, real) },
            Err(Stop::Outside(path)) => match CString::new(path) {
                Ok(path) => real(path.as_ptr(), arguments, environment),
                Err(_) => Errno::ENOENT.0 as c_int,
            },
            Err(Stop::NotOurs) => real(path, arguments, environment),
            Err(Stop::Errno(errno)) => errno.0 as c_int,
        }
    }
}

/// Has the C library spawn what was made ready.
///
/// # Safety
///
/// The environment is as execve demands.
unsafe fn begin(
    program: &Program,
    environment: Texts,
    real: impl Fn(*const c_char, Texts, Texts) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let environment = unsafe { program.libraries.environment(environment) };
    let begin = |path: &CStr| real(path.as_ptr(), program.arguments(), environment.texts());
    match &program.image {
        Image::Copy(copy) => {
            let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
            begin(&c_string(name.into_bytes()))
        }
        Image::Interpreter(path) => begin(path),
    }
}

/// Whether the C library cannot do this by itself.
fn concerns_us(action: &Action) -> bool {
    match action {
        // SAFETY: a C string.
        Action::Open { path, .. } => unsafe { leads_in(AT_FDCWD, path.as_ptr()) },
        // Away from a directory of ours, too: the environment has to say so.
        Action::Directory(path) => {
            // SAFETY: a C string.
            INSIDE.load(Ordering::Relaxed) || unsafe { leads_in(AT_FDCWD, path.as_ptr()) }
        }
        Action::OpenDirectory(fd) => INSIDE.load(Ordering::Relaxed) || OURS.has(*fd),
        _ => false,
    }
}

/// Opens for a child, at a number that its other actions do not use.
fn open_high(path: &CString, flags: c_int, mode: mode_t) -> Result<OwnedFd, Errno> {
    // SAFETY: a C string; both numbers are new and nobody else's.
    unsafe {
        let opened = super::open::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode);
        if opened < 0 {
            return Err(errno());
        }
        let lowest = std::ptr::without_provenance_mut(pvfs_posix::lowest() as usize);
        let moved = super::fcntl::fcntl(opened, libc::F_DUPFD_CLOEXEC, lowest);
        if moved < 0 {
            return Ok(OwnedFd::from_raw_fd(opened));
        }
        super::descriptors::close(opened);
        Ok(OwnedFd::from_raw_fd(moved))
    }
}

/// A list of actions that the C library reads.
struct List(Box<Actions>);

impl List {
    fn new() -> Result<Self, Errno> {
        let mut list = Box::new(MaybeUninit::<Actions>::uninit());
        // SAFETY: the call initializes what it is given, if it succeeds.
        match unsafe { posix_spawn_file_actions_init(list.as_mut_ptr()) } {
            // SAFETY: as above.
            0 => Ok(Self(unsafe { list.assume_init() })),
            errno => Err(Errno(errno.unsigned_abs())),
        }
    }

    fn add(&mut self, action: &Action) -> Result<(), Errno> {
        let list = &raw mut *self.0;
        // SAFETY: the list was initialized; the paths are C strings.
        let added = unsafe {
            match action {
                Action::Open { fd, path, flags, mode } => {
                    posix_spawn_file_actions_addopen(list, *fd, path.as_ptr(), *flags, *mode)
                }
                Action::Duplicate { from, to } => {
                    posix_spawn_file_actions_adddup2(list, *from, *to)
                }
                Action::Close(fd) => posix_spawn_file_actions_addclose(list, *fd),
                Action::CloseFrom(first) => posix_spawn_file_actions_addclosefrom_np(list, *first),
                Action::Directory(path) => {
                    posix_spawn_file_actions_addchdir_np(list, path.as_ptr())
                }
                Action::OpenDirectory(fd) => posix_spawn_file_actions_addfchdir_np(list, *fd),
                Action::Terminal(fd) => posix_spawn_file_actions_addtcsetpgrp_np(list, *fd),
            }
        };
        if added == 0 { Ok(()) } else { Err(Errno(added.unsigned_abs())) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list was initialized, and nobody reads it any more.
        unsafe { posix_spawn_file_actions_destroy(&raw mut *self.0) };
    }
}
