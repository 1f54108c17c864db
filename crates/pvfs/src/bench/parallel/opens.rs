//! A file opened by ninety clients: each for itself, or once for all (paper 003, figure 3).

use super::{call_against_loop, timed};
use crate::bench::Effort;
use crate::bench::compare::Subject;
use crate::bench::error::{Doing, Result};
use crate::bench::row::Row;
use crate::bench::testbed::Testbed;
use pvfs_client::{Blocking, Group, OpenFile, Transport, User, block_on};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use std::time::Duration;

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    /// Directories above the file, below our own.
    depth: u32,
    /// Whether the file is there yet.
    creates: bool,
}

impl Case {
    pub fn all() -> impl Iterator<Item = Self> {
        let existing = [0, 8].map(|depth| Self { depth, creates: false });
        existing.into_iter().chain([0, 8].map(|depth| Self { depth, creates: true }))
    }

    pub fn name(self) -> String {
        let purpose = if self.creates { "create" } else { "open" };
        format!("openg {CLIENTS} clients {purpose} depth {}", self.depth)
    }

    pub fn times(self) -> f64 {
        match (self.creates, self.depth) {
            (true, _) => 6.0,
            (false, 0) => 15.0,
            (false, _) => 12.0,
        }
    }

    pub fn measure(self, testbed: &Testbed, effort: &Effort, subject: Subject) -> Result<Row> {
        let path = self.make(testbed)?;
        let clients = (0..CLIENTS).map(|_| testbed.client(Transport::Tcp));
        let clients: Vec<User<Blocking>> = clients.collect::<Result<_>>()?;
        let root = block_on(clients[0].root()).doing("find the root")?;
        let name = |number: u64| match self.creates {
            true => Target::below(root, format!("{path}-{number}")),
            false => Target::below(root, &path),
        };
        // A name of its own for each turn of a create, so that it does create.
        let (mut even, mut odd) = (0, 1);
        call_against_loop(
            testbed,
            effort,
            subject,
            0,
            || {
                even += 2;
                self.together(&clients, &name(even))
            },
            || {
                odd += 2;
                self.each(&clients, &name(odd))
            },
        )
    }

    /// The file, unless it is to be created, and the directories above it.
    fn make(self, testbed: &Testbed) -> Result<String> {
        let user = testbed.client(Transport::Tcp)?;
        let mut path = format!("{}/openg-{}-{}", testbed.home(), self.depth, self.creates);
        let root = block_on(user.root()).doing("find the root")?;
        for level in 0..self.depth {
            let made = block_on(user.mkdir(Target::below(root, &path), 0o700));
            made.doing("make a directory")?;
            path = format!("{path}/{level}");
        }
        if !self.creates {
            let (target, striping) = (Target::below(root, &path), Striping::default());
            let file = block_on(user.open_regular(target, NEW, 0o600, striping));
            block_on(user.close(file.doing("make a file")?)).doing("close a file")?;
        }
        Ok(path)
    }

    fn flags(self) -> OpenFlags {
        if self.creates { NEW } else { OpenFlags::READ }
    }

    /// What counts ends when everybody has the file open.
    fn together(self, clients: &[User<Blocking>], name: &Target) -> Result<Duration> {
        let opener = &clients[0];
        let mut handle = Vec::new();
        let time = timed(|| {
            let (striping, group) = (Striping::default(), Group::default());
            let opened = opener.openg(name.clone(), self.flags(), 0o600, striping, group);
            handle = block_on(opened).doing("open a file for all")?.handle;
            let opened = clients.iter().map(|client| client.openfh(&handle));
            opened.collect::<pvfs_client::Result<Vec<OpenFile>>>().doing("use a group handle")
        })?;
        block_on(opener.closeg(&handle)).doing("close a file for all")?;
        Ok(time)
    }

    fn each(self, clients: &[User<Blocking>], name: &Target) -> Result<Duration> {
        let mut files = Vec::new();
        let time = timed(|| {
            for client in clients {
                let opened =
                    client.open_regular(name.clone(), self.flags(), 0o600, Striping::default());
                files.push(block_on(opened).doing("open a file")?);
            }
            Ok(())
        })?;
        for (client, file) in clients.iter().zip(files) {
            block_on(client.close(file)).doing("close a file")?;
        }
        Ok(time)
    }
}

const CLIENTS: usize = 90;
const NEW: OpenFlags = OpenFlags::CREATE.with(OpenFlags::READ).with(OpenFlags::WRITE);
