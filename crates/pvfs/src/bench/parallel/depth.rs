//! Small transfers by one thread: sixteen on the way, or one.

use super::{call_against_loop, timed};
use crate::bench::Effort;
use crate::bench::compare::Subject;
use crate::bench::error::{Doing, Error, Result};
use crate::bench::row::Row;
use crate::bench::testbed::Testbed;
use pvfs_client::{Blocking, OpenFile, Outcome, Queue, Transport, User, block_on};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use std::sync::Arc;

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    writes: bool,
}

impl Case {
    pub fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().map(|writes| Self { writes })
    }

    pub fn name(self) -> String {
        let transfer = if self.writes { "write" } else { "read" };
        format!("{transfer} 4 KiB {DEPTH} outstanding")
    }

    pub fn measure(self, testbed: &Testbed, effort: &Effort, subject: Subject) -> Result<Row> {
        let user = testbed.client(Transport::Tcp)?;
        let file = Arc::new(self.file(testbed, &user)?);
        let row = call_against_loop(
            testbed,
            effort,
            subject,
            COUNT as u64 * BYTES as u64,
            || timed(|| self.at_once(&user, &file, DEPTH)),
            || timed(|| self.at_once(&user, &file, 1)),
        );
        let file = Arc::into_inner(file).expect("no operation is on the way");
        block_on(user.close(file)).doing("close a file")?;
        row
    }

    fn file(self, testbed: &Testbed, user: &User<Blocking>) -> Result<OpenFile> {
        let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
        let name = format!("{}/{}", testbed.home(), self.name());
        block_on(async {
            let name = Target::below(user.root().await?, name);
            let file = user.open_regular(name, flags, 0o600, Striping::default()).await?;
            user.write_at(&file, 0, &vec![1; COUNT * BYTES], false).await?;
            pvfs_client::Result::Ok(file)
        })
        .doing("make a file")
    }

    /// Moves all of the file, so many pieces at once, in an order that wanders over the iods.
    fn at_once(self, user: &User<Blocking>, file: &Arc<OpenFile>, depth: usize) -> Result<()> {
        let mut memory = vec![0; COUNT * BYTES];
        let mut pieces = memory.chunks_mut(BYTES).enumerate();
        let mut queue = Queue::new(user).doing("make a queue")?;
        let mut ended = 0;
        while ended < COUNT {
            while queue.len() < depth
                && let Some((at, piece)) = pieces.next()
            {
                let offset = (at * STEP % COUNT * BYTES) as u64;
                if self.writes {
                    queue.write(file, offset, piece, false);
                } else {
                    queue.read(file, offset, piece);
                }
            }
            for (_, outcome) in queue.wait_some(depth, None) {
                match outcome.doing("move a piece")? {
                    Outcome::Bytes(bytes) if bytes == BYTES as u64 => ended += 1,
                    other => return Err(Error::Wrong(format!("a piece ended with {other:?}"))),
                }
            }
        }
        Ok(())
    }
}

const DEPTH: usize = 16;
const BYTES: usize = 4096;
const COUNT: usize = 1024;

/// Without a common divisor with `COUNT`: 27 strips of sixteen pieces apart, and one piece.
const STEP: usize = 433;
