//! Whether the preload library can stand between a program and the C library.
//!
//! It can where the dynamic loader of the GNU C library starts the program and heeds LD_PRELOAD. What a program
//! does by system calls of its own it never sees.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What stands against it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// No loader, so nothing can be loaded before it.
    Static,
    /// The loader passes over LD_PRELOAD for programs that run with others' rights.
    Privileged,
    /// Made for another processor or word size than the library.
    Foreign,
    /// Made for another C library, by its loader.
    Loader(String),
    /// Makes system calls of its own (Go).
    RawCalls,
    /// Neither an executable nor a script.
    NotExecutable,
}

/// A program that was looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Examined {
    /// The executable that the kernel starts: of a script, its interpreter.
    pub executable: PathBuf,
    /// What stands against it; nothing if it can be caught.
    pub obstacle: Option<Obstacle>,
}

impl Obstacle {
    /// What it is, for people.
    pub fn text(&self) -> String {
        match self {
            Self::Static => "it is statically linked".into(),
            Self::Privileged => "it is setuid, setgid or has file capabilities".into(),
            Self::Foreign => "it is made for another processor".into(),
            Self::Loader(loader) => format!("it is made for another C library ({loader})"),
            Self::RawCalls => "it makes system calls of its own, as Go programs do".into(),
            Self::NotExecutable => "it is neither an ELF executable nor a script".into(),
        }
    }
}

/// Looks at a program.
pub fn examine(path: &Path) -> io::Result<Examined> {
    let mut executable = fs::canonicalize(path)?;
    for _ in 0..INTERPRETERS_MAX {
        match interpreter(&executable)? {
            Some(interpreter) => executable = fs::canonicalize(interpreter)?,
            None => break,
        }
    }
    let obstacle = obstacle(&executable)?;
    Ok(Examined { executable, obstacle })
}

/// Finds a program as a shell does.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    let executable = |file: &PathBuf| {
        fs::metadata(file)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(executable)
}

/// The program that runs a script; none if it is no script.
pub fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    File::open(path)?.take(LINE_MAX).read_to_end(&mut line)?;
    let Some(rest) = line.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let text = |word: Option<&[u8]>| word.map(|word| String::from_utf8_lossy(word).into_owned());
    let Some(first) = text(words.next()) else { return Ok(None) };
    // `#!/usr/bin/env python3` starts what env finds.
    let named = text(words.find(|word| !word.starts_with(b"-") && !word.contains(&b'=')));
    match named {
        Some(named) if first.ends_with("/env") => Ok(find(&named).or(Some(first.into()))),
        _ => Ok(Some(first.into())),
    }
}

fn obstacle(path: &Path) -> io::Result<Option<Obstacle>> {
    let file = File::open(path)?;
    if file.metadata()?.permissions().mode() & 0o6000 != 0 || has_capabilities(path) {
        return Ok(Some(Obstacle::Privileged));
    }
    let mut header = [0; 64];
    if file.read_exact_at(&mut header, 0).is_err() || header[..4] != *b"\x7fELF" {
        return Ok(Some(Obstacle::NotExecutable));
    }
    let own_machine = if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 };
    let (is_64_bit, is_little_endian) = (header[4] == 2, header[5] == 1);
    if !is_64_bit || !is_little_endian || number(&header, 18, 2) != own_machine {
        return Ok(Some(Obstacle::Foreign));
    }
    let Some(loader) = loader(&file, &header)? else {
        // A library is loaded into programs and does not begin anywhere by itself.
        let is_library = number(&header, 16, 2) == ET_DYN && number(&header, 24, 8) == 0;
        return Ok((!is_library).then_some(Obstacle::Static));
    };
    if !loader.contains("ld-linux") {
        return Ok(Some(Obstacle::Loader(loader)));
    }
    Ok(is_go(&file, &header)?.then_some(Obstacle::RawCalls))
}

/// The loader that the program names (PT_INTERP).
fn loader(file: &File, header: &[u8]) -> io::Result<Option<String>> {
    let segments = segments(file, header)?;
    let Some(segment) = segments.iter().find(|segment| segment.kind == PT_INTERP) else {
        return Ok(None);
    };
    let mut name = vec![0; segment.bytes.min(4096) as usize];
    file.read_exact_at(&mut name, segment.at)?;
    let name = String::from_utf8_lossy(&name);
    Ok(Some(name.trim_end_matches('\0').to_owned()))
}

/// A part of an executable as it is loaded.
struct Segment {
    kind: u64,
    flags: u64,
    at: u64,
    bytes: u64,
}

fn segments(file: &File, header: &[u8]) -> io::Result<Vec<Segment>> {
    let (start, size, count) =
        (number(header, 32, 8), number(header, 54, 2), number(header, 56, 2));
    let segment = |index: u64| {
        let mut entry = [0; 56];
        file.read_exact_at(&mut entry, start.saturating_add(index * size))?;
        let (kind, flags) = (number(&entry, 0, 4), number(&entry, 4, 4));
        Ok(Segment { kind, flags, at: number(&entry, 8, 8), bytes: number(&entry, 32, 8) })
    };
    (0..count).map(segment).collect()
}

/// The calls on names that a program makes by instructions of its own, past the C library: what is made with the library
/// rustix does, for one. Nothing where the processor is another than x86-64.
pub fn own_calls(path: &Path) -> io::Result<Vec<&'static str>> {
    let file = File::open(path)?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    let mut found = Vec::new();
    if number(&header, 18, 2) != X86_64 {
        return Ok(found);
    }
    for segment in segments(&file, &header)? {
        if segment.kind != PT_LOAD || segment.flags & PF_X == 0 || segment.bytes > CODE_BYTES_MAX {
            continue;
        }
        let mut code = vec![0; segment.bytes as usize];
        file.read_exact_at(&mut code, segment.at)?;
        found.extend(calls_in(&code));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// `mov eax, number` and `syscall` a few instructions behind it.
fn calls_in(code: &[u8]) -> impl Iterator<Item = &'static str> {
    let calls = code.windows(2).enumerate().filter(|(_, pair)| *pair == [0x0f, 0x05]);
    calls.filter_map(|(at, _)| {
        let before = &code[at.saturating_sub(NUMBER_BEFORE)..at];
        let set = before.windows(5).rev().find(|five| five[0] == 0xb8 && five[3..] == [0, 0])?;
        let number = u32::from_le_bytes([set[1], set[2], 0, 0]);
        NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
    })
}

/// Whether it has the section that the Go linker makes.
fn is_go(file: &File, header: &[u8]) -> io::Result<bool> {
    let (start, size, count) =
        (number(header, 40, 8), number(header, 58, 2), number(header, 60, 2));
    let names = number(header, 62, 2);
    if start == 0 || names >= count || size < 64 {
        return Ok(false);
    }
    let section = |index: u64| {
        let mut entry = [0; 64];
        file.read_exact_at(&mut entry, start.saturating_add(index * size)).map(|()| entry)
    };
    let table = section(names)?;
    let bytes = number(&table, 32, 8).min(SECTION_NAMES_MAX);
    let mut text = vec![0; bytes as usize];
    file.read_exact_at(&mut text, number(&table, 24, 8))?;
    Ok(text.split(|byte| *byte == 0).any(|name| name == b".go.buildinfo"))
}

fn has_capabilities(path: &Path) -> bool {
    rustix::fs::getxattr(path, "security.capability", &mut [0u8; 64]).is_ok_and(|bytes| bytes > 0)
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut number = [0; 8];
    number[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(number)
}

const PT_LOAD: u64 = 1;
const PT_INTERP: u64 = 3;
const PF_X: u64 = 1;
const ET_DYN: u64 = 3;
const X86_64: u64 = 62;
const AARCH64: u64 = 183;

/// No program has more; what says so is damaged.
const CODE_BYTES_MAX: u64 = 1 << 30;

/// Between the number and the call stand moves of the arguments.
const NUMBER_BEFORE: usize = 48;

/// Calls that name files, by their numbers.
const NAMES: [(u32, &str); 22] = [
    (82, "rename"),
    (83, "mkdir"),
    (84, "rmdir"),
    (86, "link"),
    (87, "unlink"),
    (88, "symlink"),
    (89, "readlink"),
    (257, "openat"),
    (258, "mkdirat"),
    (262, "newfstatat"),
    (263, "unlinkat"),
    (264, "renameat"),
    (265, "linkat"),
    (266, "symlinkat"),
    (267, "readlinkat"),
    (268, "fchmodat"),
    (269, "faccessat"),
    (280, "utimensat"),
    (316, "renameat2"),
    (332, "statx"),
    (437, "openat2"),
    (439, "faccessat2"),
];
const LINE_MAX: u64 = 256;
const SECTION_NAMES_MAX: u64 = 1 << 20;

/// As many as Linux follows.
const INTERPRETERS_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn obstacle_of(path: &Path) -> Option<Obstacle> {
        examine(path).unwrap().obstacle
    }

    fn file(directory: &tempfile::TempDir, name: &str, content: &[u8]) -> PathBuf {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn what_the_loader_starts_can_be_caught_unless_it_has_privileges() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let copy = file(&directory, "copy", &own);
        assert_eq!(obstacle_of(&copy), None);
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(obstacle_of(&copy), Some(Obstacle::Privileged));
        let mut foreign = own.clone();
        foreign[18] = 8;
        assert_eq!(obstacle_of(&file(&directory, "foreign", &foreign)), Some(Obstacle::Foreign));
    }

    #[test]
    fn a_program_without_a_loader_is_static() {
        let mut own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let (start, size, count) = (number(&own, 32, 8), number(&own, 54, 2), number(&own, 56, 2));
        for index in 0..count {
            let at = (start + index * size) as usize;
            if number(&own, at, 4) == PT_INTERP {
                own[at] = 0;
            }
        }
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(obstacle_of(&file(&directory, "static", &own)), Some(Obstacle::Static));
    }

    #[test]
    fn of_a_script_the_interpreter_counts() {
        let directory = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let script = file(&directory, "script", format!("#! {} -x\n", own.display()).as_bytes());
        let examined = examine(&script).unwrap();
        assert_eq!(
            examined,
            Examined { executable: fs::canonicalize(own).unwrap(), obstacle: None }
        );
        let text = file(&directory, "text", b"hello");
        assert_eq!(obstacle_of(&text), Some(Obstacle::NotExecutable));
    }

    #[test]
    fn calls_by_instructions_are_found_with_their_names() {
        let openat = [0xb8, 1, 1, 0, 0, 0x48, 0x89, 0xf7, 0x0f, 0x05, 0xc3];
        let getpid = [0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3];
        let code = [&getpid[..], &[0x90; 60], &openat, &[0x90; 60], &[0x0f, 0x05]].concat();
        assert_eq!(calls_in(&code).collect::<Vec<_>>(), ["openat"]);
        assert_eq!(calls_in(&openat[..8]).count(), 0);
    }

    #[test]
    fn damaged_executables_are_errors_or_obstacles_never_a_panic() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        for at in 4..64 {
            let mut damaged = own[..own.len().min(1 << 16)].to_vec();
            damaged[at] = 0xff;
            let path = file(&directory, "damaged", &damaged);
            let _ = (examine(&path), own_calls(&path));
        }
    }
}
