//! Files on a mount, and what clients do with them.

use super::{Case, Way};
use crate::bench::crew::{Job, Next};
use crate::bench::error::{Doing, Error, Result};
use crate::bench::io::Transfer;
use crate::bench::testbed::Testbed;
use pvfs_client::{Transport, block_on};
use pvfs_fuse::mapped::Mapped;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use rustix::fs::{Advice, OFlags, fadvise};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Writes a file for each client.
pub fn prepare(directory: &Path, clients: u32) -> Result<()> {
    let buffer = vec![7; TRANSFER_BYTES as usize];
    for client in 0..clients {
        let file = File::create(path(directory, client)).doing("create a file on a mount")?;
        for offset in (0..FILE_BYTES).step_by(buffer.len()) {
            file.write_all_at(&buffer, offset).doing("write a file on a mount")?;
        }
    }
    Ok(())
}

/// What one client does.
pub fn job(directory: &Path, case: &Case, client: u32) -> Result<Job> {
    let file = open(&path(directory, client), case)?;
    if case.way == Way::Mapped {
        return Ok(mapped_job(file));
    }
    let bytes = operation_bytes(case);
    let mut buffer = vec![7; bytes as usize];
    let (transfer, mut at) = (case.transfer, 0);
    Ok(Box::new(move || {
        match transfer {
            Transfer::Read => file.read_exact_at(&mut buffer, at).doing("read on a mount")?,
            Transfer::Write => file.write_all_at(&buffer, at).doing("write on a mount")?,
        }
        at = (at + bytes) % FILE_BYTES;
        if at == 0 {
            // Another pass over pages that the kernel still has would not reach the mount at all.
            fadvise(&file, 0, None, Advice::DontNeed).doing("drop cached pages")?;
        }
        Ok(Next::Done)
    }))
}

/// Copies the file out of a map, and maps it anew for each pass: pages that are mapped cannot be dropped.
fn mapped_job(file: File) -> Job {
    let mut buffer = vec![7; TRANSFER_BYTES as usize];
    let mut pass: Option<(Mapped, u64)> = None;
    Box::new(move || {
        let (map, at) = match pass.take() {
            Some(under_way) => under_way,
            None => {
                fadvise(&file, 0, None, Advice::DontNeed).doing("drop cached pages")?;
                (Mapped::new(&file, FILE_BYTES as usize).doing("map a file on a mount")?, 0)
            }
        };
        map.read_at(at as usize, &mut buffer);
        let next = at + TRANSFER_BYTES;
        pass = (next < FILE_BYTES).then_some((map, next));
        Ok(Next::Done)
    })
}

/// Reads the same file without a mount.
pub fn library_job(testbed: &Testbed, client: u32) -> Result<Job> {
    let user = testbed.client(Transport::Tcp)?;
    let root = block_on(user.root()).doing("find the root")?;
    let target = Target::below(root, format!("{}/{}", testbed.home(), name(client)));
    let opened = user.open_regular(target, OpenFlags::READ, 0, Striping::default());
    let file = block_on(opened).doing("open a file")?;
    let mut buffer = vec![7; TRANSFER_BYTES as usize];
    let mut at = 0;
    Ok(Box::new(move || {
        let got = block_on(user.read_at(&file, at, &mut buffer)).doing("read")?;
        if got < buffer.len() {
            return Err(Error::Wrong(format!("a read within the file gave {got} bytes")));
        }
        at = (at + TRANSFER_BYTES) % FILE_BYTES;
        Ok(Next::Done)
    }))
}

/// Bytes of one operation of a client.
pub fn operation_bytes(case: &Case) -> u64 {
    if case.way == Way::Pieces { PIECE_BYTES } else { TRANSFER_BYTES }
}

fn open(path: &Path, case: &Case) -> Result<File> {
    let mut options = OpenOptions::new();
    match case.transfer {
        Transfer::Read => options.read(true),
        Transfer::Write => options.write(true),
    };
    if case.way == Way::Direct {
        options.custom_flags(OFlags::DIRECT.bits() as i32);
    }
    let file = options.open(path).doing("open a file on a mount")?;
    fadvise(&file, 0, None, Advice::DontNeed).doing("drop cached pages")?;
    Ok(file)
}

fn path(directory: &Path, client: u32) -> PathBuf {
    directory.join(name(client))
}

fn name(client: u32) -> String {
    format!("mounted-{client}")
}

/// Bytes of one operation, and of the largest request that a mount is given.
pub const TRANSFER_BYTES: u64 = 1 << 20;

/// What cp reads at once.
const PIECE_BYTES: u64 = 128 << 10;

const FILE_BYTES: u64 = 64 << 20;
