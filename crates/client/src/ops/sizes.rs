//! Sizes asked from the iods, for files that somebody is writing.

use pvfs_net::call::{CallError, Patience};
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Handle;
use pvfs_wire::attr::{Attr, FileKind, Placement, SizeState, Time};
use pvfs_wire::ops::{OBJECTS_MAX, ObjectStat, ObjectStats, Settle, StatObjects, Stated};

use super::cached::object;
use crate::error::Result;
use crate::progress::Progress;
use crate::user::User;
use crate::writers::Asked;

/// What the iods know of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct DataStat {
    /// Size of the file.
    pub size: u64,
    /// Bytes of disk it takes.
    pub disk_bytes: u64,
    /// Last write.
    pub mtime: Time,
}

/// The attributes of an object as far as they are known without its iods.
pub(super) struct Known {
    pub attr: Attr,
    /// Where to ask for the size, if it is not known.
    pub placement: Option<Placement>,
    /// What this client has written, if only it may be writing.
    pub progress: Option<Progress>,
}

impl<R: Runtime> User<R> {
    /// Asks every iod of the file, and waits for one that is away as for its data: what is read or written next depends
    /// on the answer.
    pub async fn size_by_iods(&self, handle: Handle, placement: &Placement) -> Result<DataStat> {
        self.size_within(handle, placement, self.filesystem.data_patience()).await
    }

    /// The like for who only looks: an iod that does not answer soon fails the question.
    pub(super) async fn size_shown(
        &self,
        handle: Handle,
        placement: &Placement,
    ) -> Result<DataStat> {
        self.size_within(handle, placement, self.filesystem.status_patience()).await
    }

    async fn size_within(
        &self,
        handle: Handle,
        placement: &Placement,
        patience: Patience,
    ) -> Result<DataStat> {
        let files = [(handle, placement)];
        let mut stats = self.sizes_within(&files, patience).await;
        stats.pop().expect("one answer for one file")
    }

    /// Asks each iod once for all the files it holds, for a listing; at most one message per iod and
    /// [`OBJECTS_MAX`] files. A file fails alone when one of its iods does not answer.
    pub async fn sizes_by_iods(&self, files: &[(Handle, &Placement)]) -> Vec<Result<DataStat>> {
        self.sizes_within(files, self.filesystem.status_patience()).await
    }

    async fn sizes_within(
        &self,
        files: &[(Handle, &Placement)],
        patience: Patience,
    ) -> Vec<Result<DataStat>> {
        let iods = self.filesystem.iods().len() as u32;
        let asked = all((0..iods).map(|iod| self.objects_of(iod, files, patience))).await;
        let mut answers: Vec<_> = asked.into_iter().map(Answer::new).collect();
        files.iter().map(|(_, placement)| gather(placement, &mut answers)).collect()
    }

    async fn objects_of(
        &self,
        iod: u32,
        files: &[(Handle, &Placement)],
        patience: Patience,
    ) -> std::result::Result<Vec<ObjectStat>, CallError> {
        let held = |placement: &Placement| placement.iods.iter().any(|id| id.0 == iod);
        let handles: Vec<Handle> = files
            .iter()
            .filter(|(_, placement)| held(placement))
            .map(|(handle, _)| *handle)
            .collect();
        let mut stats = Vec::with_capacity(handles.len());
        for handles in handles.chunks(OBJECTS_MAX) {
            let request = StatObjects { handles: handles.to_vec() };
            stats.extend(self.objects(iod, &request, patience).await?.objects);
        }
        Ok(stats)
    }

    /// Who lists many files waits for an iod that does not answer once, and not for each file.
    async fn objects(
        &self,
        iod: u32,
        request: &StatObjects,
        patience: Patience,
    ) -> std::result::Result<ObjectStats, CallError> {
        let (caller, server) = (self.filesystem.caller(), &self.filesystem.iods()[iod as usize]);
        if !patience.insist && self.filesystem.is_silent(iod) {
            let (server, reason) = (server.name().into(), "it did not answer just now".into());
            return Err(CallError::Unreachable { server, reason });
        }
        let told = match request.handles.len() {
            1 => self.call_together(server, request, patience).await,
            _ => caller.call(server, &self.principal, request, patience).await,
        };
        if let Err(CallError::Timeout { .. }) = &told {
            self.filesystem.note_silence(iod);
        }
        told
    }

    /// Spares the next one the question. Where this user may not, or a writer came, the manager ignores it.
    async fn settle(&self, attr: &Attr, data: DataStat) {
        let (handle, change) = (attr.handle, attr.change);
        let _own = self.filesystem.cache().change([object(handle)]);
        let DataStat { size, disk_bytes, mtime } = data;
        let _ = self.ask(&Settle { handle, change, size, disk_bytes, mtime }).await;
    }

    /// What the manager has stated, with what this client knows of its own writes. `asked` is from before the question.
    pub(super) fn known(&self, stated: Stated, asked: Asked) -> Known {
        let Stated { attr, placement } = stated;
        let (writers, lease) = (self.filesystem.writers(), self.filesystem.caller().leases_lost());
        let alone = attr.size_state == SizeState::Alone;
        let progress = alone.then(|| writers.progress(attr.handle, asked, lease)).flatten();
        match progress.and_then(|progress| Some((progress.applied_to(attr)?, progress))) {
            Some((attr, progress)) => Known { attr, placement: None, progress: Some(progress) },
            None => Known { attr, placement, progress: None },
        }
    }

    /// Completes the attributes of a regular file whose size the manager does not know.
    pub async fn completed(&self, attr: Attr, placement: Option<&Placement>) -> Result<Attr> {
        match placement {
            Some(placement) if needs_iods(&attr) => {
                let data = self.size_shown(attr.handle, placement).await?;
                Ok(self.with_told(attr, data, placement).await)
            }
            _ => Ok(attr),
        }
    }

    /// The like for who goes by the size, as with an open file: an iod that is away is waited for as for its data.
    pub async fn completed_patiently(
        &self,
        attr: Attr,
        placement: Option<&Placement>,
    ) -> Result<Attr> {
        match placement {
            Some(placement) if needs_iods(&attr) => {
                let data = self.size_by_iods(attr.handle, placement).await?;
                Ok(self.with_told(attr, data, placement).await)
            }
            _ => Ok(attr),
        }
    }

    async fn with_told(&self, attr: Attr, data: DataStat, placement: &Placement) -> Attr {
        if attr.size_state == SizeState::Abandoned {
            self.settle(&attr, data).await;
        }
        with_data(attr, data, placement)
    }
}

/// Whether the size of this object has to be asked from iods.
pub(crate) fn needs_iods(attr: &Attr) -> bool {
    attr.kind == FileKind::Regular && attr.size_state != SizeState::Settled
}

/// Attributes with what the iods told.
pub(crate) fn with_data(attr: Attr, data: DataStat, placement: &Placement) -> Attr {
    let attr = with_write(attr, data.mtime);
    // What a program has changed in memory may be on its way, and a file of no block is taken to be one hole.
    let least = u64::from(
        data.size > 0 && !matches!(attr.size_state, SizeState::Settled | SizeState::Abandoned),
    );
    let disk_bytes = placement.disk_figure(data.size, data.disk_bytes).map(|told| told.max(least));
    Attr { size: data.size, disk_bytes, ..attr }
}

/// Attributes with the time of the last write. What was written before they last changed must not undo a time chosen then
/// (touch, cp -p).
pub(crate) fn with_write(attr: Attr, written: Time) -> Attr {
    let mtime = if written > attr.ctime { attr.mtime.max(written) } else { attr.mtime };
    Attr { mtime, ctime: attr.ctime.max(mtime), ..attr }
}

/// One iod's answers, taken in the order of the question.
struct Answer {
    stats: std::result::Result<std::vec::IntoIter<ObjectStat>, CallError>,
}

impl Answer {
    fn new(stats: std::result::Result<Vec<ObjectStat>, CallError>) -> Self {
        Self { stats: stats.map(Vec::into_iter) }
    }

    fn next(&mut self) -> Result<ObjectStat> {
        match &mut self.stats {
            Ok(stats) => Ok(stats.next().unwrap_or_default()),
            Err(error) => Err(error.clone().into()),
        }
    }
}

fn gather(placement: &Placement, answers: &mut [Answer]) -> Result<DataStat> {
    let mut local_sizes = Vec::new();
    let mut data = DataStat::default();
    let mut failure = None;
    for id in placement.iods.iter() {
        let unknown = || Err(pvfs_wire::Errno::EIO.into());
        // Every answer is taken, also after a failure, to stay in step with the question.
        match answers.get_mut(id.0 as usize).map_or_else(unknown, Answer::next) {
            Ok(stat) => {
                local_sizes.push(stat.local_size);
                data.disk_bytes = data.disk_bytes.saturating_add(stat.disk_bytes);
                data.mtime = data.mtime.max(stat.mtime);
            }
            Err(error) => failure = Some(error),
        }
    }
    data.size = placement.file_size(&local_sizes);
    failure.map_or(Ok(data), Err)
}
