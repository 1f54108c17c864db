//! Noncontiguous transfers: a column of an array, and sixteen large blocks (paper 003, figures 5 and 6).

use super::{call_against_loop, timed};
use crate::bench::Effort;
use crate::bench::compare::Subject;
use crate::bench::error::{Doing, Error, Result};
use crate::bench::row::Row;
use crate::bench::testbed::Testbed;
use pvfs_client::{Blocking, OpenFile, Region, Transport, User, block_on};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    writes: bool,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shape {
    /// One element of this size in each row of an array.
    Column(u64),
    /// So many bytes, sixteen times.
    Blocks(u64),
}

impl Case {
    pub fn all() -> impl Iterator<Item = Self> {
        let shapes = [
            Shape::Column(64),
            Shape::Column(1 << 10),
            Shape::Column(4 << 10),
            Shape::Blocks(256 << 10),
            Shape::Blocks(1 << 20),
            Shape::Blocks(4 << 20),
        ];
        shapes.into_iter().flat_map(|shape| [false, true].map(|writes| Self { writes, shape }))
    }

    pub fn name(self) -> String {
        let call = if self.writes { "writex" } else { "readx" };
        match self.shape {
            Shape::Column(bytes) => format!("{call} {bytes} B column of {ROWS} rows"),
            Shape::Blocks(bytes) => format!("{call} 16 regions of {} KiB", bytes >> 10),
        }
    }

    pub fn is_quick(self) -> bool {
        matches!(self.shape, Shape::Column(64 | 4096) | Shape::Blocks(262_144))
    }

    /// A call that is a loop's equal in all else saves the loop's round trips, so it must not be slower.
    pub fn times(self) -> f64 {
        match self.shape {
            Shape::Column(_) => 10.0,
            Shape::Blocks(_) => 1.0,
        }
    }

    fn regions(self) -> Vec<Region> {
        match self.shape {
            Shape::Column(len) => {
                (0..ROWS).map(|row| Region { offset: row * ROW_BYTES + 8192, len }).collect()
            }
            Shape::Blocks(len) => (0..16).map(|at| Region { offset: at * 2 * len, len }).collect(),
        }
    }

    pub fn measure(self, testbed: &Testbed, effort: &Effort, subject: Subject) -> Result<Row> {
        let user = testbed.client(Transport::Tcp)?;
        let regions = self.regions();
        let bytes: u64 = regions.iter().map(|region| region.len).sum();
        let mut memory = vec![1; bytes as usize];
        let file = self.file(testbed, &user, &regions, &memory)?;
        let mut other = memory.clone();
        let row = call_against_loop(
            testbed,
            effort,
            subject,
            bytes,
            || timed(|| self.call(&user, &file, &regions, &mut memory)),
            || timed(|| self.one_by_one(&user, &file, &regions, &mut other)),
        );
        block_on(user.close(file)).doing("close a file")?;
        row
    }

    /// A file whose pages have all been touched.
    fn file(
        self,
        testbed: &Testbed,
        user: &User<Blocking>,
        regions: &[Region],
        memory: &[u8],
    ) -> Result<OpenFile> {
        let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
        let name = format!("{}/{}", testbed.home(), self.name());
        block_on(async {
            let name = Target::below(user.root().await?, name);
            let file = user.open_regular(name, flags, 0o600, Striping::default()).await?;
            user.writex(&file, &[memory], regions, false).await?;
            pvfs_client::Result::Ok(file)
        })
        .doing("make a file")
    }

    fn call(
        self,
        user: &User<Blocking>,
        file: &OpenFile,
        regions: &[Region],
        memory: &mut [u8],
    ) -> Result<()> {
        let bytes = memory.len() as u64;
        let moved = match self.writes {
            true => block_on(user.writex(file, &[memory], regions, false)),
            false => block_on(user.readx(file, &mut [memory], regions)),
        };
        whole(moved.doing("move regions")?, bytes)
    }

    fn one_by_one(
        self,
        user: &User<Blocking>,
        file: &OpenFile,
        regions: &[Region],
        memory: &mut [u8],
    ) -> Result<()> {
        let mut rest = memory;
        for region in regions {
            let (piece, others) = rest.split_at_mut(region.len as usize);
            rest = others;
            let moved = match self.writes {
                true => {
                    let written = block_on(user.write_at(file, region.offset, piece, false));
                    written.map(|()| region.len)
                }
                false => block_on(user.read_at(file, region.offset, piece)).map(|got| got as u64),
            };
            whole(moved.doing("move a region")?, region.len)?;
        }
        Ok(())
    }
}

fn whole(moved: u64, wanted: u64) -> Result<()> {
    match moved == wanted {
        true => Ok(()),
        false => Err(Error::Wrong(format!("{moved} of {wanted} bytes were moved"))),
    }
}

const ROWS: u64 = 1024;

/// Not a multiple of the strip size, so that the column is on all iods.
const ROW_BYTES: u64 = 72 << 10;
