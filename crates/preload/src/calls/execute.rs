//! Executing programs, and ending.
//!
//! An executed image learns from its environment where the file system appears and which directory this one was in.
//! A program that lies in the file system is executed from a copy in memory: the kernel does not know its path.
//! A name without a slash is looked for here when one of the directories in `$PATH` is ours.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use libc::AT_FDCWD;
use pvfs_posix::numbers::OURS;
use pvfs_posix::{At, Process, Reach, Stop};
use pvfs_wire::Errno;
use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_setfd};

use super::libraries::{copies, names_ours};
use crate::interpose;
#[cfg(target_arch = "x86_64")]
use crate::listing::{List as Listed, listing};
use crate::memory::{copied, look};
use crate::real::kernel;
use pvfs_posix::c::answer::{errno, fail};
use pvfs_posix::c::memory::{text, texts};
use pvfs_posix::c::route::{at_descriptor, at_path, finish, leads_in};
use pvfs_posix::c::state::{INSIDE, WORKING_VARIABLE, end, is_borrowed, with};

pub type Texts = *const *const c_char;

interpose! {
    /// execve(2)
    fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment, working_variable());
        let environment = environment.texts();
        let _locks = locks_handed_on();
        at_path(AT_FDCWD, path, |_, path| {
            let libraries = Libraries::of_an_ordinary_program(path, environment);
            let failed = real(path, arguments, libraries.environment(environment).texts());
            let why = errno();
            if !is_absent(why) {
                return failed;
            }
            let program = interpreted_here(path, (arguments, environment));
            finish(program.and_then(|program| start(program, environment)), |_| fail(why))
        }, |process, at, path| {
            let subject = Subject::Copy(program(|to| process.copy_program(at, path, to))?);
            start(prepare(process, subject, path, (arguments, environment))?, environment)
        })
    }
    /// execvpe(3)
    fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int as real {
        if !file.is_null() && text(file).contains(&b'/') {
            return execute_or_interpret(file, arguments, environment);
        }
        let search = |paths: &[CString]| tried(paths, |path| {
            execute_or_interpret(path, arguments, environment);
            errno()
        }).map_or(0, fail);
        let paths = candidates(file);
        if lead_in(&paths) {
            return search(&paths);
        }
        let failed = {
            let environment = Environment::of(environment, working_variable());
            let _locks = locks_handed_on();
            real(file, arguments, environment.texts())
        };
        // What is there for all that may be a script whose interpreter is ours.
        if is_absent(errno()) { search(&paths) } else { failed }
    }
    /// fexecve(3)
    fn fexecve(fd: c_int, arguments: Texts, environment: Texts) -> c_int as real {
        let environment = Environment::of(environment, working_variable());
        let environment = environment.texts();
        let _locks = locks_handed_on();
        at_descriptor(fd, || real(fd, arguments, environment), |process| {
            let path = format!("/dev/fd/{fd}");
            let subject = Subject::Copy(program(|to| process.copy_open_program(fd, to))?);
            start(prepare(process, subject, path.as_bytes(), (arguments, environment))?, environment)
        })
    }
    /// execveat(2)
    fn execveat(dir: c_int, path: *const c_char, arguments: Texts, environment: Texts, flags: c_int) -> c_int as real {
        if flags & libc::AT_EMPTY_PATH != 0 && OURS.has(dir) && !path.is_null() && text(path).is_empty() {
            return fexecve(dir, arguments, environment);
        }
        let environment = Environment::of(environment, working_variable());
        let environment = environment.texts();
        let _locks = locks_handed_on();
        at_path(dir, path, |dir, path| real(dir, path, arguments, environment, flags), |process, at, path| {
            let script = match at {
                At::Directory(dir) if !path.starts_with(b"/") => {
                    [process.description(dir)?.path(), b"/", path].concat()
                }
                _ => path.to_vec(),
            };
            let subject = Subject::Copy(program(|to| process.copy_program(at, path, to))?);
            start(prepare(process, subject, &script, (arguments, environment))?, environment)
        })
    }
    /// execv(3)
    fn execv(path: *const c_char, arguments: Texts) -> c_int as real {
        execve(path, arguments, own_environment())
    }
    /// execvp(3)
    fn execvp(file: *const c_char, arguments: Texts) -> c_int as real {
        execvpe(file, arguments, own_environment())
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

#[cfg(target_arch = "x86_64")]
listing! {
    /// execl(3)
    execl, "8", "rsi", execute_listed
}

#[cfg(target_arch = "x86_64")]
listing! {
    /// execlp(3)
    execlp, "8", "rsi", search_listed
}

#[cfg(target_arch = "x86_64")]
listing! {
    /// execle(3)
    execle, "8", "rsi", execute_listed_with
}

#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn execute_listed(path: *const c_char, mut list: Listed) -> c_int {
    // SAFETY: the arguments are what execl demands.
    unsafe { execve(path, list.texts().as_ptr(), own_environment()) }
}

#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn search_listed(file: *const c_char, mut list: Listed) -> c_int {
    // SAFETY: the arguments are what execlp demands.
    unsafe { execvpe(file, list.texts().as_ptr(), own_environment()) }
}

/// The environment comes after the null that ends the arguments.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn execute_listed_with(path: *const c_char, mut list: Listed) -> c_int {
    // SAFETY: the arguments are what execle demands.
    unsafe {
        let arguments = list.texts();
        execve(path, arguments.as_ptr(), list.next().cast())
    }
}

/// What is to be executed.
pub enum Subject {
    /// A copy of a file of ours.
    Copy(OwnedFd),
    /// A script of the kernel's, whose first line says this.
    Script(Vec<u8>),
}

/// A file of ours, or a script whose interpreter is one, made ready to be executed.
pub struct Program {
    /// What the kernel executes.
    pub image: Image,
    /// What it is given.
    list: List,
    /// Those that it is linked with.
    pub libraries: Libraries,
}

/// Copies of libraries of ours, which are handed on to a program.
#[derive(Default)]
pub struct Libraries(Vec<OwnedFd>);

/// What the kernel executes in the place of a file of ours.
pub enum Image {
    /// A copy of it in memory, or of its interpreter.
    Copy(OwnedFd),
    /// Its interpreter, which is the kernel's.
    Interpreter(CString),
}

impl Program {
    /// Its arguments, as execve demands them.
    pub fn arguments(&self) -> Texts {
        self.list.texts()
    }
}

impl Libraries {
    /// Of a program that may be none of ours, if this environment names directories of ours.
    ///
    /// # Safety
    ///
    /// `path` is null or a C string; the environment is as execve demands.
    pub unsafe fn of_an_ordinary_program(path: *const c_char, environment: Texts) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let listed = listed(environment);
            if path.is_null() || !names_ours(listed) {
                return Self::default();
            }
            let path = text(path);
            let content = std::fs::read(OsStr::from_bytes(path)).unwrap_or_default();
            with(|process| Ok(Self(copies(process, &content, path, listed)))).unwrap_or_default()
        }
    }

    /// This environment, from which the loader learns of them.
    ///
    /// # Safety
    ///
    /// `given` is as execve demands.
    pub unsafe fn environment(&self, given: Texts) -> Environment {
        if self.0.is_empty() {
            return Environment { given, own: None };
        }
        // SAFETY: the caller's promise.
        unsafe {
            Environment::replacing(given, c"LD_PRELOAD", |before| {
                // Without it nobody would put them away again.
                let mut list = before?.to_bytes().to_vec();
                for copy in &self.0 {
                    fcntl_setfd(copy, FdFlags::empty()).ok()?;
                    list.extend(format!("{PRELOADED}{}", copy.as_raw_fd()).into_bytes());
                }
                CString::new(list).ok()
            })
        }
    }
}

/// The directories where a program with this environment looks for libraries.
///
/// # Safety
///
/// It is as execve demands.
unsafe fn listed<'a>(environment: Texts) -> &'a [u8] {
    // SAFETY: the caller's promise.
    let mut all = unsafe { texts(environment).map(|variable| text(variable)) };
    all.find_map(|variable| variable.strip_prefix(b"LD_LIBRARY_PATH=")).unwrap_or_default()
}

/// Takes the libraries off the list that a process before this one has put there, and closes them: they are loaded, and
/// none of what this one executes needs them.
///
/// # Safety
///
/// The environment is a list of C strings that ends in null, which nobody uses meanwhile.
pub unsafe fn put_away_libraries(environment: Texts) {
    // SAFETY: the caller's promise; the texts are this process's own.
    unsafe {
        for variable in texts(environment) {
            let all = text(variable);
            let start = all.windows(PRELOADED.len()).position(|part| part == PRELOADED.as_bytes());
            if let Some(start) = start.filter(|_| all.starts_with(b"LD_PRELOAD=")) {
                let numbers = String::from_utf8_lossy(&all[start..]).into_owned();
                variable.cast_mut().add(start).write(0);
                for number in numbers.split(PRELOADED).filter_map(|number| number.parse().ok()) {
                    kernel(libc::SYS_close, number, 0, 0, 0, 0, 0);
                }
            }
        }
    }
}

/// A copy of a program of ours, which `fill` makes.
pub fn program(fill: impl FnOnce(&OwnedFd) -> Reach<()>) -> Reach<OwnedFd> {
    copied(b"pvfs-program", fill)
}

/// A script of the kernel's, which did not find its interpreter, made ready if that is ours.
///
/// # Safety
///
/// `path` is null or a C string, the lists are as execve demands.
pub unsafe fn interpreted_here(path: *const c_char, lists: (Texts, Texts)) -> Reach<Program> {
    // SAFETY: the caller's promise.
    let path = if path.is_null() { &[] } else { unsafe { text(path) } };
    let line = beginning(path).and_then(|content| script_line(&content)).ok_or(Stop::NotOurs)?;
    let interpreter = CString::new(words(&line).0).map_err(|_| Errno::ENOENT)?;
    with(|process| {
        lies_here(process, &interpreter).ok_or(Stop::NotOurs)?;
        // SAFETY: the caller's promise.
        unsafe { prepare(process, Subject::Script(line), path, lists) }
    })
}

/// Whether a path, or the interpreter of the script there, is one that the kernel did not find.
pub fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR)
}

/// As much of a file of the kernel's as it looks at itself.
fn beginning(path: &[u8]) -> Option<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut content = vec![0; SCRIPT_LINE_BYTES_MAX];
    let count = rustix::io::read(&file, &mut content).ok()?;
    content.truncate(count);
    Some(content)
}

/// Where an interpreter is in the file system: by its path, or by links of the kernel's.
fn lies_here(process: &Process, interpreter: &CStr) -> Option<Vec<u8>> {
    let path = interpreter.to_bytes();
    // SAFETY: a C string.
    if unsafe { leads_in(AT_FDCWD, interpreter.as_ptr()) } {
        return Some(path.to_vec());
    }
    if path.starts_with(b"/") { process.linked_in(path) } else { None }
}

/// Makes what is to be executed ready; `path` is where an interpreter finds it, should it be a script.
///
/// # Safety
///
/// The lists are as execve demands.
pub unsafe fn prepare(
    process: &Process,
    mut subject: Subject,
    path: &[u8],
    (arguments, environment): (Texts, Texts),
) -> Reach<Program> {
    // SAFETY: the caller's promise.
    let (mut list, listed) = unsafe { (List::given(arguments), listed(environment)) };
    let mut path = path.to_vec();
    // An interpreter may be a script in its turn.
    for _ in 0..INTERPRETERS_MAX {
        let line = match subject {
            Subject::Script(line) => line,
            Subject::Copy(copy) => match look(&copy, script_line) {
                Some(line) => line,
                None => {
                    let libraries = look(&copy, |content| copies(process, content, &path, listed));
                    let libraries = Libraries(libraries);
                    return Ok(Program { image: Image::Copy(copy), list, libraries });
                }
            },
        };
        let interpreter = list.interpret(&line, &path)?;
        let found = lies_here(process, &interpreter);
        path = found.clone().unwrap_or_else(|| interpreter.into_bytes());
        let filled = match found {
            Some(path) => program(|to| process.copy_program(At::Working, &path, to)),
            None => Err(Stop::Outside(path.clone())),
        };
        subject = match filled {
            Err(Stop::Outside(out)) => {
                let image = Image::Interpreter(CString::new(out).map_err(|_| Errno::ENOENT)?);
                return Ok(Program { image, list, libraries: Libraries::default() });
            }
            filled => Subject::Copy(filled?),
        };
    }
    Err(Errno::ELOOP.into())
}

/// What a script says in its first line; nothing if it is none.
fn script_line(content: &[u8]) -> Option<Vec<u8>> {
    let line = content.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next();
    line.map(<[u8]>::to_vec)
}

/// The interpreter that such a line names, and all that follows, which is one argument.
fn words(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.trim_ascii();
    let space = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    (&line[..space], line[space..].trim_ascii())
}

/// The arguments of a program.
struct List {
    /// As they were given, or null after the first interpreter.
    given: Texts,
    own: Vec<*const c_char>,
    /// What entries point to that were not given.
    texts: Vec<CString>,
}

impl List {
    /// # Safety
    ///
    /// They are as execve demands.
    unsafe fn given(arguments: Texts) -> Self {
        // SAFETY: the caller's promise.
        let mut own: Vec<_> = unsafe { texts(arguments).collect() };
        own.push(std::ptr::null());
        Self { given: arguments, own, texts: Vec::new() }
    }

    /// Puts what a line of a script says before the script's path, in the place of the program's own name.
    fn interpret(&mut self, line: &[u8], script: &[u8]) -> Result<CString, Errno> {
        let (interpreter, argument) = words(line);
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::ENOENT);
        let interpreter = text(interpreter)?;
        let argument = if argument.is_empty() { None } else { Some(text(argument)?) };
        let first = [Some(interpreter.clone()), argument, Some(text(script)?)];
        let first: Vec<CString> = first.into_iter().flatten().collect();
        // The interpreter does not get the name that the program was called by; there may be none.
        let called = usize::from(self.own.len() > 1);
        self.own.splice(..called, first.iter().map(|text| text.as_ptr()));
        self.texts.extend(first);
        self.given = std::ptr::null();
        Ok(interpreter)
    }

    fn texts(&self) -> Texts {
        if self.given.is_null() { self.own.as_ptr() } else { self.given }
    }
}

/// Executes what was made ready. Comes back only when it fails.
///
/// # Safety
///
/// The list is as execve demands.
unsafe fn start(program: Program, environment: Texts) -> Reach<c_int> {
    // SAFETY: the caller's promise.
    let environment = unsafe { program.libraries.environment(environment) };
    let (arguments, environment) = (program.arguments() as usize, environment.texts() as usize);
    // SAFETY: the caller's promise, and that of who made the program ready; an empty path with the flag means the
    // descriptor itself.
    unsafe {
        match &program.image {
            Image::Copy(copy) => {
                let (copy, empty, flag) = (copy.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH);
                let words = (copy as usize, empty as usize, flag as usize);
                kernel(libc::SYS_execveat, words.0, words.1, arguments, environment, words.2, 0)
            }
            Image::Interpreter(path) => {
                kernel(libc::SYS_execve, path.as_ptr() as usize, arguments, environment, 0, 0, 0)
            }
        };
    }
    Err(errno().into())
}

/// As execvp(3) has it: what the kernel does not take for a program is one of the shell's. Comes back only when it
/// fails.
///
/// # Safety
///
/// As execve demands.
unsafe fn execute_or_interpret(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: the caller's promise; the line has no zero in it.
    unsafe {
        let failed = execve(path, arguments, environment);
        if errno() != Errno(libc::ENOEXEC as u32) {
            return failed;
        }
        let mut list = List::given(arguments);
        match list.interpret(b"/bin/sh", text(path)) {
            Ok(shell) => execve(shell.as_ptr(), list.texts(), environment),
            Err(errno) => fail(errno),
        }
    }
}

/// Where `$PATH` says that a program may be.
///
/// # Safety
///
/// `file` is null or a C string.
pub unsafe fn candidates(file: *const c_char) -> Vec<CString> {
    // SAFETY: a C string is given; who changes the environment meanwhile has to look out, as with execvp itself.
    let (file, path) = unsafe {
        let path = libc::getenv(c"PATH".as_ptr());
        if file.is_null() || path.is_null() || text(file).is_empty() {
            return Vec::new();
        }
        (text(file), text(path))
    };
    let in_directory = |directory: &[u8]| match directory {
        b"" => CString::new([b"./", file].concat()).ok(),
        directory => CString::new([directory, b"/", file].concat()).ok(),
    };
    path.split(|byte| *byte == b':').filter_map(in_directory).collect()
}

/// Whether one of them may be ours; otherwise the C library looks.
pub fn lead_in(paths: &[CString]) -> bool {
    // SAFETY: C strings of ours.
    paths.iter().any(|path| unsafe { leads_in(AT_FDCWD, path.as_ptr()) })
}

/// Begins one after the other until one is there; the error of the search, as execvp(3) has it. `begin` returns
/// error number 0 when it is begun.
pub fn tried(paths: &[CString], begin: impl Fn(*const c_char) -> Errno) -> Option<Errno> {
    let mut refused = false;
    for path in paths {
        match begin(path.as_ptr()) {
            Errno(0) => return None,
            Errno::EACCES => refused = true,
            Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE | Errno::ENODEV | Errno::ETIMEDOUT => {}
            errno => return Some(errno),
        }
    }
    Some(if refused { Errno::EACCES } else { Errno::ENOENT })
}

/// An environment with the present working directory in it.
pub struct Environment {
    given: Texts,
    /// The variable, and the list with it.
    own: Option<(CString, Vec<*const c_char>)>,
}

impl Environment {
    /// Leaves the given one as it is where it says what is wanted.
    ///
    /// # Safety
    ///
    /// `given` is null or a list of C strings that ends in null.
    pub unsafe fn of(given: Texts, wanted: Option<CString>) -> Self {
        let name = CString::new(WORKING_VARIABLE).expect("it has no zero");
        // SAFETY: the caller's promise.
        unsafe { Self::replacing(given, &name, |_| wanted) }
    }

    /// With what `replace` makes of a variable (`NAME=value`), which may be to have none.
    ///
    /// # Safety
    ///
    /// `given` is null or a list of C strings that ends in null.
    unsafe fn replacing(
        given: Texts,
        name: &CStr,
        replace: impl FnOnce(Option<&CStr>) -> Option<CString>,
    ) -> Self {
        let as_given = Self { given, own: None };
        if given.is_null() {
            return as_given;
        }
        let (mut others, mut had) = (Vec::new(), None);
        // SAFETY: the caller's promise.
        unsafe {
            for variable in texts(given) {
                let rest = text(variable).strip_prefix(name.to_bytes());
                if rest.is_some_and(|rest| rest.starts_with(b"=")) {
                    had = Some(CStr::from_ptr(variable));
                } else {
                    others.push(variable);
                }
            }
        }
        let wanted = replace(had);
        if had == wanted.as_deref() {
            return as_given;
        }
        let wanted = wanted.unwrap_or_default();
        if !wanted.is_empty() {
            others.push(wanted.as_ptr());
        }
        others.push(std::ptr::null());
        Self { given, own: Some((wanted, others)) }
    }

    /// As execve demands it.
    pub fn texts(&self) -> Texts {
        self.own.as_ref().map_or(self.given, |(_, texts)| texts.as_ptr())
    }
}

/// What the executed program learns the locks of this process from: open until it runs.
fn locks_handed_on() -> Option<OwnedFd> {
    // A child in its parent's memory has none of its own.
    if is_borrowed() { None } else { with(Process::before_exec).ok().flatten() }
}

/// The working directory, for the environment.
pub fn working_variable() -> Option<CString> {
    if !INSIDE.load(Ordering::Relaxed) {
        return None;
    }
    variable(&with(|process| Ok(process.working_to_resume())).ok().flatten()?)
}

/// A working directory, for the environment.
pub fn variable(value: &[u8]) -> Option<CString> {
    CString::new([WORKING_VARIABLE.as_bytes(), b"=", value].concat()).ok()
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

/// As much of a script as Linux reads.
const SCRIPT_LINE_BYTES_MAX: usize = 256;

/// As many as Linux takes one for the other.
const INTERPRETERS_MAX: usize = 5;

/// Before the number of each library that is loaded before all else, in the list of those.
const PRELOADED: &str = ":/proc/self/fd/";
