//! The 64 bytes before every message.
//!
//! ```text
//!  0  magic       u32   "PVFS"
//!  4  version     u8    of the wire, agreed at hello
//!  5  kind        u8    0 request, 1 reply, 2 notice (from a server, unasked)
//!  6  operation   u16   the table in `ops`
//!  8  tag         u64   chosen by the client, growing on a connection; the reply repeats it
//! 16  body_bytes  u32   the operation's record, right after the header
//! 20  data_bytes  u32   file data, right after the body
//! 24  status      u32   of a reply: 0 or an error number
//! 28  flags       u16   bit 0: data_crc is meaningful; bit 1, of a request on one node: the data are in shared
//!                       memory, at its beginning, and not here; bit 2, of a request: no reply is sent
//! 30  credits     u16   of a reply: how many requests this connection may have outstanding
//! 32  session     u32   on whose behalf, as the auth reply numbered it; 0 none
//! 36  map_version u32   of the cluster map the sender goes by; 0 does not matter
//! 40  sequence    u64   of a change of metadata: slot in the upper 16 bits, count in the lower 48
//! 48  timeout_ms  u32   of a request: how long its sender will still wait; 0 does not say. Of a reply: how
//!                       long what it tells may be cached, from when the request was sent; 0 not at all
//! 52  body_crc    u32   crc32c of the body
//! 56  data_crc    u32   crc32c of the data
//! 60  header_crc  u32   crc32c of bytes 0..60
//! ```
//!
//! The receiver knows from the header alone where every byte goes, so data is received straight
//! into the caller's memory (client) or into one buffer of the right size (server).

use crate::error::{DecodeError, Errno};

/// Length of the header on the wire.
pub const HEADER_BYTES: usize = 64;

/// Which way a message goes, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Client to server.
    Request,
    /// Server to client, in answer to the request of the same tag.
    Reply,
    /// Server to client, unasked (revocations).
    Notice,
}

/// Slot and count of a change of metadata, so that a repeated request is answered, not run again.
///
/// A client has at most one change outstanding per slot; the count grows by one with each. The
/// manager keeps the last reply of every slot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Sequence {
    /// Which of the client's slots.
    pub slot: u16,
    /// The how manieth change of this slot, from 1; 0 means the request is no change.
    pub count: u64,
}

/// The header, decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Request, reply or notice.
    pub kind: Kind,
    /// Operation code.
    pub operation: u16,
    /// Matches a reply to its request.
    pub tag: u64,
    /// Length of the body.
    pub body_bytes: u32,
    /// Length of the data.
    pub data_bytes: u32,
    /// Zero or an error number.
    pub status: Errno,
    /// Requests the connection may have outstanding.
    pub credits: u16,
    /// The session number on this connection.
    pub session: u32,
    /// The sender's cluster map.
    pub map_version: u32,
    /// For changes of metadata.
    pub sequence: Sequence,
    /// Of a request: how long the sender will wait. Of a reply: how long it may be cached.
    pub timeout_ms: u32,
    /// crc32c of the body.
    pub body_crc: u32,
    /// crc32c of the data, when the sender computed it.
    pub data_crc: Option<u32>,
    /// Of a request: the data are in the memory that its sender shares, and do not follow.
    pub shared_data: bool,
    /// Of a request: its sender does not wait for a reply, and gets none.
    pub unanswered: bool,
}

impl Header {
    /// A request with everything optional left out.
    pub fn request(operation: u16, tag: u64) -> Self {
        Self {
            kind: Kind::Request,
            operation,
            tag,
            body_bytes: 0,
            data_bytes: 0,
            status: OK,
            credits: 0,
            session: 0,
            map_version: 0,
            sequence: Sequence::default(),
            timeout_ms: 0,
            body_crc: 0,
            data_crc: None,
            shared_data: false,
            unanswered: false,
        }
    }

    /// The reply to this request, with nothing in it yet.
    pub fn reply(&self, status: Errno) -> Self {
        Self { kind: Kind::Reply, status, ..Self::request(self.operation, self.tag) }
    }

    /// Notes the body's length and checksum.
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Self {
        self.body_bytes = body.len() as u32;
        self.body_crc = checksum(body);
        self
    }

    /// The bytes that travel.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(4, &[crate::VERSION, self.kind as u8]);
        put(6, &self.operation.to_le_bytes());
        put(8, &self.tag.to_le_bytes());
        put(16, &self.body_bytes.to_le_bytes());
        put(20, &self.data_bytes.to_le_bytes());
        put(24, &self.status.0.to_le_bytes());
        put(28, &self.flags().to_le_bytes());
        put(30, &self.credits.to_le_bytes());
        put(32, &self.session.to_le_bytes());
        put(36, &self.map_version.to_le_bytes());
        put(40, &self.sequence.pack().to_le_bytes());
        put(48, &self.timeout_ms.to_le_bytes());
        put(52, &self.body_crc.to_le_bytes());
        put(56, &self.data_crc.unwrap_or(0).to_le_bytes());
        let crc = checksum(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Understands the bytes, or says why not. Lengths are checked against the hard limits.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, DecodeError> {
        if bytes[..4] != MAGIC {
            return Err(DecodeError::Magic);
        }
        if bytes[4] != crate::VERSION {
            return Err(DecodeError::Version(bytes[4]));
        }
        if checksum(&bytes[..60]) != word(bytes, 60) {
            return Err(DecodeError::Checksum);
        }
        let header = Self {
            kind: Kind::from_byte(bytes[5])?,
            operation: half(bytes, 6),
            tag: long(bytes, 8),
            body_bytes: word(bytes, 16),
            data_bytes: word(bytes, 20),
            status: Errno(word(bytes, 24)),
            credits: half(bytes, 30),
            session: word(bytes, 32),
            map_version: word(bytes, 36),
            sequence: Sequence::unpack(long(bytes, 40)),
            timeout_ms: word(bytes, 48),
            body_crc: word(bytes, 52),
            data_crc: (half(bytes, 28) & FLAG_DATA_CRC != 0).then(|| word(bytes, 56)),
            shared_data: half(bytes, 28) & FLAG_SHARED_DATA != 0,
            unanswered: half(bytes, 28) & FLAG_UNANSWERED != 0,
        };
        if (header.shared_data || header.unanswered) && header.kind != Kind::Request {
            return Err(DecodeError::Value);
        }
        header.check_lengths()
    }

    /// Bytes of data that follow the body.
    pub fn following_bytes(&self) -> usize {
        if self.shared_data { 0 } else { self.data_bytes as usize }
    }

    fn flags(&self) -> u16 {
        let data_crc = if self.data_crc.is_some() { FLAG_DATA_CRC } else { 0 };
        let shared_data = if self.shared_data { FLAG_SHARED_DATA } else { 0 };
        let unanswered = if self.unanswered { FLAG_UNANSWERED } else { 0 };
        data_crc | shared_data | unanswered
    }

    /// Whether `body` is what the sender sent.
    pub fn check_body(&self, body: &[u8]) -> Result<(), DecodeError> {
        if checksum(body) == self.body_crc { Ok(()) } else { Err(DecodeError::Checksum) }
    }

    fn check_lengths(self) -> Result<Self, DecodeError> {
        let fits =
            self.body_bytes <= crate::BODY_BYTES_MAX && self.data_bytes <= crate::DATA_BYTES_MAX;
        if fits { Ok(self) } else { Err(DecodeError::TooLong) }
    }
}

impl Kind {
    fn from_byte(byte: u8) -> Result<Self, DecodeError> {
        match byte {
            0 => Ok(Self::Request),
            1 => Ok(Self::Reply),
            2 => Ok(Self::Notice),
            _ => Err(DecodeError::Value),
        }
    }
}

impl Sequence {
    /// As one number: slot above, count below.
    pub fn pack(self) -> u64 {
        u64::from(self.slot) << COUNT_BITS | self.count & COUNT_MASK
    }

    /// From one number.
    pub fn unpack(packed: u64) -> Self {
        Self { slot: (packed >> COUNT_BITS) as u16, count: packed & COUNT_MASK }
    }

    /// Whether the request changes metadata and must run once.
    pub fn is_change(self) -> bool {
        self.count != 0
    }
}

/// crc32c (Castagnoli), the checksum of everything that travels.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// crc32c of bytes that lie in pieces.
pub fn checksum_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut sum = Checksum::new();
    pieces.into_iter().for_each(|piece| sum.update(piece));
    sum.finish()
}

/// crc32c of bytes that come one after the other.
pub struct Checksum(crc_fast::Digest);

impl Checksum {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    /// More bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all of them.
    pub fn finish(self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

/// The status of a request that succeeded.
pub const OK: Errno = Errno(0);

const MAGIC: [u8; 4] = *b"PVFS";
const FLAG_DATA_CRC: u16 = 1;
const FLAG_SHARED_DATA: u16 = 2;
const FLAG_UNANSWERED: u16 = 4;
const COUNT_BITS: u32 = 48;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

fn half(bytes: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn word(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            sequence: Sequence { slot: 3, count: 9 },
            session: 5,
            map_version: 6,
            timeout_ms: 7,
            data_bytes: 11,
            data_crc: Some(13),
            ..Header::request(0x0102, 0x0304).with_body(b"123456789")
        }
    }

    /// The layout in the drawing above, byte by byte; this vector must never change.
    #[test]
    fn header_is_laid_out_as_drawn() {
        let bytes = sample().encode();
        assert_eq!(&bytes[..8], b"PVFS\x01\x00\x02\x01");
        assert_eq!(bytes[8..16], 0x0304u64.to_le_bytes());
        assert_eq!(bytes[16..24], [9, 0, 0, 0, 11, 0, 0, 0]);
        assert_eq!(bytes[24..40], [0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0]);
        assert_eq!(bytes[40..48], [9, 0, 0, 0, 0, 0, 3, 0]);
        assert_eq!(bytes[48..52], [7, 0, 0, 0]);
        // The check value of CRC-32/ISCSI.
        assert_eq!(bytes[52..56], 0xe306_9283u32.to_le_bytes());
        assert_eq!(bytes[56..60], [13, 0, 0, 0]);
    }

    #[test]
    fn header_comes_back_as_it_went() {
        assert_eq!(Header::decode(&sample().encode()), Ok(sample()));
        let reply = sample().reply(Errno::ENOENT);
        assert_eq!(Header::decode(&reply.encode()), Ok(reply));
        let posted = Header { unanswered: true, ..sample() };
        assert_eq!(Header::decode(&posted.encode()), Ok(posted));
        assert!(!posted.reply(OK).unanswered);
        let senseless = Header { unanswered: true, ..reply };
        assert_eq!(Header::decode(&senseless.encode()), Err(DecodeError::Value));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = sample().encode();
        for bit in 0..HEADER_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&changed).is_err(), "bit {bit} went unnoticed");
        }
    }

    #[test]
    fn lengths_over_the_limits_are_refused_before_anything_is_allocated() {
        let long_body = Header { body_bytes: crate::BODY_BYTES_MAX + 1, ..sample() };
        assert_eq!(Header::decode(&long_body.encode()), Err(DecodeError::TooLong));
        let long_data = Header { data_bytes: crate::DATA_BYTES_MAX + 1, ..sample() };
        assert_eq!(Header::decode(&long_data.encode()), Err(DecodeError::TooLong));
    }

    #[test]
    fn checksum_of_pieces_is_the_checksum_of_the_whole() {
        assert_eq!(checksum_pieces([&b"1234"[..], b"", b"56789"]), checksum(b"123456789"));
    }
}
