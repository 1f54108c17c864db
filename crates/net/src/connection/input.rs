//! Bytes in: received into one pooled buffer, and cut into frames where they lie.
//!
//! ```text
//!            start              end         limit of the next receive
//!   | served | frame | frame | fra.............|
//! ```
//!
//! Small messages are received many at a time. A large one is received to its very end and no further,
//! so that the next one begins in a fresh buffer; and the connection remembers how large they are, so
//! that in the steady state not a byte is moved. An idle connection holds no buffer.

use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pvfs_wire::header::checksum;
use pvfs_wire::{DecodeError, HEADER_BYTES, Header};

use crate::buffer::{Buffer, Pool};
use crate::stream::Stream;

/// The receiving half of a connection.
pub struct Input {
    buffer: Option<Arc<Buffer>>,
    start: usize,
    end: usize,
    /// The header of the frame at `start`, once it is there.
    header: Option<Header>,
    /// How much to receive when nothing says how long the next message is.
    usual_bytes: usize,
    small_in_a_row: u32,
}

/// A complete message, by its place in the buffer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// Its header.
    pub header: Header,
    /// Where its body is.
    pub body: Range<usize>,
    /// Where its data are.
    pub data: Range<usize>,
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// This many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The other end said that it is done.
    End,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            buffer: None,
            start: 0,
            end: 0,
            header: None,
            usual_bytes: SMALL_BYTES,
            small_in_a_row: 0,
        }
    }
}

impl Input {
    /// Receives once. Descriptors that come along are added to `files`.
    pub fn receive(
        &mut self,
        stream: &mut impl Stream,
        pool: &Pool,
        files: &mut Vec<OwnedFd>,
    ) -> io::Result<Received> {
        let limit = self.make_room(pool);
        if self.end == limit {
            // Of messages that were not taken yet. What an empty receive gives looks like the end.
            return Ok(Received::Nothing);
        }
        let buffer = self.buffer.as_mut().expect("room was made");
        let buffer = Arc::get_mut(buffer).expect("kept buffers are given up after their round");
        let room = IoSliceMut::new(&mut buffer[self.end..limit]);
        let received = match stream.carries_files() {
            true => stream.receive_files(&mut [room], files),
            false => stream.receive(&mut [room]),
        };
        match received {
            Ok(0) => Ok(Received::End),
            Ok(bytes) => {
                self.end += bytes;
                Ok(Received::Bytes(bytes))
            }
            Err(error) if is_temporary(&error) => {
                self.give_up_if_empty();
                Ok(Received::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// Bytes of memory that the next receive would take from the pool.
    pub fn bytes_wanted(&self) -> usize {
        match &self.buffer {
            None => self.usual_bytes,
            Some(buffer) if self.rest_bytes_max() > buffer.len() => self.rest_bytes_max(),
            Some(_) => 0,
        }
    }

    /// Bytes missing of a large message that has begun; 1 when nothing is known of what comes next.
    pub fn missing_bytes(&self) -> usize {
        let missing = self.rest_bytes_max().saturating_sub(self.end - self.start);
        if self.is_large() { missing.max(1) } else { 1 }
    }

    /// Whether a message has begun and not ended.
    pub fn is_halfway(&self) -> bool {
        self.start < self.end
    }

    /// What has arrived of the messages that were not taken.
    pub fn unread(&self) -> &[u8] {
        &self.bytes()[self.start..self.end]
    }

    /// The header of the next message, once all of it has arrived; the rest may not have.
    pub fn peek(&mut self) -> Result<Option<&Header>, DecodeError> {
        if self.header.is_none() && self.end - self.start >= HEADER_BYTES {
            let bytes = &self.bytes()[self.start..self.start + HEADER_BYTES];
            self.header = Some(Header::decode(bytes.try_into().expect("64 bytes"))?);
        }
        Ok(self.header.as_ref())
    }

    /// The next message, when it is complete and its checksums are right. It stays the next one until
    /// [`Input::advance`].
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        let Some(header) = self.peek()?.copied() else { return Ok(None) };
        if self.end - self.start < frame_bytes(&header) {
            return Ok(None);
        }
        let body_start = self.start + HEADER_BYTES;
        let data_start = body_start + header.body_bytes as usize;
        let data_end = data_start + header.following_bytes();
        let frame = Frame { header, body: body_start..data_start, data: data_start..data_end };
        header.check_body(&self.bytes()[frame.body.clone()])?;
        let data = &self.bytes()[frame.data.clone()];
        match header.data_crc.filter(|_| !header.shared_data) {
            Some(crc) if crc != checksum(data) => Err(DecodeError::Checksum),
            _ => Ok(Some(frame)),
        }
    }

    /// Goes on behind this frame, the next one.
    pub fn advance(&mut self, frame: &Frame) {
        self.learn(frame.data.end - self.start);
        self.start = frame.data.end;
        self.header = None;
    }

    /// The buffer that frames lie in.
    pub fn memory(&self) -> Option<&Arc<Buffer>> {
        self.buffer.as_ref()
    }

    /// After a round: nobody looks at the frames before `start` any more, but a service may have kept
    /// the buffer.
    pub fn release(&mut self, pool: &Pool) {
        if self.start == self.end {
            self.give_up_if_empty();
        } else if self.buffer.as_mut().is_some_and(|buffer| Arc::get_mut(buffer).is_none()) {
            self.move_to(pool.take(self.rest_bytes_max().max(SMALL_BYTES)));
        }
    }

    /// Makes room for the next receive and says up to where it may go.
    fn make_room(&mut self, pool: &Pool) -> usize {
        let Some(buffer) = &self.buffer else {
            self.buffer = Some(Arc::new(pool.take(self.usual_bytes)));
            return self.usual_bytes;
        };
        let wanted = self.rest_bytes_max();
        if self.start + wanted > buffer.len() {
            if wanted <= buffer.len() {
                self.move_to_front();
            } else {
                self.move_to(pool.take(wanted.max(SMALL_BYTES)));
            }
        }
        if self.is_large() { self.start + wanted } else { self.bytes().len() }
    }

    /// How much room the message at `start` may need: all of it when that is known.
    fn rest_bytes_max(&self) -> usize {
        match &self.header {
            Some(header) => frame_bytes(header),
            None => HEADER_BYTES,
        }
    }

    fn is_large(&self) -> bool {
        self.header.as_ref().is_some_and(|header| frame_bytes(header) > SMALL_BYTES)
    }

    fn move_to_front(&mut self) {
        let buffer = self.buffer.as_mut().expect("there are bytes to move");
        let buffer = Arc::get_mut(buffer).expect("kept buffers are given up after their round");
        buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }

    fn move_to(&mut self, mut larger: Buffer) {
        let rest = self.end - self.start;
        // A frame that was already larger than its header promises does not exist, but more small
        // frames may follow it.
        if larger.len() < rest {
            larger = Buffer::unpooled(rest);
        }
        larger[..rest].copy_from_slice(&self.bytes()[self.start..self.end]);
        self.buffer = Some(Arc::new(larger));
        (self.start, self.end) = (0, rest);
    }

    fn give_up_if_empty(&mut self) {
        if self.start == self.end {
            self.buffer = None;
            (self.start, self.end) = (0, 0);
        }
    }

    fn learn(&mut self, frame_bytes: usize) {
        if frame_bytes > SMALL_BYTES {
            self.usual_bytes = frame_bytes;
            self.small_in_a_row = 0;
        } else {
            self.small_in_a_row += 1;
            if self.small_in_a_row >= SMALL_IN_A_ROW {
                self.usual_bytes = SMALL_BYTES;
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..])
    }
}

/// Whether an error means no more than "not now".
pub fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn frame_bytes(header: &Header) -> usize {
    HEADER_BYTES + header.body_bytes as usize + header.following_bytes()
}

/// Messages up to this length are received in batches.
const SMALL_BYTES: usize = 64 << 10;

/// After so many small messages the next one is believed to be small, too.
const SMALL_IN_A_ROW: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::io::IoSlice;

    /// Gives its bytes in pieces of the given sizes, and says when it was asked for more than a piece.
    struct Pieces(VecDeque<Vec<u8>>);

    impl Stream for Pieces {
        fn send(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }
        fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let Some(piece) = self.0.front_mut() else { return Err(ErrorKind::WouldBlock.into()) };
            let count = piece.len().min(pieces[0].len());
            pieces[0][..count].copy_from_slice(&piece[..count]);
            piece.drain(..count);
            if piece.is_empty() {
                self.0.pop_front();
            }
            Ok(count)
        }
        fn shutdown(&mut self) {}
    }

    fn frame(tag: u64, body_bytes: usize, data_bytes: usize) -> Vec<u8> {
        let (body, data) = (vec![tag as u8; body_bytes], vec![!tag as u8; data_bytes]);
        let mut header = Header::request(1, tag).with_body(&body);
        header.data_bytes = data.len() as u32;
        header.data_crc = Some(checksum(&data));
        [&header.encode()[..], &body, &data].concat()
    }

    /// Receives and parses everything; the tags, and how often bytes were moved to another buffer.
    fn parse(bytes: &[u8], pieces: impl Iterator<Item = usize>) -> (Vec<u64>, Vec<usize>) {
        let mut rest = bytes;
        let mut stream = Pieces(VecDeque::new());
        for piece in pieces {
            let (first, others) = rest.split_at(piece.clamp(1, rest.len().max(1)).min(rest.len()));
            stream.0.push_back(first.to_vec());
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
        let (mut input, pool) = (Input::default(), Pool::new());
        let (mut tags, mut starts) = (Vec::new(), Vec::new());
        while let Received::Bytes(_) = input.receive(&mut stream, &pool, &mut Vec::new()).unwrap() {
            while let Some(frame) = input.next_frame().unwrap() {
                let memory = input.memory().unwrap();
                assert!(memory[frame.body.clone()].iter().all(|b| *b == frame.header.tag as u8));
                assert!(memory[frame.data.clone()].iter().all(|b| *b == !frame.header.tag as u8));
                tags.push(frame.header.tag);
                starts.push(frame.body.start - HEADER_BYTES);
                input.advance(&frame);
            }
            input.release(&pool);
        }
        assert!(!input.is_halfway());
        assert!(input.memory().is_none() && pool.lent_bytes() == 0, "an idle input holds memory");
        (tags, starts)
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        for seed in 1..200u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut chance = move |bound: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state % bound as u64) as usize
            };
            let bytes: Vec<u8> = (1..30)
                .flat_map(|tag| {
                    let data_bytes = [0, 10, 4096, 70_000, 300_000][chance(5)];
                    frame(tag, chance(200), chance(data_bytes + 1))
                })
                .collect();
            let largest = [10, 1000, 100_000, 1 << 20][chance(4)];
            let pieces = std::iter::repeat_with(|| 1 + chance(largest));
            let (tags, _) = parse(&bytes, pieces);
            assert_eq!(tags, (1..30).collect::<Vec<u64>>(), "seed {seed}");
        }
    }

    /// A service may take fewer of them at once than a buffer holds.
    #[test]
    fn a_buffer_full_of_messages_is_not_the_end() {
        let bytes: Vec<u8> = (1..30).flat_map(|tag| frame(tag, 5_000, 0)).collect();
        let mut stream = Pieces([bytes].into());
        let (mut input, pool) = (Input::default(), Pool::new());
        let mut receive = || input.receive(&mut stream, &pool, &mut Vec::new()).unwrap();
        assert_eq!(receive(), Received::Bytes(SMALL_BYTES));
        assert_eq!(receive(), Received::Nothing);
    }

    /// In the steady state each large message is received into the start of a buffer of its size.
    #[test]
    fn large_messages_are_never_moved_once_their_size_is_known() {
        let bytes: Vec<u8> = (1..20).flat_map(|tag| frame(tag, 50, 1 << 20)).collect();
        let (tags, starts) = parse(&bytes, std::iter::repeat(bytes.len()));
        assert_eq!(tags.len(), 19);
        assert!(starts.iter().all(|start| *start == 0), "{starts:?}");
    }
}
