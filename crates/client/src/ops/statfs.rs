//! Space: every iod is asked at once, and those that do not answer in time are named, not waited for.

use std::collections::HashSet;

use pvfs_net::call::{CallError, Patience, Server};
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Operation;
use pvfs_wire::ops::{FilesystemStat, StatStore, Statfs, StoreStat};

use crate::error::Result;
use crate::user::User;

/// The space of a file system, as far as its daemons answered.
#[derive(Clone, Debug)]
pub struct Space {
    /// Figures of the name space; absent when the manager did not answer.
    pub names: Option<FilesystemStat>,
    /// Each iod's space, in order of ids; absent when it did not answer.
    pub iods: Vec<Option<StoreStat>>,
    /// Who did not answer, and why.
    pub unanswered: Vec<Unanswered>,
}

/// A daemon that did not answer.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// Its name.
    pub server: String,
    /// Why.
    pub error: CallError,
}

impl Space {
    /// The space of all iods that answered; a disk that several of them share counts once.
    pub fn total(&self) -> StoreStat {
        let mut counted = HashSet::new();
        let add = |sum: StoreStat, one: &StoreStat| StoreStat {
            disk: 0,
            total_bytes: sum.total_bytes + one.total_bytes,
            free_bytes: sum.free_bytes + one.free_bytes,
            available_bytes: sum.available_bytes + one.available_bytes,
        };
        let disks = self.iods.iter().flatten();
        disks
            .filter(|stat| stat.disk == 0 || counted.insert(stat.disk))
            .fold(StoreStat::default(), add)
    }
}

impl<R: Runtime> User<R> {
    /// statfs: answered within the time for status, by whoever can be reached.
    pub async fn statfs(&self) -> Space {
        self.statfs_without(|_| false).await
    }

    /// The like for who knows that some do not answer: these are not asked.
    pub async fn statfs_without(&self, is_silent: impl Fn(&Server<R>) -> bool) -> Space {
        let is_silent = &is_silent;
        let iods = self.filesystem.iods().iter();
        let iods = all(iods.map(|iod| self.inquire_unless(is_silent, iod, &StatStore {})));
        let mut both = std::pin::pin!(iods);
        let manager = self.filesystem.manager();
        let mut names = std::pin::pin!(self.inquire_unless(is_silent, manager, &Statfs {}));
        let (names, iods) = pair(names.as_mut(), both.as_mut()).await;
        let mut unanswered = Vec::new();
        let mut note = |server: &Server<R>, error: CallError| {
            unanswered.push(Unanswered { server: server.name().into(), error });
        };
        let names = names.map_err(|error| note(self.filesystem.manager(), error)).ok();
        let servers = self.filesystem.iods().iter();
        let iods = servers
            .zip(iods)
            .map(|(server, stat)| stat.map_err(|error| note(server, error)).ok())
            .collect();
        Space { names, iods, unanswered }
    }

    async fn inquire_unless<O: Operation>(
        &self,
        is_silent: impl Fn(&Server<R>) -> bool,
        server: &Server<R>,
        request: &O,
    ) -> std::result::Result<O::Reply, CallError> {
        if is_silent(server) {
            let reason = "it has not answered lately".into();
            return Err(CallError::Unreachable { server: server.name().into(), reason });
        }
        self.inquire(server, request).await
    }

    /// Asks one daemon, within the time for status.
    pub async fn inquire<O: Operation>(
        &self,
        server: &Server<R>,
        request: &O,
    ) -> std::result::Result<O::Reply, CallError> {
        self.inquire_within(server, request, self.filesystem.status_patience()).await
    }

    /// Asks one daemon, within a time of the caller's choice.
    pub async fn inquire_within<O: Operation>(
        &self,
        server: &Server<R>,
        request: &O,
        patience: Patience,
    ) -> std::result::Result<O::Reply, CallError> {
        self.filesystem.caller().call(server, &self.principal, request, patience).await
    }

    /// Figures of the name space.
    pub async fn statfs_names(&self) -> Result<FilesystemStat> {
        self.ask(&Statfs {}).await
    }
}

/// Both, side by side.
async fn pair<A: Future + Unpin, B: Future + Unpin>(mut a: A, mut b: B) -> (A::Output, B::Output) {
    let (mut left, mut right) = (None, None);
    std::future::poll_fn(|cx| {
        use std::task::Poll;
        if left.is_none()
            && let Poll::Ready(output) = std::pin::Pin::new(&mut a).poll(cx)
        {
            left = Some(output);
        }
        if right.is_none()
            && let Poll::Ready(output) = std::pin::Pin::new(&mut b).poll(cx)
        {
            right = Some(output);
        }
        if left.is_some() && right.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (left.expect("both are done"), right.expect("both are done"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(disk: u64, total_bytes: u64) -> Option<StoreStat> {
        Some(StoreStat { disk, total_bytes, free_bytes: total_bytes / 2, available_bytes: 1 })
    }

    #[test]
    fn a_disk_that_iods_share_counts_once() {
        let iods = vec![stat(7, 100), stat(7, 101), None, stat(8, 1000), stat(0, 5), stat(0, 5)];
        let space = Space { names: None, iods, unanswered: Vec::new() };
        let total = space.total();
        assert_eq!((total.total_bytes, total.free_bytes, total.available_bytes), (1110, 554, 4));
    }
}
