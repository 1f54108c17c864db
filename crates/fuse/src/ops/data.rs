//! Moving data. These requests may wait for iods, so a thread of the kernel's queue carries one out only
//! while enough others are left; see [`crate::workers`].

use std::sync::Arc;

use pvfs_client::{Error, Result};
use pvfs_net::buffer::Buffer;
use pvfs_net::call::CallError;
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, Time};
use pvfs_wire::ops::Target;

use crate::attributes::is_silence;
use crate::handles::OpenEntry;
use crate::identity::Requester;
use crate::mounted::{Mounted, wait};
use crate::protocol::FileHandle;

/// One read or write of an open file.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Who waits for it.
    pub requester: Requester,
    /// The open file.
    pub number: FileHandle,
    /// Where it begins.
    pub offset: u64,
    /// It goes to stable storage (O_SYNC set after the open).
    pub sync: bool,
    /// Pages of a mapping, which go where they came from.
    pub mapped: bool,
    /// The writer may not keep a setuid program setuid.
    pub kill_privileges: bool,
}

impl Mounted {
    /// Carries out a request that may wait for iods, here or in the pool.
    pub fn with_data(self: &Arc<Self>, request: impl FnOnce(&Arc<Self>) + Send + 'static) {
        if let Some(_inline) = self.data.inline() {
            return request(self);
        }
        let mounted = self.clone();
        self.data.spawn(move || request(&mounted));
    }

    /// Reads up to `bytes` bytes; fewer only at the end of the file.
    pub fn read(&self, transfer: Transfer, bytes: u32) -> Result<Buffer> {
        let entry = self.files.get(transfer.number)?;
        let range = transfer.offset..transfer.offset + u64::from(bytes);
        if let Some(error) = entry.has_just_failed(&range) {
            return Err(error);
        }
        let mut buffer = self.buffers.take(bytes as usize);
        let read = entry.user.read_at(&entry.file, transfer.offset, &mut buffer);
        let got = wait(transfer.requester.pid, read).inspect_err(|error| {
            say_failed("reading", entry.node, error);
            if matches!(error, Error::Call(CallError::Timeout { .. })) {
                entry.note_unanswered(range, error);
            }
        })?;
        buffer.truncate(got);
        Ok(buffer)
    }

    /// Writes all of `data`, or fails.
    pub fn write(&self, transfer: Transfer, data: &[u8]) -> Result<()> {
        let entry = self.files.get(transfer.number)?;
        if transfer.kill_privileges {
            self.kill_privileges(&entry)?;
        }
        let sync = entry.sync || transfer.sync;
        let written = wait(transfer.requester.pid, async {
            if entry.append && !transfer.mapped {
                return entry.user.append(&entry.file, data, sync).await;
            }
            let place = transfer.offset;
            let written = entry.user.write_in_place(&entry.file, place, data, sync).await;
            written.map(|()| transfer.offset)
        });
        if written.as_ref().is_err_and(|error| error.errno() == Errno::EINTR) {
            let end = transfer.offset + data.len() as u64;
            entry.file.abandoned_write(end, Time::from_nanos(0));
        }
        if let Err(error) = &written {
            say_failed("writing", entry.node, error);
            // Some of it may have arrived, or may yet.
            self.nodes.doubt_pages(entry.node);
        }
        let end = written? + data.len() as u64;
        self.nodes.wrote(entry.node, end, entry.file.last_write());
        Ok(())
    }

    /// fsync(2)
    pub fn fsync(&self, requester: Requester, number: FileHandle) -> Result<()> {
        let entry = self.files.get(number)?;
        let synced = wait(requester.pid, entry.user.sync(&entry.file));
        synced.inspect_err(|error| say_failed("syncing", entry.node, error))
    }

    /// fsync(2) of a directory
    pub fn fsync_names(&self, requester: Requester) -> Result<()> {
        self.act(requester, |user| async move { user.sync_names().await })
    }

    /// truncate(2), and ftruncate(2) when there is an open file.
    pub fn resize(
        &self,
        requester: Requester,
        node: u64,
        number: Option<FileHandle>,
        size: u64,
    ) -> Result<Attr> {
        let handle = self.nodes.handle(node)?;
        let cut = match number.map(|number| self.files.get(number)).transpose()? {
            Some(entry) => wait(requester.pid, entry.user.truncate_file(&entry.file, size)),
            None => self.act(requester, |user| async move {
                user.truncate(Target::object(handle), false, size).await
            }),
        };
        Ok(self.nodes.seen(cut?))
    }

    /// A file that somebody else than its owner writes is not setuid any more. Only the owner may say so.
    fn kill_privileges(&self, entry: &OpenEntry) -> Result<()> {
        if !has_privileges(self.nodes.mode(entry.node)) {
            return Ok(());
        }
        let attr = wait(0, entry.user.stat_lite(Target::object(entry.file.handle), false))?;
        if !has_privileges(attr.mode) {
            return Ok(());
        }
        let owner = Requester { uid: attr.uid, gid: attr.gid, pid: 0 };
        let mode = Some(without_privileges(attr.mode));
        let changes = super::Changes { mode, ..Default::default() };
        self.setattr(owner, entry.node, changes).map(|_| ())
    }
}

/// The program is told EIO; who looks for the reason looks here.
fn say_failed(action: &str, node: u64, error: &Error) {
    if is_silence(error) || error.errno() == Errno::EIO {
        tracing::warn!("{action} object {node} failed: {error}");
    }
}

fn has_privileges(mode: u32) -> bool {
    without_privileges(mode) != mode
}

/// Without setuid; without setgid too, unless that means mandatory locking (no execution by the group).
fn without_privileges(mode: u32) -> u32 {
    let setgid = if mode & 0o010 != 0 { 0o2000 } else { 0 };
    mode & !(0o4000 | setgid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_gives_privileges_is_taken() {
        assert_eq!(without_privileges(0o6755), 0o755);
        assert_eq!(without_privileges(0o2745), 0o2745);
        assert_eq!(without_privileges(0o1777), 0o1777);
        assert!(has_privileges(0o4644) && !has_privileges(0o755));
    }
}
