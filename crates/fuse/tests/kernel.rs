//! What is agreed with the kernel works: an in-memory file system, mounted for real.
//!
//! Needs root and /dev/fuse; without them each test says so and passes. `--ignored --nocapture` prints
//! figures, the limit that a PVFS mount is measured against.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pvfs_fuse::memory::mount_memory;
use pvfs_fuse::{MountError, MountOptions, Session};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A mount that is taken away when the test ends, however it ends.
struct Mount {
    session: Option<Session>,
    directory: tempfile::TempDir,
}

impl Mount {
    fn new(options: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let session = mount_memory(directory.path(), options.parse::<MountOptions>().unwrap());
        Some(Self { session: Some(session.unwrap()), directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let session = self.session.take().expect("taken here only");
        session.unmount().unwrap();
        session.join().unwrap();
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn bytes_come_back_as_they_were_written_whichever_way_the_page_cache_is_used() {
    for options in ["direct=auto", "direct=on", "direct=off"] {
        let Some(mount) = Mount::new(options) else { return };
        let data = pattern(3 << 20 | 12345);
        fs::write(mount.path("a"), &data).unwrap();
        assert!(fs::read(mount.path("a")).unwrap() == data, "{options}");
        let file = File::open(mount.path("a")).unwrap();
        let mut middle = vec![0; 70_000];
        file.read_exact_at(&mut middle, 1_000_001).unwrap();
        assert!(middle == data[1_000_001..1_070_001], "{options}");
    }
}

#[test]
fn a_write_past_the_end_leaves_zeros_between() {
    let Some(mount) = Mount::new("") else { return };
    let mut file = File::create_new(mount.path("a")).unwrap();
    file.seek(SeekFrom::Start(10_000)).unwrap();
    file.write_all(b"x").unwrap();
    let mut expected = vec![0; 10_000];
    expected.push(b'x');
    assert_eq!(fs::read(mount.path("a")).unwrap(), expected);
    file.set_len(4).unwrap();
    assert_eq!(fs::read(mount.path("a")).unwrap(), [0; 4]);
}

#[test]
fn appends_go_to_the_end_whoever_else_appends() {
    let Some(mount) = Mount::new("") else { return };
    let open = || OpenOptions::new().append(true).create(true).open(mount.path("log")).unwrap();
    let (mut one, mut two) = (open(), open());
    for round in 0..50 {
        writeln!(one, "one {round}").unwrap();
        writeln!(two, "two {round}").unwrap();
    }
    let lines: Vec<String> =
        fs::read_to_string(mount.path("log")).unwrap().lines().map(str::to_owned).collect();
    let expected: Vec<String> =
        (0..50).flat_map(|round| [format!("one {round}"), format!("two {round}")]).collect();
    assert_eq!(lines, expected);
}

/// Both files of the page cache and those that bypass it can be mapped, and what is written through a
/// mapping is read through a descriptor.
#[test]
fn a_shared_mapping_and_a_descriptor_see_the_same_file() {
    for options in ["direct=auto", "direct=on"] {
        let Some(mount) = Mount::new(options) else { return };
        let bytes = 1 << 20;
        fs::write(mount.path("a"), pattern(bytes)).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(mount.path("a")).unwrap();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of a file that is not truncated while it exists, used below only.
        let mapping = unsafe {
            mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &file, 0).unwrap()
        };
        // SAFETY: the mapping is that long, and no other reference to it exists.
        let mapped = unsafe { std::slice::from_raw_parts_mut(mapping.cast::<u8>(), bytes) };
        assert!(mapped == pattern(bytes), "{options}");
        mapped[5000] = 99;
        // SAFETY: the range is the mapping's.
        unsafe { msync(mapping, bytes, MsyncFlags::SYNC).unwrap() };
        let mut byte = [0];
        file.read_exact_at(&mut byte, 5000).unwrap();
        assert_eq!(byte, [99], "{options}");
        // SAFETY: `mapped` is not used any more.
        unsafe { munmap(mapping, bytes).unwrap() };
        assert_eq!(fs::read(mount.path("a")).unwrap()[5000], 99, "{options}");
    }
}

#[test]
fn an_unlinked_file_lives_on_in_its_descriptor() {
    let Some(mount) = Mount::new("") else { return };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(mount.path("a"))
        .unwrap();
    fs::remove_file(mount.path("a")).unwrap();
    file.write_all(b"still here").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::metadata(mount.path("a")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_directory_of_5000_lists_every_name_once() {
    let Some(mount) = Mount::new("") else { return };
    for index in 0..5000 {
        File::create_new(mount.path(&format!("file-{index:05}"))).unwrap();
    }
    let list = || -> Vec<String> {
        let entries = fs::read_dir(mount.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    };
    let mut names = list();
    names.sort();
    let expected: Vec<String> = (0..5000).map(|index| format!("file-{index:05}")).collect();
    assert!(names == expected);
}

#[test]
fn a_mount_point_is_refused_and_released_with_reasons() {
    let Some(mount) = Mount::new("") else { return };
    let again = mount_memory(mount.directory.path(), MountOptions::default());
    assert!(matches!(again, Err(MountError::Mounted { .. })));
    let busy = File::create_new(mount.path("busy")).unwrap();
    let session = mount.session.as_ref().unwrap();
    session.unmount().unwrap();
    assert!(fs::read_dir(mount.directory.path()).unwrap().next().is_none(), "out of sight");
    assert!(session.is_alive(), "served until the last file is closed");
    busy.write_all_at(b"x", 0).unwrap();
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let Some(mount) = Mount::new("ro") else { return };
    let refused = File::create_new(mount.path("a")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
}

/// What this machine's kernel can do at most.
#[test]
#[ignore = "prints figures"]
fn figures() {
    for options in ["direct=auto", "direct=on", "direct=off"] {
        for threads in [2, 4, 8, 16] {
            let Some(mount) = Mount::new(&format!("{options},threads={threads}")) else { return };
            println!("{options} threads={threads}: {}", transfer_figures(&mount));
        }
    }
    let Some(mount) = Mount::new("") else { return };
    println!("metadata: {}", metadata_figures(&mount));
}

fn transfer_figures(mount: &Mount) -> String {
    const FILE_BYTES: usize = 256 << 20;
    let path = mount.path("big");
    let create = File::create(&path).unwrap();
    let transfer = pattern(1 << 20);
    let write = |file: &File, bytes: usize| {
        let mut offset = 0;
        while offset < FILE_BYTES {
            file.write_all_at(&transfer[..bytes], offset as u64).unwrap();
            offset += bytes;
        }
    };
    write(&create, 1 << 20);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let overwrite = rate(FILE_BYTES, || write(&file, 1 << 20));
    drop((create, file));
    let mut buffer = vec![0; 1 << 20];
    let cold = OpenOptions::new().read(true).open(&path).unwrap();
    let mut read = |fresh: bool| {
        if fresh {
            rustix::fs::fadvise(&cold, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        for offset in (0..FILE_BYTES).step_by(1 << 20) {
            cold.read_exact_at(&mut buffer, offset as u64).unwrap();
        }
    };
    let first = rate(FILE_BYTES, || read(true));
    let again = rate(FILE_BYTES, || read(false));
    let bypass = File::options().read(true).custom_flags(O_DIRECT).open(&path).unwrap();
    let page = 4096;
    let mut aligned = vec![0; (1 << 20) + page];
    let start = aligned.as_ptr().align_offset(page);
    let direct = rate(FILE_BYTES, || {
        for offset in (0..FILE_BYTES).step_by(1 << 20) {
            bypass.read_exact_at(&mut aligned[start..start + (1 << 20)], offset as u64).unwrap();
        }
    });
    format!("overwrite {overwrite}, read cold {first}, again {again}, O_DIRECT {direct} GB/s")
}

fn metadata_figures(mount: &Mount) -> String {
    let names: Vec<PathBuf> = (0..5000).map(|index| mount.path(&format!("f{index}"))).collect();
    let create = per_second(5000, || {
        for name in &names {
            File::create_new(name).unwrap();
        }
    });
    let stat = per_second(5000, || {
        for name in &names {
            fs::metadata(name).unwrap();
        }
    });
    let started = Instant::now();
    let listed = std::process::Command::new("ls").arg("-l").arg(mount.directory.path()).output();
    let ls = started.elapsed();
    assert!(listed.unwrap().status.success());
    let unlink = per_second(5000, || {
        for name in &names {
            fs::remove_file(name).unwrap();
        }
    });
    format!("create {create}/s, stat {stat}/s, unlink {unlink}/s, ls -l of 5000 in {ls:?}")
}

fn rate(bytes: usize, mut work: impl FnMut()) -> String {
    let elapsed = median(|| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    format!("{:.2}", bytes as f64 / elapsed.as_secs_f64() / 1e9)
}

fn median(mut measure: impl FnMut() -> Duration) -> Duration {
    let mut times = [measure(), measure(), measure()];
    times.sort();
    times[1]
}

fn per_second(count: u32, work: impl FnOnce()) -> u32 {
    let started = Instant::now();
    work();
    (f64::from(count) / started.elapsed().as_secs_f64()) as u32
}

const O_DIRECT: i32 = 0o40_000;
