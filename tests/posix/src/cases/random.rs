//! Random streams, a few seeds each; `PVFS_SEEDS` asks for more.

use crate::sys::*;
use crate::wants::*;
use crate::{stream, tree};

cases! { "random"
    any [
        a_file_is_an_array_of_bytes,
        a_file_is_an_array_of_bytes_to_several_processes_at_once,
        and_also_while_they_close_and_open_it,
        names_are_what_they_are_in_a_plain_directory,
    ]
    root []
}

fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=crate::runner::seeds()
}

fn a_file_is_an_array_of_bytes() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        stream::run(seed, &[format!("f{seed}")], 400);
        unlink(&format!("f{seed}")).unwrap();
    }
}

/// Parts that end inside strips and pages: what one does to its own never shows in another's.
fn a_file_is_an_array_of_bytes_to_several_processes_at_once() {
    several_processes(false);
}

fn and_also_while_they_close_and_open_it() {
    several_processes(true);
}

fn several_processes(anew: bool) {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let open_file = file("f", b"");
        ftruncate(&open_file, 900_001).unwrap();
        let edges = [0, 299_999, 600_077, 900_001];
        let workers: Vec<Child> = edges
            .windows(2)
            .map(|part| {
                let (start, end) = (part[0], part[1]);
                let seed = seed * 7 + start as u64;
                child(move || stream::run_on_part(seed, "f", start..end, anew, 120))
            })
            .collect();
        workers.into_iter().for_each(Child::succeeds);
        assert_eq!(size("f"), 900_001);
    }
}

fn names_are_what_they_are_in_a_plain_directory() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let plain = std::env::temp_dir().join(format!("pvfs-plain-{}", std::process::id()));
        std::fs::create_dir(&plain).unwrap();
        mkdir("tree", 0o755).unwrap();
        let outcome = std::panic::catch_unwind(|| {
            tree::run(seed, ["tree", plain.to_str().unwrap()], 300);
        });
        std::fs::remove_dir_all(&plain).unwrap();
        std::fs::remove_dir_all("tree").unwrap();
        if let Err(why) = outcome {
            std::panic::resume_unwind(why);
        }
    }
}
