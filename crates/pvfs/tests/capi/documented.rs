//! The header, the libraries and the manual pages speak of the same functions.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::TestCluster;
use crate::{Linked, compiled, done, installed, source};

/// Names of functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(source("crates/capi/include/pvfs.h")).unwrap();
    let mut names = BTreeSet::new();
    for line in without_comments(&header).lines() {
        let starts_item = line.starts_with(|first: char| first.is_ascii_lowercase());
        let Some((before, _)) = line.split_once('(') else { continue };
        if starts_item && !line.starts_with("extern") && !line.starts_with("typedef") {
            names.insert(before.rsplit([' ', '*']).next().unwrap().to_owned());
        }
    }
    names
}

fn without_comments(text: &str) -> String {
    let mut pieces = text.split("/*");
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once("*/").map_or("", |(_, after)| after))
}

#[test]
fn every_function_of_the_header_is_in_a_manual_page() {
    let mut pages = String::new();
    for page in std::fs::read_dir(source("docs/man")).unwrap() {
        pages += &std::fs::read_to_string(page.unwrap().path()).unwrap();
    }
    let named: BTreeSet<&str> = pages
        .lines()
        .filter_map(|line| line.strip_prefix(".Fn ")?.split([' ', '"']).next())
        .collect();
    let names = declared();
    assert!(
        names.len() > 70 && names.contains("pvfs_open") && names.contains("readx"),
        "{names:?}"
    );
    let missing: Vec<_> = names.iter().filter(|name| !named.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "no page has {missing:?}");
}

#[test]
fn every_function_of_the_header_is_found_by_its_own_name() {
    let manual = installed().join("share/man");
    for name in declared() {
        let own = std::fs::read_to_string(manual.join(format!("man3/{name}.3")));
        let own = own.unwrap_or_else(|error| panic!("man 3 {name}: {error}"));
        let page = match own.strip_prefix(".so ") {
            Some(path) => std::fs::read_to_string(manual.join(path.trim())).unwrap(),
            None => own,
        };
        let synopsis = page.split(".Sh DESCRIPTION").next().unwrap();
        let is_there = |line: &str| line.split([' ', '"']).nth(1) == Some(&name);
        let found = synopsis.lines().filter(|line| line.starts_with(".Fn ")).any(is_there);
        assert!(found, "the page of {name} is another's");
    }
}

#[test]
fn every_function_of_the_header_is_in_the_shared_library_and_nothing_else_is() {
    let library = installed().join("lib/libpvfs.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let Ok(output) = output else {
        eprintln!("skipped: nm is not installed");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.to_owned())).collect();
    // Those with lists of arguments are in the header whole.
    let inline = ["pvfs_blk_list", "set_blk", "buf_blk", "read_blk", "write_blk"];
    let names: BTreeSet<String> =
        declared().into_iter().filter(|name| !inline.contains(&name.as_str())).collect();
    assert_eq!(exported, names);
}

#[test]
fn the_extensions_have_the_types_of_the_paper_in_c_and_in_cpp() {
    let cluster = TestCluster::start(1);
    let in_c = source("crates/pvfs/tests/capi/prototypes.c");
    let in_cpp = cluster.scratch().join("prototypes.cpp");
    std::fs::copy(&in_c, &in_cpp).unwrap();
    for source in [&in_c, &in_cpp] {
        let Some(program) = compiled(&cluster, source, Linked::Shared) else { return };
        assert_eq!(done(&cluster, &program, &[]), "prototypes: done\n");
    }
}

#[test]
fn an_installation_is_whole() {
    let library = std::fs::read_link(installed().join("lib/libpvfs.so")).unwrap();
    assert_eq!(library.to_str(), Some("libpvfs.so.0"));
    let files = [
        "bin/pvfs",
        "bin/u2p",
        "sbin/mount.pvfs",
        "sbin/mount.fuse.pvfs",
        "include/pvfs.h",
        "lib/libpvfs.so.0",
        "lib/libpvfs.a",
        "lib/pvfs/libpvfs_preload.so",
        "lib/pkgconfig/pvfs.pc",
        "lib/systemd/system/pvfs-mgr@.service",
        "lib/sysusers.d/pvfs.conf",
        "share/man/man1/pvfs-cp.1",
        "share/man/man3/readx.3",
        "share/bash-completion/completions/pvfs",
    ];
    for file in files {
        let path = installed().join(file);
        assert!(path.metadata().is_ok_and(|it| it.len() > 0), "{}", path.display());
    }
    let unit = installed().join("lib/systemd/system/pvfs-mgr@.service");
    let started = format!("ExecStart={}/bin/pvfs ", installed().display());
    assert!(std::fs::read_to_string(unit).unwrap().contains(&started));
}

/// The executable that is installed finds the library that is installed beside it.
#[test]
fn pvfs_run_finds_the_installed_library() {
    let output = Command::new(installed().join("bin/pvfs"))
        .args(["run", "bash", "-c", "echo $LD_PRELOAD"])
        .env_remove("PVFS_PRELOAD")
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    let said = crate::support::text(&output);
    assert!(said.contains("/lib/pvfs/libpvfs_preload.so"), "{said}");
}
