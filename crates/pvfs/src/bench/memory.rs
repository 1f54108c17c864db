//! Memory of the daemons: what a million files cost a manager, and a thousand connections an iod.
//!
//! Resident memory as the kernel counts it, growth only. Sockets' own buffers are the kernel's and not in it.

use super::cpu::resident_bytes;
use super::error::{Doing, Result};
use super::row::{Bar, Detail, Row};
use super::testbed::Testbed;
use pvfs_client::{Blocking, OpenFile, Transport, User, block_on};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

/// How much the manager grows while something is done; `None` when its process is not known.
pub fn growth(testbed: &Testbed, work: impl FnOnce() -> Result<()>) -> Result<Option<u64>> {
    let manager = testbed.daemon_pids().first().copied();
    let before = manager.and_then(resident_bytes);
    work()?;
    let after = manager.and_then(resident_bytes);
    Ok(before.zip(after).map(|(before, after)| after.saturating_sub(before)))
}

/// The row for a manager that grew by so much with so many files.
pub fn per_million_files(bytes: u64, files: u64) -> Row {
    row(PER_MILLION_FILES, bytes as f64 * 1e6 / files as f64)
}

/// What connections cost: each client reads a block of a file, so that one iod serves them all.
pub fn connections(testbed: &Testbed) -> Result<Vec<Row>> {
    let pids = testbed.daemon_pids();
    let [manager, iod, ..] = *pids else { return Ok(Vec::new()) };
    let directory = testbed.directory("connections")?;
    let first = testbed.client(Transport::Tcp)?;
    let file = read_a_block(&first, Target::below(directory, "file"), true)?;
    block_on(first.write_at(&file, 0, &[7; BLOCK_BYTES], false)).doing("write a block")?;
    let before = (resident_bytes(manager), resident_bytes(iod));
    let mut held = Vec::with_capacity(CONNECTIONS as usize);
    for _ in 0..CONNECTIONS {
        let user = testbed.client(Transport::Tcp)?;
        let file = read_a_block(&user, Target::below(directory, "file"), false)?;
        held.push((user, file));
    }
    let grown = |before: Option<u64>, pid| {
        before.zip(resident_bytes(pid)).map(|(before, after)| after.saturating_sub(before))
    };
    let (manager, iod) = (grown(before.0, manager), grown(before.1, iod));
    drop(held);
    let rows = [(IOD_CONNECTIONS, iod), (MANAGER_CONNECTIONS, manager)];
    Ok(rows.into_iter().filter_map(|(name, bytes)| Some(row(name, bytes? as f64))).collect())
}

fn read_a_block(user: &User<Blocking>, target: Target, create: bool) -> Result<OpenFile> {
    let flags = OpenFlags::READ
        | OpenFlags::WRITE
        | if create { OpenFlags::CREATE } else { OpenFlags::default() };
    let striping = Striping { base: Some(0), ..Striping::default() };
    let file = block_on(user.open_regular(target, flags, 0o600, striping)).doing("open a file")?;
    block_on(user.read_at(&file, 0, &mut [0; BLOCK_BYTES])).doing("read a block")?;
    Ok(file)
}

fn row(name: &str, bytes: f64) -> Row {
    let value = bytes / (1 << 20) as f64;
    let detail = Detail { bar: Bar::None, values: vec![value], ..Detail::default() };
    Row {
        name: name.into(),
        value,
        unit: "MiB",
        limit: None,
        ratio: None,
        cpu_s_per_gib: None,
        detail,
    }
}

/// The names of the rows.
pub const ROWS: [&str; 3] = [IOD_CONNECTIONS, MANAGER_CONNECTIONS, PER_MILLION_FILES];

const PER_MILLION_FILES: &str = "manager memory per million files";
const IOD_CONNECTIONS: &str = "iod memory per 1,000 connections";
const MANAGER_CONNECTIONS: &str = "manager memory per 1,000 connections";

const CONNECTIONS: u32 = 1000;
const BLOCK_BYTES: usize = 4096;
