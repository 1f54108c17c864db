//! One segment being written: a file that only grows, and is cut back when a write fails.

use super::format::{HEADER_BYTES, SegmentHeader};
use crate::store::batch::Sequence;
use crate::store::error::StoreError;
use crate::store::media::{Media, MediaFile};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment open for appending.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn MediaFile>,
    pub(crate) salt: u32,
    length: u64,
}

/// How an append failed.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The log is as it was before.
    Undone(StoreError),
    /// A part of the record may still be there: nothing may follow it.
    Broken(StoreError),
}

impl Segment {
    /// Begins the segment whose first record will be `header.first`, in place of any that is there.
    pub(crate) fn create(
        media: &dyn Media,
        directory: &Path,
        header: SegmentHeader,
    ) -> Result<Self, StoreError> {
        let path = segment_path(directory, header.first);
        let file = begin(media, &path, header)
            .map_err(|error| StoreError::io("begin log segment", &path, error))?;
        Ok(Self { path, file, salt: header.salt, length: HEADER_BYTES as u64 })
    }

    /// Writes `record` behind the others: all of it, or nothing.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        match self.file.write_all_at(record, self.length) {
            Ok(()) => {
                self.length += record.len() as u64;
                Ok(())
            }
            Err(error) => Err(self.undo(error)),
        }
    }

    /// The length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.length
    }

    fn undo(&self, error: io::Error) -> AppendError {
        let error = StoreError::io("append to", &self.path, error);
        match self.file.set_len(self.length) {
            Ok(()) => AppendError::Undone(error),
            Err(_) => AppendError::Broken(error),
        }
    }
}

/// A begun segment is whole or, after a failure, removed again: it would stand in the way of reading
/// the log only as a torn one.
fn begin(media: &dyn Media, path: &Path, header: SegmentHeader) -> io::Result<Arc<dyn MediaFile>> {
    let file = media.open(path)?;
    let written = file.set_len(0).and_then(|()| file.write_all_at(&header.encode(), 0));
    match written {
        Ok(()) => Ok(file),
        Err(error) => {
            // The write's error is what the caller needs; a torn header at the end is recoverable.
            let _ = media.remove(path);
            Err(error)
        }
    }
}

/// Where the segment beginning with `first` is.
pub(crate) fn segment_path(directory: &Path, first: Sequence) -> PathBuf {
    directory.join(format!("{PREFIX}{first:016x}"))
}

/// The segments in `directory`: their first sequence numbers, ascending.
pub(crate) fn segments_in(directory: &Path) -> Result<Vec<Sequence>, StoreError> {
    let failed = |error| StoreError::io("list", directory, error);
    let mut firsts = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let digits = digits.filter(|digits| digits.len() == 16);
        firsts.extend(digits.and_then(|digits| Sequence::from_str_radix(digits, 16).ok()));
    }
    firsts.sort_unstable();
    Ok(firsts)
}

const PREFIX: &str = "log.";
