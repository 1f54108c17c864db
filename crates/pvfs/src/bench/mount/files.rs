//! Files on a mount, and what clients do with them.

use super::{Case, Way};
use crate::bench::crew::{Job, Next};
use crate::bench::error::{Doing, Result};
use crate::bench::io::Transfer;
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
    let mut buffer = vec![7; TRANSFER_BYTES as usize];
    let (transfer, mut at) = (case.transfer, 0);
    Ok(Box::new(move || {
        match transfer {
            Transfer::Read => file.read_exact_at(&mut buffer, at).doing("read on a mount")?,
            Transfer::Write => file.write_all_at(&buffer, at).doing("write on a mount")?,
        }
        at = (at + TRANSFER_BYTES) % FILE_BYTES;
        if at == 0 {
            // Another pass over pages that the kernel still has would not reach the mount at all.
            fadvise(&file, 0, None, Advice::DontNeed).doing("drop cached pages")?;
        }
        Ok(Next::Done)
    }))
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
    directory.join(format!("mounted-{client}"))
}

/// Bytes of one operation, and of the largest request that a mount is given.
pub const TRANSFER_BYTES: u64 = 1 << 20;

const FILE_BYTES: u64 = 64 << 20;
