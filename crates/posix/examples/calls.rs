//! A tour of the calls with paths and descriptors: a striped file, a partition, a column, blocks of an array, one open for
//! many, names with attributes, a layout for new files.
//!
//! ```text
//! PVFS_CONFIG=/path/to/cluster.toml cargo run -p pvfs-posix --example calls
//! ```

use pvfs_client::{Group, LiteMask, Partition, Region, View};
use pvfs_posix::blocks::{Blocks, Open, Shape};
use pvfs_posix::{At, From, Layout, Process, Settings};
use pvfs_wire::attr::Striping;
use rustix::fs::OFlags;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tour(&Process::new(Settings::of_process()))
}

/// Makes a directory of the name `calls` below the prefix, and removes it.
pub fn tour(process: &Process) -> Result<(), Box<dyn std::error::Error>> {
    let here = process.prefix().join(b"/calls");
    let path = |name: &str| [here.as_slice(), b"/", name.as_bytes()].concat();
    process.make_directory(At::Working, &here, 0o700)?;

    // New files of the directory get strips of 4 KiB.
    let striping = Striping { ssize: Some(4096), ..Striping::default() };
    process.set_layout(At::Working, &here, &striping)?;
    let file = process.open(At::Working, &path("array"), OFlags::CREATE | OFlags::RDWR, 0o600)?;
    let Layout::File(placement) = process.layout_open(file)? else { panic!("it is a file") };
    assert!(placement.dist.to_string().contains("4096"), "{}", placement.dist);

    // Rows of 100 bytes, each of its own letter; written and read like any file.
    let rows: Vec<u8> = (0..60).flat_map(|row| [b'A' + row; 100]).collect();
    assert_eq!(process.write(file, &rows)?, 6000);
    assert_eq!(process.seek(file, From::Start, 250)?, 250);
    let mut letters = [0; 100];
    assert_eq!(process.read(file, &mut letters)?, 100);
    assert_eq!((letters[0], letters[99]), (b'C', b'D'));

    // Every second row, as if there were no others.
    let odd = Partition { offset: 100, gsize: 100, stride: 200, ..Partition::default() };
    process.set_view(file, Some(View::new(odd)?))?;
    assert_eq!(process.seek(file, From::End, 0)?, 3000);
    assert_eq!(process.read_at(file, 50, &mut letters)?, 100);
    assert_eq!((letters[0], letters[99]), (b'B', b'D'));
    process.set_view(file, None)?;

    // Column 7, as one request to each iod.
    let column: Vec<Region> = (0..60).map(|row| Region { offset: row * 100 + 7, len: 1 }).collect();
    let mut memory = [0; 60];
    assert_eq!(process.readx(file, &mut [&mut memory], &column)?, 60);
    assert_eq!((memory[0], memory[59]), (b'A', b'A' + 59));
    assert_eq!(process.writex(file, &[&[b'.'; 60]], &column)?, 60);

    // The same file as 10 x 6 blocks of 10 x 10 bytes.
    let mut blocks = Blocks::new(Shape::new(1, &[10, 10], &[10, 6])?);
    let open = Open(process, file);
    blocks.set_buffered(&open, &[10, 1])?;
    let mut block = [0; 100];
    assert_eq!(blocks.read(&open, &[0, 5], &mut block)?, 100);
    assert_eq!((block[6], block[7], block[10]), (b'A' + 50, b'.', b'A' + 51));
    blocks.write(&open, &[9, 0], &[b'x'; 100])?;
    blocks.flush(&open)?;
    assert_eq!(process.read_at(file, 85, &mut letters[..10])?, 10);
    assert_eq!(&letters[..10], b"AAAAAxxxxx");
    process.close(file)?;

    // One open for many processes: the handle is bytes, and nobody is asked for a descriptor of it.
    let (plain, group) = (Striping::default(), Group::default());
    let handle = process.openg(At::Working, &path("array"), OFlags::RDONLY, 0, &plain, group)?;
    let shared = process.openfh(&handle)?;
    assert_eq!(process.read_at(shared, 5999, &mut letters)?, 1);
    process.close(shared)?;
    process.closeg(&handle)?;

    // Names with the attributes that are wanted.
    let directory = process.open(At::Working, &here, OFlags::DIRECTORY, 0)?;
    let mut found = Vec::new();
    process.entries_plus(directory, 100, LiteMask::SIZE, |entry| {
        found.push((entry.name.to_vec(), entry.attr.map(|lite| lite.attr.size)));
        true
    })?;
    process.close(directory)?;
    assert_eq!(found, [(b"array".to_vec(), Ok(6000))]);

    process.unlink(At::Working, &path("array"))?;
    process.remove_directory(At::Working, &here)?;
    println!("calls: done");
    Ok(())
}
