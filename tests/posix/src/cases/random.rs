//! Random streams, a few seeds each; `PVFS_SEEDS` asks for more.

use crate::chance::Chance;
use crate::sys::*;
use crate::wants::*;
use crate::{stream, tree};

cases! { "random"
    any [
        a_file_is_an_array_of_bytes,
        a_file_is_an_array_of_bytes_to_several_processes_at_once,
        and_also_while_they_close_and_open_it,
        what_one_has_written_it_reads_while_others_open_the_file_and_write_next_to_it,
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

/// Writers share every page and own some bytes of each; others open the file and read all of it meanwhile.
fn what_one_has_written_it_reads_while_others_open_the_file_and_write_next_to_it() {
    let rounds = 100 * seeds().end();
    drop(file("f", &[0; 16 * PAGE]));
    let writers = (0..4).map(|writer| child(move || write_and_read_own(writer, rounds)));
    let openers = (0..2).map(|_| child(move || (0..rounds).for_each(|_| read_anew())));
    let all: Vec<Child> = writers.chain(openers).collect();
    all.into_iter().for_each(Child::succeeds);
}

fn write_and_read_own(writer: usize, rounds: u64) {
    let mut chance = Chance::new(writer as u64 + 1);
    let mut own = open("f", O_RDWR, 0).unwrap();
    for round in 0..rounds {
        if chance.below(4) == 0 {
            own = open("f", O_RDWR, 0).unwrap();
        }
        let at = (chance.below(16) * PAGE + writer * OWN) as i64;
        let data = pattern(OWN, chance.number());
        assert_eq!(pwrite(&own, &data, at), Ok(OWN));
        assert!(pread(&own, OWN, at).unwrap() == data, "bytes at {at} in round {round}");
    }
}

fn read_anew() {
    let reader = open("f", O_RDWR, 0).unwrap();
    assert_eq!(pread(&reader, 16 * PAGE, 0).unwrap().len(), 16 * PAGE);
}

const PAGE: usize = 4096;

/// Bytes of each page that one writer owns.
const OWN: usize = 500;

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
        clear("tree").unwrap();
        if let Err(why) = outcome {
            std::panic::resume_unwind(why);
        }
    }
}
