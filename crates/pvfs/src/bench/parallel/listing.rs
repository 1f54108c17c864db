//! A directory with the attributes of its files: in one go, or file by file (paper 003, table 1).

use super::{call_against_loop, timed};
use crate::bench::Effort;
use crate::bench::compare::Subject;
use crate::bench::error::{Doing, Error, Result};
use crate::bench::row::Row;
use crate::bench::testbed::Testbed;
use pvfs_client::{Blocking, LiteMask, PlusEntry, Transport, User, block_on};
use pvfs_wire::Handle;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::Target;

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// All attributes.
    Plus,
    /// All but sizes.
    Lite,
}

impl Case {
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Plus, Self::Lite].into_iter()
    }

    pub fn name(self) -> String {
        let call = if self == Self::Lite { "getdents_plus_lite" } else { "getdents_plus" };
        format!("{call} of {FILES} files")
    }

    pub fn measure(self, testbed: &Testbed, effort: &Effort, subject: Subject) -> Result<Row> {
        let user = testbed.client(Transport::Tcp)?;
        let directory = testbed.directory(&format!("{self:?}"))?;
        block_on(fill(&user, directory)).doing("make files")?;
        call_against_loop(
            testbed,
            effort,
            subject,
            0,
            || timed(|| complete(block_on(self.call(&user, directory)))),
            || timed(|| complete(block_on(self.one_by_one(&user, directory)))),
        )
    }

    async fn call(self, user: &User<Blocking>, directory: Handle) -> pvfs_client::Result<usize> {
        let (mut cookie, mut count) = (0, 0);
        loop {
            let page = match self {
                Self::Plus => user.getdents_plus(directory, cookie, u32::MAX).await?,
                Self::Lite => {
                    let mask = LiteMask::ATIME;
                    user.getdents_plus_lite(directory, cookie, u32::MAX, mask).await?
                }
            };
            count += page.entries.iter().filter(|entry| entry.attr.is_ok()).count();
            match page.entries.last() {
                Some(PlusEntry { cookie: last, .. }) if !page.end => cookie = *last,
                _ => return Ok(count),
            }
        }
    }

    async fn one_by_one(
        self,
        user: &User<Blocking>,
        directory: Handle,
    ) -> pvfs_client::Result<usize> {
        let entries = user.list(directory, false).await?;
        for entry in &entries {
            let target = Target::below(directory, &entry.name.0);
            match self {
                Self::Plus => user.stat(target, false).await.map(drop)?,
                Self::Lite => user.statlite(target, false, LiteMask::ATIME).await.map(drop)?,
            }
        }
        Ok(entries.len())
    }
}

async fn fill(user: &User<Blocking>, directory: Handle) -> pvfs_client::Result<()> {
    for number in 0..FILES {
        let target = Target::below(directory, format!("file-{number}"));
        user.mknod(target, FileKind::Regular, 0o600, 0).await?;
    }
    Ok(())
}

fn complete(count: pvfs_client::Result<usize>) -> Result<()> {
    match count.doing("list a directory")? {
        FILES => Ok(()),
        count => Err(Error::Wrong(format!("a listing had {count} of {FILES} entries"))),
    }
}

const FILES: usize = 5000;
