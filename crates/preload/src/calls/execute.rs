//! Executing programs, and ending.
//!
//! An executed image learns from its environment where the file system appears and which directory this one was in.
//! A program that lies in the file system is executed from a copy in memory: the kernel does not know its path.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use libc::AT_FDCWD;
use pvfs_posix::{At, Process, Reach};
use pvfs_wire::Errno;
use rustix::fs::MemfdFlags;

use crate::interpose;
use crate::memory::text;
use crate::route::at_path;
use crate::state::{INSIDE, WORKING_VARIABLE, end, is_borrowed, with};

type Texts = *const *const c_char;

interpose! {
    /// execve(2)
    fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment);
        at_path(AT_FDCWD, path, |_, path| real(path, arguments, environment.texts()), |process, at, path| {
            execute(process, at, path, arguments, environment.texts())
        })
    }
    /// execvpe(3)
    fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int as real {
        if !file.is_null() && text(file).contains(&b'/') {
            return execve(file, arguments, environment);
        }
        let environment = Environment::of(environment);
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
    fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment);
        real(pid, path, actions, attributes, arguments, environment.texts())
    }
    /// posix_spawnp(3)
    fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment);
        real(pid, file, actions, attributes, arguments, environment.texts())
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

/// Executes a file of ours: of a script, the interpreter. Comes back only when it fails.
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
    let content = process.program(at, path)?;
    if let Some(line) = content.strip_prefix(b"#!") {
        // SAFETY: the caller's promise.
        return unsafe { interpret(line, path, arguments, environment) };
    }
    let copy = rustix::fs::memfd_create("pvfs-program", MemfdFlags::CLOEXEC)?;
    let mut done = 0;
    while done < content.len() {
        done += rustix::io::write(&copy, &content[done..])?;
    }
    // SAFETY: the lists are as execve demands; an empty path with the flag means the descriptor itself.
    unsafe {
        let (copy, flag) = (copy.as_raw_fd(), libc::AT_EMPTY_PATH);
        libc::syscall(libc::SYS_execveat, copy, c"".as_ptr(), arguments, environment, flag);
    }
    Err(crate::answer::errno().into())
}

/// Starts what `#!` names, with the script's path as its argument.
///
/// # Safety
///
/// The lists are as execve demands.
unsafe fn interpret(
    line: &[u8],
    path: &[u8],
    arguments: Texts,
    environment: Texts,
) -> Reach<c_int> {
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
    // SAFETY: the caller's promise: the first is the program's own name, which the interpreter does not get.
    unsafe {
        let mut at = arguments;
        if !at.is_null() && !at.read().is_null() {
            at = at.add(1);
            while !at.read().is_null() {
                list.push(at.read());
                at = at.add(1);
            }
        }
        list.push(std::ptr::null());
        // The interpreter itself may be anywhere but in the file system.
        libc::syscall(libc::SYS_execve, interpreter.as_ptr(), list.as_ptr(), environment);
    }
    Err(crate::answer::errno().into())
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
    unsafe fn of(given: Texts) -> Self {
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
        let wanted = working_variable();
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
    // A child in borrowed memory sees its parent's flag, which is the one it started with.
    if !INSIDE.load(Ordering::Relaxed) && !is_borrowed() {
        return None;
    }
    let value = with(|process| Ok(process.working_to_resume())).ok().flatten()?;
    CString::new([WORKING_VARIABLE.as_bytes(), b"=", &value].concat()).ok()
}

fn own_environment() -> Texts {
    unsafe extern "C" {
        static environ: Texts;
    }
    // SAFETY: the C library's variable; who changes it meanwhile has to look out, as with execv itself.
    unsafe { environ }
}
