//! Every example compiles without a warning and does what it says, linked either way, on our files and, where it
//! can, on ordinary ones.

use std::path::Path;

use crate::support::TestCluster;
use crate::{Linked, compiled, done, source};

/// Compiles an example and runs it in a directory of its own.
fn example(cluster: &TestCluster, name: &str, linked: Linked) {
    let source = source("crates/capi/examples").join(name);
    let Some(program) = compiled(cluster, &source, linked) else { return };
    let inside = format!("{}-{linked:?}", name.replace('.', "-"));
    cluster.run(&["mkdir", &format!("pvfs:/{inside}")]);
    said_done(&done(cluster, &program, &[&format!("/pvfs/{inside}")]), name);
    if ORDINARY.contains(&name) {
        let outside = cluster.scratch().join(inside);
        std::fs::create_dir(&outside).unwrap();
        said_done(&done(cluster, &program, &[&outside.display().to_string()]), name);
    }
}

#[track_caller]
fn said_done(said: &str, name: &str) {
    let stem = Path::new(name).file_stem().unwrap().to_string_lossy();
    assert_eq!(said.lines().last(), Some(&*format!("{stem}: done")), "{name}");
}

#[test]
fn every_example_does_what_it_says_with_the_shared_library_and_the_static_one() {
    let cluster = TestCluster::start(4);
    let files = std::fs::read_dir(source("crates/capi/examples")).unwrap();
    let names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(ORDINARY.iter().all(|name| names.iter().any(|found| found == name)), "{names:?}");
    for linked in [Linked::Shared, Linked::Static] {
        for name in &names {
            example(&cluster, name, linked);
        }
    }
}

/// Those that do the same in an ordinary directory.
const ORDINARY: [&str; 4] = ["native.c", "readx.c", "blocks.c", "queue.c"];
