//! Executing programs, and ending.
//!
//! An executed image learns from its environment where the file system appears and which directory this one was in.
//! A program that lies in the file system is executed from a copy in memory: the kernel does not know its path.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::AT_FDCWD;
use pvfs_posix::{At, Process, Reach, Stop};
use pvfs_wire::Errno;
use rustix::fs::MemfdFlags;

use crate::interpose;
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::{at_path, leads_in};
use pvfs_posix::c::state::{INSIDE, WORKING_VARIABLE, end, with};

type Texts = *const *const c_char;
type Actions = libc::posix_spawn_file_actions_t;

/// The directories in which children are to begin, by their file actions: none is one of the kernel's.
static DIRECTORIES: Mutex<Option<HashMap<usize, Option<Vec<u8>>>>> = Mutex::new(None);

interpose! {
    /// execve(2)
    fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment, working_variable());
        at_path(AT_FDCWD, path, |_, path| real(path, arguments, environment.texts()), |process, at, path| {
            execute(process, at, path, arguments, environment.texts())
        })
    }
    /// execvpe(3)
    fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int as real {
        if !file.is_null() && text(file).contains(&b'/') {
            return execve(file, arguments, environment);
        }
        let environment = Environment::of(environment, working_variable());
        real(file, arguments, environment.texts())
    }
    /// execv(3)
    fn execv(path: *const c_char, arguments: Texts) -> c_int as real {
        execve(path, arguments, own_environment())
    }
    /// execvp(3)
    fn execvp(file: *const c_char, arguments: Texts) -> c_int as real {
        execvpe(file, arguments, own_environment())
    }
    /// posix_spawn(3)
    fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const Actions, attributes: *const libc::posix_spawnattr_t, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment, working_of_child(actions));
        let real = |path, arguments| {
            real(pid, path, actions, attributes, arguments, environment.texts())
        };
        if leads_in(AT_FDCWD, path) { spawn(path, arguments, real) } else { real(path, arguments) }
    }
    /// posix_spawnp(3)
    fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: *const Actions, attributes: *const libc::posix_spawnattr_t, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment, working_of_child(actions));
        let real = |file, arguments| {
            real(pid, file, actions, attributes, arguments, environment.texts())
        };
        // Without a slash it is looked for in $PATH.
        let is_path = !file.is_null() && text(file).contains(&b'/');
        match is_path && leads_in(AT_FDCWD, file) {
            true => spawn(file, arguments, real),
            false => real(file, arguments),
        }
    }
    /// posix_spawn_file_actions_addchdir_np(3): a directory of ours goes with the environment.
    fn posix_spawn_file_actions_addchdir_np(actions: *mut Actions, path: *const c_char) -> c_int as real {
        if !leads_in(AT_FDCWD, path) {
            let added = real(actions, path);
            if added == 0 && INSIDE.load(Ordering::Relaxed) {
                directories().get_or_insert_default().insert(actions.addr(), None);
            }
            return added;
        }
        let path = text(path);
        match with(|process| process.directory_to_resume(At::Working, path)) {
            Ok(text) => {
                directories().get_or_insert_default().insert(actions.addr(), Some(text));
                0
            }
            Err(stop) => stop.errno().0 as c_int,
        }
    }
    /// posix_spawn_file_actions_destroy(3)
    fn posix_spawn_file_actions_destroy(actions: *mut Actions) -> c_int as real {
        if let Some(directories) = directories().as_mut() {
            directories.remove(&actions.addr());
        }
        real(actions)
    }
    /// _exit(2): what is open is closed at the manager, so that sizes are known at once.
    fn _exit(status: c_int) -> () as real {
        end();
        real(status);
    }
    /// _Exit(3)
    fn _Exit(status: c_int) -> () as real {
        end();
        real(status);
    }
}

/// A file of ours, made ready to be executed.
enum Program {
    /// An executable, copied into memory.
    Copy(OwnedFd),
    /// A script: its interpreter, and the arguments with the script's path.
    Script(Script),
}

struct Script {
    interpreter: CString,
    /// What the first entries of the list point to.
    _texts: Vec<CString>,
    list: Vec<*const c_char>,
}

/// # Safety
///
/// The list is as execve demands.
unsafe fn prepare(process: &Process, at: At, path: &[u8], arguments: Texts) -> Reach<Program> {
    let content = process.program(at, path)?;
    if let Some(line) = content.strip_prefix(b"#!") {
        // SAFETY: the caller's promise.
        return Ok(Program::Script(unsafe { interpreted(line, path, arguments) }?));
    }
    let copy = rustix::fs::memfd_create("pvfs-program", MemfdFlags::CLOEXEC)?;
    let mut done = 0;
    while done < content.len() {
        done += rustix::io::write(&copy, &content[done..])?;
    }
    // Out of the way of whatever the program does with descriptors before it executes this one.
    Ok(Program::Copy(rustix::io::fcntl_dupfd_cloexec(&copy, pvfs_posix::lowest()).unwrap_or(copy)))
}

/// Executes a file of ours. Comes back only when it fails.
///
/// # Safety
///
/// The lists are as execve demands.
unsafe fn execute(
    process: &Process,
    at: At,
    path: &[u8],
    arguments: Texts,
    environment: Texts,
) -> Reach<c_int> {
    // SAFETY: the caller's promise; an empty path with the flag means the descriptor itself. The interpreter
    // may be anywhere but in the file system.
    unsafe {
        match prepare(process, at, path, arguments)? {
            Program::Copy(copy) => {
                let (copy, flag) = (copy.as_raw_fd(), libc::AT_EMPTY_PATH);
                libc::syscall(libc::SYS_execveat, copy, c"".as_ptr(), arguments, environment, flag)
            }
            Program::Script(script) => {
                let (path, list) = (script.interpreter.as_ptr(), script.list.as_ptr());
                libc::syscall(libc::SYS_execve, path, list, environment)
            }
        };
    }
    Err(pvfs_posix::c::answer::errno().into())
}

/// Spawns a file of ours; the answer is posix_spawn's.
///
/// # Safety
///
/// The list is as execve demands, the path a C string.
unsafe fn spawn(
    path: *const c_char,
    arguments: Texts,
    real: impl Fn(*const c_char, Texts) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let program = with(|process| unsafe { prepare(process, At::Working, text(path), arguments) });
    match program {
        Ok(Program::Copy(copy)) => {
            let name = CString::new(format!("/proc/self/fd/{}", copy.as_raw_fd()));
            real(name.expect("digits have no zero").as_ptr(), arguments)
        }
        Ok(Program::Script(script)) => real(script.interpreter.as_ptr(), script.list.as_ptr()),
        Err(Stop::Outside(path)) => match CString::new(path) {
            Ok(path) => real(path.as_ptr(), arguments),
            Err(_) => Errno::ENOENT.0 as c_int,
        },
        Err(Stop::NotOurs) => real(path, arguments),
        Err(Stop::Errno(errno)) => errno.0 as c_int,
    }
}

/// What `#!` names, with the script's path as its argument.
///
/// # Safety
///
/// The list is as execve demands.
unsafe fn interpreted(line: &[u8], path: &[u8], arguments: Texts) -> Reach<Script> {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let space = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..space], line[space..].trim_ascii());
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::ENOENT);
    let (interpreter, argument, script) = (text(interpreter)?, text(argument)?, text(path)?);
    let mut list = vec![interpreter.as_ptr()];
    if !argument.is_empty() {
        list.push(argument.as_ptr());
    }
    list.push(script.as_ptr());
    // SAFETY: the caller's promise. The first is the program's own name, which the interpreter does not get.
    unsafe {
        if !arguments.is_null() && !arguments.read().is_null() {
            let mut at = arguments.add(1);
            while !at.read().is_null() {
                list.push(at.read());
                at = at.add(1);
            }
        }
    }
    list.push(std::ptr::null());
    Ok(Script { interpreter, _texts: vec![argument, script], list })
}

/// An environment with the present working directory in it.
struct Environment {
    given: Texts,
    /// The variable, and the list with it.
    own: Option<(CString, Vec<*const c_char>)>,
}

impl Environment {
    /// # Safety
    ///
    /// `given` is null or a list of C strings that ends in null.
    unsafe fn of(given: Texts, wanted: Option<CString>) -> Self {
        let as_given = Self { given, own: None };
        if given.is_null() {
            return as_given;
        }
        let mut texts = Vec::new();
        let mut had = None;
        let mut at = given;
        // SAFETY: the caller's promise.
        unsafe {
            while !at.read().is_null() {
                let variable = at.read();
                if is_working(text(variable)) {
                    had = Some(CStr::from_ptr(variable).to_owned());
                } else {
                    texts.push(variable);
                }
                at = at.add(1);
            }
        }
        if had == wanted {
            return as_given;
        }
        let wanted = wanted.unwrap_or_default();
        if !wanted.is_empty() {
            texts.push(wanted.as_ptr());
        }
        texts.push(std::ptr::null());
        Self { given, own: Some((wanted, texts)) }
    }

    fn texts(&self) -> Texts {
        self.own.as_ref().map_or(self.given, |(_, texts)| texts.as_ptr())
    }
}

fn is_working(variable: &[u8]) -> bool {
    variable.strip_prefix(WORKING_VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}

fn working_variable() -> Option<CString> {
    if !INSIDE.load(Ordering::Relaxed) {
        return None;
    }
    variable(&with(|process| Ok(process.working_to_resume())).ok().flatten()?)
}

fn working_of_child(actions: *const Actions) -> Option<CString> {
    let told = directories().as_ref().and_then(|known| known.get(&actions.addr()).cloned());
    match told {
        Some(directory) => variable(&directory?),
        None => working_variable(),
    }
}

fn variable(value: &[u8]) -> Option<CString> {
    CString::new([WORKING_VARIABLE.as_bytes(), b"=", value].concat()).ok()
}

fn directories() -> MutexGuard<'static, Option<HashMap<usize, Option<Vec<u8>>>>> {
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What vfork(2) does: fork(2), as POSIX allows. The usual child of vfork runs in its parent's memory, and would
/// change its parent's table of descriptors and working directory before it executes something.
///
/// # Safety
///
/// As the C function of this name demands.
// SAFETY: a jump, so that the function returns to our caller, and as often as it likes.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    std::arch::naked_asm!("jmp {fork}", fork = sym libc::fork)
}

fn own_environment() -> Texts {
    unsafe extern "C" {
        static environ: Texts;
    }
    // SAFETY: the C library's variable; who changes it meanwhile has to look out, as with execv itself.
    unsafe { environ }
}
