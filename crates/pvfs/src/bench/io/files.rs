//! The files that clients read and write, written once on both sides before anything is timed.

use crate::bench::error::{Doing, Result};
use crate::bench::io::{Sharing, Transfer};
use crate::bench::limit::Medium;
use crate::bench::limit::client::Client;
use crate::bench::testbed::Testbed;
use pvfs_client::{Blocking, OpenFile, Transport, User, block_on};
use pvfs_wire::Handle;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

/// Files of the same sizes in the file system and at the bare servers.
pub struct Files {
    directory: Handle,
}

impl Files {
    /// One to share, and one for each client.
    pub fn prepare(testbed: &Testbed, clients: u32) -> Result<Self> {
        let files = Self { directory: testbed.directory("io")? };
        let user = testbed.client(Transport::Tcp)?;
        let mut bare =
            Client::connect(testbed.bare(Transport::Tcp), testbed.strip_bytes(), Medium::File)
                .doing("connect to the bare servers")?;
        let mut buffer = content();
        for number in 0..=clients {
            let file = files.open(&user, number)?;
            for offset in (0..FILE_BYTES).step_by(buffer.len()) {
                block_on(user.write_at(&file, offset, &buffer, false)).doing("write a file")?;
                bare.transfer(Transfer::Write, number, offset, &mut buffer)
                    .doing("write a bare file")?;
            }
            block_on(user.close(file)).doing("close a file")?;
        }
        Ok(files)
    }

    /// Opens a file, created if need be, whose first strip is on the first iod as on the first bare server.
    pub fn open(&self, user: &User<Blocking>, number: u32) -> Result<OpenFile> {
        let target = Target::below(self.directory, number.to_string());
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
        let striping = Striping { base: Some(0), ..Striping::default() };
        block_on(user.open_regular(target, flags, 0o600, striping)).doing("open a file")
    }
}

/// The number of the file that a client uses.
pub fn number(client: u32, sharing: Sharing) -> u32 {
    if sharing == Sharing::Shared { 0 } else { client + 1 }
}

/// Something that is not all zeros.
fn content() -> Vec<u8> {
    (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Large enough to spread over the processor's caches as data of a real job would.
pub const FILE_BYTES: u64 = 64 << 20;
