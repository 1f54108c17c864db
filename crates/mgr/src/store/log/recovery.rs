//! Reading the log back when the store is opened: which groups there are, and where they end.
//!
//! The groups are the longest run of consecutive sound records. What lies behind the run is either
//! a tail that a power loss or a kill left torn, and is cut off, or the rest of a log whose middle
//! was damaged, and is an error. Every record, segment header and mark says what was synced when it
//! was written. So a hole is damage exactly if something behind it knew the missing record to be
//! safe on the disk; otherwise losing it, and what follows it, is what `local` durability allows.

use super::format::{
    self, Claims, HEADER_BYTES, HeaderError, RECORD_HEADER_BYTES, Record, SegmentHeader,
};
use super::segment::{segment_path, segments_in};
use crate::store::batch::{Batch, Sequence};
use crate::store::error::StoreError;
use crate::store::media::{Media, MediaFile};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the log held.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Recovered {
    /// The last group of the store, in the log or in the state file.
    pub(crate) last: Sequence,
    /// The segments whose groups were replayed, all on the disk now.
    pub(crate) segments: Vec<PathBuf>,
    /// Segments that the state file has made obsolete.
    pub(crate) obsolete: Vec<PathBuf>,
    /// How many whole records were given up because one before them was missing. Never synced ones.
    pub(crate) records_lost: u64,
    /// How many bytes behind the last group were cut off.
    pub(crate) bytes_cut: u64,
}

/// What the state file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The store whose log it is.
    pub(crate) store_id: u64,
    /// The last group that the log need not hold.
    pub(crate) applied: Sequence,
    /// The last group that the log must hold.
    pub(crate) synced: Sequence,
}

/// Replays into `replay`, in order, the groups of the log in `directory` after `known.applied`.
pub(crate) fn recover(
    media: &dyn Media,
    directory: &Path,
    known: Known,
    replay: &mut dyn FnMut(Sequence, Batch),
) -> Result<Recovered, StoreError> {
    let firsts = segments_in(directory)?;
    let obsolete = firsts.windows(2).take_while(|pair| pair[1] <= known.applied + 1).count();
    let mut recovery = Recovery { media, directory, known, firsts, replay };
    let mut recovered = Recovered::default();
    for first in recovery.firsts.drain(..obsolete) {
        recovered.obsolete.push(segment_path(directory, first));
    }
    if recovery.check_start()? {
        recovery.read(&mut recovered)?;
    } else {
        recovery.drop_all(&mut recovered)?;
    }
    Ok(recovered)
}

struct Recovery<'r> {
    media: &'r dyn Media,
    directory: &'r Path,
    known: Known,
    /// First sequence numbers of the segments that matter.
    firsts: Vec<Sequence>,
    replay: &'r mut dyn FnMut(Sequence, Batch),
}

/// One segment in memory.
struct Contents {
    path: PathBuf,
    file: Arc<dyn MediaFile>,
    bytes: Vec<u8>,
    /// `None` if it cannot be read as one.
    header: Option<SegmentHeader>,
}

/// Where the run of sound records ends.
struct End {
    /// The sequence that would have come next.
    next: Sequence,
    /// Behind which byte of the segment.
    offset: usize,
}

impl Recovery<'_> {
    /// Whether the log begins where the state file ends.
    fn check_start(&self) -> Result<bool, StoreError> {
        let expected = self.known.applied + 1;
        if self.firsts.is_empty() && self.known.synced > 0 {
            let damage = format!("its log is missing, which should hold groups from {expected} on");
            return Err(StoreError::Corrupt { path: self.directory.to_path_buf(), damage });
        }
        Ok(self.firsts.first().is_none_or(|first| *first <= expected))
    }

    /// The beginning of the log is not there. If nothing behind knew it to be safe, a power loss
    /// took its name before it was synced, and all of the log goes with it.
    fn drop_all(&self, recovered: &mut Recovered) -> Result<(), StoreError> {
        let (first, expected) = (self.firsts[0], self.known.applied + 1);
        let claims = self.claims_from(0)?;
        if claims.synced.max(self.known.synced) >= expected {
            let damage = format!("its log begins with group {first} instead of {expected}");
            return Err(StoreError::Corrupt { path: self.directory.to_path_buf(), damage });
        }
        recovered.records_lost = claims.records;
        recovered.last = self.known.applied;
        self.remove_from(0)
    }

    fn read(&mut self, recovered: &mut Recovered) -> Result<(), StoreError> {
        let mut next = self.firsts.first().copied().unwrap_or(self.known.applied + 1);
        for position in 0..self.firsts.len() {
            let contents = self.load(position)?;
            let end = self.replay_segment(&contents, position, next);
            next = end.next;
            let successor = self.firsts.get(position + 1);
            if successor != Some(&next) {
                self.end_log(position, &contents, &end, recovered)?;
                break;
            }
            self.keep(&contents, recovered)?;
        }
        recovered.last = self.known.applied.max(next - 1);
        Ok(())
    }

    fn load(&self, position: usize) -> Result<Contents, StoreError> {
        let path = segment_path(self.directory, self.firsts[position]);
        let failed = |error| StoreError::io("read", &path, error);
        let file = self.media.open(&path).map_err(failed)?;
        let length = file.len().map_err(failed)?;
        if length > SEGMENT_BYTES_MAX {
            let damage = format!("{length} bytes are more than a log segment can have");
            return Err(StoreError::Corrupt { path, damage });
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let header = self.header(&path, self.firsts[position], &bytes)?;
        Ok(Contents { path, file, bytes, header })
    }

    /// A torn header ends the log there; a foreign one is refused.
    fn header(
        &self,
        path: &Path,
        first: Sequence,
        bytes: &[u8],
    ) -> Result<Option<SegmentHeader>, StoreError> {
        let corrupt = |damage: &str| {
            Err(StoreError::Corrupt { path: path.to_path_buf(), damage: damage.to_owned() })
        };
        match SegmentHeader::decode(bytes) {
            Ok(header) if header.store_id != self.known.store_id => {
                corrupt("it is of another store")
            }
            Ok(header) if header.first != first => corrupt("it is under another segment's name"),
            Ok(header) => Ok(Some(header)),
            Err(HeaderError::Torn) => Ok(None),
            Err(HeaderError::UnknownVersion(found)) => Err(StoreError::UnknownVersion {
                path: path.to_path_buf(),
                found: u64::from(found),
                known: u64::from(format::VERSION),
            }),
        }
    }

    /// Replays the run of sound records of one segment. It ends, at the latest, where the next
    /// segment begins.
    fn replay_segment(&mut self, contents: &Contents, position: usize, next: Sequence) -> End {
        let mut end = End { next, offset: HEADER_BYTES };
        let Some(header) = contents.header else { return End { next, offset: 0 } };
        let limit = self.firsts.get(position + 1).copied().unwrap_or(Sequence::MAX);
        while let Some(record) = format::decode_record(&contents.bytes[end.offset..], header.salt) {
            let is_mark = record.group.is_empty() && record.sequence + 1 == end.next;
            if !is_mark && (record.sequence != end.next || end.next == limit) {
                break;
            }
            end.offset += record.bytes;
            if !is_mark {
                end.next += 1;
                self.replay_record(record);
            }
        }
        end
    }

    fn replay_record(&mut self, record: Record) {
        if record.sequence > self.known.applied {
            (self.replay)(record.sequence, record.group);
        }
    }

    /// Decides whether the log may end here, and cuts off what is behind.
    fn end_log(
        &self,
        position: usize,
        contents: &Contents,
        end: &End,
        recovered: &mut Recovered,
    ) -> Result<(), StoreError> {
        let claims = self.claims_behind(position, contents, end)?;
        let missing = end.next.max(self.known.applied + 1);
        if claims.synced >= missing {
            return Err(damaged(contents, end, claims));
        }
        recovered.records_lost = claims.records;
        self.cut(position, contents, end, recovered)
    }

    fn claims_behind(
        &self,
        position: usize,
        contents: &Contents,
        end: &End,
    ) -> Result<Claims, StoreError> {
        let mut claims = contents.claims_behind(end.offset, end.next);
        claims.synced = claims.synced.max(self.known.synced);
        claims.merge(self.claims_from(position + 1)?);
        Ok(claims)
    }

    /// What the segments from `position` on say.
    fn claims_from(&self, position: usize) -> Result<Claims, StoreError> {
        let mut claims = Claims::default();
        for later in position..self.firsts.len() {
            let contents = self.load(later)?;
            claims.merge(contents.claims_behind(HEADER_BYTES, self.firsts[later] - 1));
            claims.synced = claims.synced.max(contents.header.map_or(0, |header| header.synced));
        }
        Ok(claims)
    }

    /// Removes what is behind the end, so that it is not there when new groups take its numbers.
    fn cut(
        &self,
        position: usize,
        contents: &Contents,
        end: &End,
        recovered: &mut Recovered,
    ) -> Result<(), StoreError> {
        recovered.bytes_cut = (contents.bytes.len() - end.offset) as u64;
        self.remove_from(position + 1)?;
        if contents.header.is_none() {
            self.remove(&contents.path)?;
        } else {
            let cut = contents.file.set_len(end.offset as u64);
            cut.map_err(|error| StoreError::io("cut off the end of", &contents.path, error))?;
            self.keep(contents, recovered)?;
        }
        self.sync_directory()
    }

    /// Removes the segments from `position` on, the last one first: what is left never has a hole.
    fn remove_from(&self, position: usize) -> Result<(), StoreError> {
        for later in self.firsts[position..].iter().rev() {
            self.remove(&segment_path(self.directory, *later))?;
        }
        self.sync_directory()
    }

    fn sync_directory(&self) -> Result<(), StoreError> {
        let synced = self.media.sync_directory(self.directory);
        synced.map_err(|error| StoreError::io("sync", self.directory, error))
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.media.remove(path).map_err(|error| StoreError::io("remove", path, error))
    }

    /// What was replayed must not be lost again by a power loss after it has been seen.
    fn keep(&self, contents: &Contents, recovered: &mut Recovered) -> Result<(), StoreError> {
        let synced = contents.file.sync_data();
        synced.map_err(|error| StoreError::io("sync", &contents.path, error))?;
        recovered.segments.push(contents.path.clone());
        Ok(())
    }
}

impl Contents {
    fn claims_behind(&self, offset: usize, first: Sequence) -> Claims {
        let Some(header) = self.header else { return Claims::default() };
        let bytes = &self.bytes[offset..];
        format::claims_behind(bytes, header.salt, plausible(first, bytes.len()))
    }
}

/// The sequences that records within so many bytes could have.
fn plausible(first: Sequence, bytes: usize) -> Range<Sequence> {
    first..first.saturating_add((bytes / RECORD_HEADER_BYTES) as u64 + 1)
}

fn damaged(contents: &Contents, end: &End, claims: Claims) -> StoreError {
    let damage = format!(
        "group {} at byte {} cannot be read, although the log says that it was safe up to group \
         {}, and {} later records can be read",
        end.next, end.offset, claims.synced, claims.records
    );
    StoreError::Corrupt { path: contents.path.clone(), damage }
}

/// Beyond any log the options allow, so that recovery never tries to load a file of terabytes.
const SEGMENT_BYTES_MAX: u64 = 2 << 30;
