//! The rules of the house that a compiler does not check: edges between crates, heads, lengths, names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which of our crates a crate may depend on. Manager, iod and client never know one another; layout and
/// wire do no I/O and so know nobody who does.
const EDGES: &[(&str, &[&str])] = &[
    ("layout", &[]),
    ("config", &["layout"]),
    ("wire", &["layout"]),
    ("net", &["config", "layout", "wire"]),
    ("mgr", &["layout", "net", "wire"]),
    ("iod", &["layout", "net", "wire"]),
    ("client", &["config", "layout", "net", "wire"]),
    ("fuse", &["client", "layout", "net", "wire"]),
    ("posix", &["client", "config", "net", "wire"]),
    ("preload", &["client", "posix", "wire"]),
    ("capi", &["client", "layout", "posix", "wire"]),
    ("sim", &["client", "config", "iod", "layout", "mgr", "net", "wire"]),
    ("pvfs", &["client", "config", "fuse", "iod", "layout", "mgr", "net", "posix", "wire"]),
];

/// Files with a reviewed reason for unsafe code, each stated there; all other code forbids it.
/// A name that ends in a slash stands for all files below it.
const UNSAFE: &[&str] = &[
    "net/src/blocking.rs",
    "net/src/mapping.rs",
    "net/src/peer.rs",
    "net/src/shared_buffers.rs",
    "net/src/signals.rs",
    "net/src/socket.rs",
    "net/src/tray.rs",
    "net/src/window.rs",
    "net/src/words.rs",
    "capi/src/ffi/",
    "capi/tests/entries/calls.rs",
    "posix/src/c/",
    "fuse/src/mapped.rs",
    "posix/src/shared.rs",
    "preload/src/",
    "tests/posix/src/sys.rs",
    "tests/posix/src/sys/directory.rs",
];

/// A thing with no better name has no place yet.
const NAMELESS: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

const FILE_LINES_MAX: usize = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the root").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root().join("crates"), root().join("tests"), root().join("xtask")];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => left.push(path),
                Some(extension) if extension == "rs" => found.push(path),
                _ => {}
            }
        }
    }
    found
}

fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").exists())
        .collect()
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Our crates among the normal dependencies of a manifest.
fn edges_of(manifest: &str) -> BTreeSet<&str> {
    let from = manifest.find("\n[dependencies]").expect("a crate has dependencies");
    let section = &manifest[from + 1..];
    let section = &section[..section[1..].find("\n[").map_or(section.len(), |at| at + 1)];
    section
        .lines()
        .filter_map(|line| line.strip_prefix("pvfs-")?.split(['.', ' ', '=']).next())
        .collect()
}

#[test]
fn crates_depend_only_on_those_below_them() {
    for path in crates() {
        let manifest = read(&path.join("Cargo.toml"));
        let row = EDGES.iter().find(|row| row.0 == name(&path));
        let allowed = row.unwrap_or_else(|| panic!("{} is not in EDGES", path.display())).1;
        for edge in edges_of(&manifest) {
            assert!(allowed.contains(&edge), "{} must not depend on {edge}", name(&path));
        }
    }
}

#[test]
fn unsafe_code_is_only_where_it_has_a_reason() {
    for path in crates() {
        let lib = read(&path.join("src/lib.rs"));
        let level =
            if UNSAFE.iter().any(|file| file.starts_with(name(&path))) { "deny" } else { "forbid" };
        let wanted = format!("#![{level}(unsafe_code)]");
        assert!(lib.contains(&wanted), "{} must say {wanted}", path.join("src/lib.rs").display());
    }
    for path in sources() {
        let reviewed = UNSAFE.iter().any(|file| match file.strip_suffix('/') {
            Some(folder) => path.ancestors().any(|above| above.ends_with(folder)),
            None => path.ends_with(file),
        });
        let allows =
            read(&path).lines().any(|line| line.trim_start().contains("[allow(unsafe_code)]"));
        assert!(
            reviewed || !allows || path.ends_with("tidy.rs"),
            "{} may be unsafe",
            path.display()
        );
    }
}

#[test]
fn every_file_says_at_its_head_what_it_is_about() {
    for path in sources() {
        let text = read(&path);
        assert!(text.starts_with("//! "), "{} has no head", path.display());
    }
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    for path in sources() {
        let lines = read(&path).lines().count();
        assert!(
            lines <= FILE_LINES_MAX,
            "{} has {lines} lines: look for the second idea",
            path.display()
        );
    }
}

#[test]
fn every_file_has_a_name_of_its_own() {
    for path in sources() {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(!NAMELESS.contains(&stem), "{} has no better name?", path.display());
    }
}
