//! The bytes of a log segment: one header, then records back to back. Pure functions on slices.

use crate::store::batch::{Batch, CHANGE_HEADER_BYTES, Change, GROUP_BYTES_MAX, Sequence};

/// What a segment's first bytes say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SegmentHeader {
    /// The store this log belongs to.
    pub(crate) store_id: u64,
    /// Mixed into every record's checksum: bytes that a user placed in a value, or that a removed
    /// segment left on the disk, are never taken for a record.
    pub(crate) salt: u32,
    /// The sequence of the first record.
    pub(crate) first: Sequence,
    /// What was known to be on the disk when the segment began.
    pub(crate) synced: Sequence,
}

/// Why bytes are not a segment header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HeaderError {
    /// Too short, or no header at all.
    Torn,
    /// A header of another version.
    UnknownVersion(u32),
}

/// One group as read back.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Record {
    pub(crate) sequence: Sequence,
    /// What was known to be on the disk when this record was written.
    pub(crate) synced: Sequence,
    pub(crate) group: Batch,
    /// Its length in the log.
    pub(crate) bytes: usize,
}

impl SegmentHeader {
    /// The header as written.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.salt.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.store_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.synced.to_le_bytes());
        let crc = crc_fast::crc32_iscsi(&bytes[..40]);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header at the start of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes = bytes.get(..HEADER_BYTES).ok_or(HeaderError::Torn)?;
        if &bytes[..8] != MAGIC || crc_fast::crc32_iscsi(&bytes[..40]) != u32_at(bytes, 40) {
            return Err(HeaderError::Torn);
        }
        match u32_at(bytes, 8) {
            VERSION => Ok(Self {
                salt: u32_at(bytes, 12),
                store_id: u64_at(bytes, 16),
                first: u64_at(bytes, 24),
                synced: u64_at(bytes, 32),
            }),
            version => Err(HeaderError::UnknownVersion(version)),
        }
    }
}

/// Replaces `record` by the encoding of `group`.
pub(crate) fn encode_record(
    record: &mut Vec<u8>,
    salt: u32,
    sequence: Sequence,
    synced: Sequence,
    group: &Batch,
) {
    record.clear();
    record.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    for change in group.changes() {
        encode_change(record, change);
    }
    let payload_bytes = (record.len() - RECORD_HEADER_BYTES) as u32;
    record[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    record[16..24].copy_from_slice(&synced.to_le_bytes());
    let crc = record_crc(&record[4..], salt);
    record[..4].copy_from_slice(&crc.to_le_bytes());
}

fn encode_change(record: &mut Vec<u8>, change: &Change) {
    let value_bytes = change.value.as_ref().map_or(DELETED, |value| value.len() as u32);
    record.extend_from_slice(&(change.key.len() as u16).to_le_bytes());
    record.extend_from_slice(&value_bytes.to_le_bytes());
    record.extend_from_slice(&change.key);
    record.extend_from_slice(change.value.as_deref().unwrap_or_default());
}

/// The record at the start of `bytes`, if there is a whole and sound one.
pub(crate) fn decode_record(bytes: &[u8], salt: u32) -> Option<Record> {
    let payload_bytes = payload_bytes(bytes)?;
    let bytes = bytes.get(..RECORD_HEADER_BYTES + payload_bytes)?;
    if record_crc(&bytes[4..], salt) != u32_at(bytes, 0) {
        return None;
    }
    Some(Record {
        sequence: u64_at(bytes, 8),
        synced: u64_at(bytes, 16),
        group: decode_changes(&bytes[RECORD_HEADER_BYTES..])?,
        bytes: bytes.len(),
    })
}

/// The highest sequence that any sound record in `bytes`, at whatever offset, knew to be synced.
///
/// Used behind a record that cannot be read, whose length cannot be trusted: tells a tail that was
/// never safe on the disk from damage to one that was. `sequences` are those that may follow.
pub(crate) fn claims_behind(
    bytes: &[u8],
    salt: u32,
    sequences: std::ops::Range<Sequence>,
) -> Claims {
    let mut claims = Claims::default();
    let mut offset = 0;
    while bytes.len() - offset >= RECORD_HEADER_BYTES {
        let rest = &bytes[offset..];
        let likely = sequences.contains(&u64_at(rest, 8));
        match likely.then(|| decode_record(rest, salt)).flatten() {
            Some(record) => {
                claims.add(record.synced);
                offset += record.bytes;
            }
            None => offset += 1,
        }
    }
    claims
}

/// What records behind a hole say.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Claims {
    /// How many sound records there are.
    pub(crate) records: u64,
    /// The highest sequence one of them knew to be synced.
    pub(crate) synced: Sequence,
}

impl Claims {
    /// Counts one record, or header, that knew `synced`.
    pub(crate) fn add(&mut self, synced: Sequence) {
        self.records += 1;
        self.synced = self.synced.max(synced);
    }

    /// Counts what another part of the log said.
    pub(crate) fn merge(&mut self, other: Claims) {
        self.records += other.records;
        self.synced = self.synced.max(other.synced);
    }
}

fn payload_bytes(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..RECORD_HEADER_BYTES)?;
    let payload_bytes = u32_at(header, 4) as usize;
    (payload_bytes <= GROUP_BYTES_MAX).then_some(payload_bytes)
}

fn decode_changes(mut payload: &[u8]) -> Option<Batch> {
    let mut group = Batch::new();
    while !payload.is_empty() {
        let header = payload.get(..CHANGE_HEADER_BYTES)?;
        let key_bytes = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let value_bytes = u32_at(header, 2);
        let (key, rest) = payload[CHANGE_HEADER_BYTES..].split_at_checked(key_bytes)?;
        let (value, rest) = match value_bytes {
            DELETED => (None, rest),
            length => rest.split_at_checked(length as usize).map(|(v, r)| (Some(v), r))?,
        };
        group.push(Change { key: key.to_vec(), value: value.map(<[u8]>::to_vec) });
        payload = rest;
    }
    Some(group)
}

fn record_crc(covered: &[u8], salt: u32) -> u32 {
    crc_fast::crc32_iscsi(covered) ^ salt
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

/// First bytes of every segment.
const MAGIC: &[u8; 8] = b"pvfs-log";

/// The version of header and records together.
pub(crate) const VERSION: u32 = 1;

/// Magic 8, version 4, salt 4, store 8, first 8, synced 8, crc32c of those 4, zero 4.
pub(crate) const HEADER_BYTES: usize = 48;

/// crc32c of all that follows 4, payload length 4, sequence 8, synced 8.
pub(crate) const RECORD_HEADER_BYTES: usize = 24;

/// The value length that says there is no value.
const DELETED: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Batch {
        let mut group = Batch::new();
        group.put("key", "value");
        group.delete("gone");
        group.put("", "");
        group
    }

    fn record() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_record(&mut bytes, 9, 7, 5, &group());
        bytes
    }

    #[test]
    fn a_record_reads_back() {
        let bytes = record();
        let read = decode_record(&bytes, 9).unwrap();
        let expected = Record { sequence: 7, synced: 5, group: group(), bytes: bytes.len() };
        assert_eq!(read, expected);
    }

    /// The format on the disk, byte by byte, so that a change of it cannot go unnoticed.
    #[test]
    fn the_encoding_is_what_the_document_says() {
        let bytes = record();
        assert_eq!(bytes[4..8], 30_u32.to_le_bytes());
        assert_eq!(bytes[8..24], [7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[24..38], b"\x03\0\x05\0\0\0keyvalue");
        assert_eq!(&bytes[38..48], b"\x04\0\xff\xff\xff\xffgone");
        assert_eq!(&bytes[48..], b"\0\0\0\0\0\0");
    }

    #[test]
    fn no_changed_or_missing_byte_is_accepted() {
        let bytes = record();
        for length in 0..bytes.len() {
            assert_eq!(decode_record(&bytes[..length], 9), None);
        }
        for (byte, bit) in (0..bytes.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let mut changed = bytes.clone();
            changed[byte] ^= 1 << bit;
            assert_eq!(decode_record(&changed, 9), None, "byte {byte} bit {bit}");
        }
    }

    #[test]
    fn a_record_under_another_salt_is_no_record() {
        assert_eq!(decode_record(&record(), 8), None);
    }

    #[test]
    fn a_header_reads_back_and_names_foreign_versions() {
        let header = SegmentHeader { store_id: 3, salt: 4, first: 5, synced: 4 };
        let mut bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        assert_eq!(SegmentHeader::decode(&bytes[..47]), Err(HeaderError::Torn));
        bytes[8] = 2;
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderError::Torn));
        let crc = crc_fast::crc32_iscsi(&bytes[..40]);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderError::UnknownVersion(2)));
    }

    #[test]
    fn records_behind_rubbish_are_found_at_any_offset() {
        for rubbish in 0..20 {
            let bytes = [vec![0xa5; rubbish], record(), vec![1, 2, 3]].concat();
            let claims = claims_behind(&bytes, 9, 1..100);
            assert_eq!(claims, Claims { records: 1, synced: 5 }, "{rubbish} bytes before");
        }
        assert_eq!(claims_behind(&record(), 8, 1..100), Claims::default());
    }
}
