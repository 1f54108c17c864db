//! The one place where groups get their numbers and enter the log.

use super::batch::{Batch, Sequence};
use super::disk::random;
use super::error::StoreError;
use super::log::format::{SegmentHeader, encode_record};
use super::log::{AppendError, Segment};
use super::media::Media;
use super::sync::Syncer;
use std::path::{Path, PathBuf};

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Writer {
    store_id: u64,
    last: Sequence,
    segment: Segment,
    /// The highest sequence that the log says to be synced.
    claimed: Sequence,
    /// Where records are encoded, kept to save an allocation each.
    record: Vec<u8>,
}

impl Writer {
    /// Begins a segment after group `last`.
    pub(crate) fn begin(
        media: &dyn Media,
        directory: &Path,
        store_id: u64,
        last: Sequence,
        syncer: &Syncer,
    ) -> Result<Self, StoreError> {
        let segment = begin_segment(media, directory, store_id, last, syncer)?;
        Ok(Self { store_id, last, segment, claimed: syncer.synced(), record: Vec::new() })
    }

    /// Begins a new segment. Returns the path of the one that is now complete.
    pub(crate) fn begin_segment(
        &mut self,
        media: &dyn Media,
        directory: &Path,
        syncer: &Syncer,
    ) -> Result<PathBuf, StoreError> {
        let next = begin_segment(media, directory, self.store_id, self.last, syncer)?;
        self.claimed = syncer.synced();
        Ok(std::mem::replace(&mut self.segment, next).path)
    }

    /// Writes `group` as the next one.
    pub(crate) fn append(
        &mut self,
        group: &Batch,
        syncer: &Syncer,
    ) -> Result<Sequence, StoreError> {
        let sequence = self.last + 1;
        self.write(sequence, group, syncer)?;
        self.last = sequence;
        syncer.wrote(sequence);
        Ok(sequence)
    }

    /// Writes a mark: a record without changes, under the last group's number, that says that this
    /// group is synced. Left out if the log says so already or the group is not.
    pub(crate) fn mark(&mut self, syncer: &Syncer) -> Result<(), StoreError> {
        let synced = syncer.synced();
        if self.claimed >= synced || self.last != synced {
            return Ok(());
        }
        syncer.check()?;
        self.write(self.last, &Batch::new(), syncer)
    }

    /// The last group in the log.
    pub(crate) fn last(&self) -> Sequence {
        self.last
    }

    /// The length of the segment.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.segment.bytes()
    }

    /// The segment being written.
    pub(crate) fn segment_path(&self) -> &Path {
        &self.segment.path
    }

    fn write(
        &mut self,
        sequence: Sequence,
        group: &Batch,
        syncer: &Syncer,
    ) -> Result<(), StoreError> {
        let synced = syncer.synced();
        encode_record(&mut self.record, self.segment.salt, sequence, synced, group);
        let appended = self.segment.append(&self.record);
        if self.record.capacity() > RECORD_CAPACITY_KEPT {
            self.record = Vec::new();
        }
        match appended {
            Ok(()) => {
                self.claimed = synced;
                Ok(())
            }
            Err(AppendError::Undone(error)) => Err(error),
            Err(AppendError::Broken(error)) => Err(syncer.fail(&error)),
        }
    }
}

fn begin_segment(
    media: &dyn Media,
    directory: &Path,
    store_id: u64,
    last: Sequence,
    syncer: &Syncer,
) -> Result<Segment, StoreError> {
    let (first, synced) = (last + 1, syncer.synced());
    let salt = random(directory)? as u32;
    let header = SegmentHeader { store_id, salt, first, synced };
    let segment = Segment::create(media, directory, header)?;
    syncer.begin_segment(first, segment.file.clone());
    Ok(segment)
}

/// One huge group must not hold its memory for ever.
const RECORD_CAPACITY_KEPT: usize = 1 << 20;
