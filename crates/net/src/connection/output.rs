//! Bytes out: a queue of replies, many of them gathered into one send.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pvfs_wire::header::checksum;
use pvfs_wire::{HEADER_BYTES, Header};

use super::input::is_temporary;
use crate::service::{Data, Response};
use crate::stream::Stream;

/// The sending half of a connection.
#[derive(Default)]
pub struct Output {
    queue: VecDeque<Reply>,
    /// Bytes of the first reply that were already sent.
    sent_bytes: usize,
    queued_bytes: usize,
}

struct Reply {
    header: [u8; HEADER_BYTES],
    body: Vec<u8>,
    data: Option<Data>,
    /// Handed over with the first byte.
    files: Vec<OwnedFd>,
}

impl Reply {
    fn pieces(&self) -> [&[u8]; 3] {
        [&self.header, &self.body, self.data.as_deref().unwrap_or_default()]
    }

    fn bytes(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }
}

impl Output {
    /// Appends a reply. `header` is finished here: lengths and checksums.
    pub fn push(&mut self, header: Header, response: Response, data_checksum: bool) {
        let mut header = header.with_body(&response.body);
        if let Some(data) = &response.data {
            header.data_bytes = data.len() as u32;
            header.data_crc = data_checksum.then(|| checksum(data));
        }
        let Response { body, data, files, .. } = response;
        let reply = Reply { header: header.encode(), body, data, files };
        self.queued_bytes += reply.bytes();
        self.queue.push_back(reply);
    }

    /// Bytes not yet sent.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends as much as the stream takes; returns how much that was. What is lent and was not taken is in
    /// buffers then.
    pub fn flush(&mut self, stream: &mut impl Stream) -> io::Result<usize> {
        let mut total = 0;
        while !self.queue.is_empty() {
            let (offered, sent) = match self.send_once(stream) {
                Ok(counts) => counts,
                Err(error) if is_temporary(&error) => break,
                // What is lent is there no more, and a copy of it says why.
                Err(error) if is_bad_address(&error) && self.give_back()? > 0 => continue,
                Err(error) => return Err(error),
            };
            total += sent;
            self.forget(sent);
            // The stream is full: another call would only be told so.
            if sent < offered {
                break;
            }
        }
        self.give_back()?;
        Ok(total)
    }

    /// Copies what is lent, so that whoever lends it waits no longer; returns how many replies that were.
    fn give_back(&mut self) -> io::Result<usize> {
        let mut count = 0;
        for reply in &mut self.queue {
            if let Some(Data::Lent(lent)) = &reply.data {
                reply.data = Some(lent.copy()?.into());
                count += 1;
            }
        }
        Ok(count)
    }

    fn send_once(&mut self, stream: &mut impl Stream) -> io::Result<(usize, usize)> {
        if self.queue.front().is_some_and(|first| !first.files.is_empty()) {
            return self.send_first_with_files(stream);
        }
        // Most often there is one, and a long array would cost more than the rest of this.
        match self.queue.len() {
            ..=2 => self.send_many::<6>(stream),
            _ => self.send_many::<SLICES_MAX>(stream),
        }
    }

    /// Descriptors belong to the bytes they come with, so their reply is sent by itself.
    fn send_first_with_files(&mut self, stream: &mut impl Stream) -> io::Result<(usize, usize)> {
        let first = self.queue.front_mut().expect("the caller has seen it");
        let files = std::mem::take(&mut first.files);
        let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let slices = first.pieces().map(IoSlice::new);
        match stream.send_files(&slices, &borrowed) {
            Ok(sent) => Ok((first.bytes(), sent)),
            Err(error) => {
                first.files = files;
                Err(error)
            }
        }
    }

    /// Sends so many pieces at once.
    fn send_many<const N: usize>(&self, stream: &mut impl Stream) -> io::Result<(usize, usize)> {
        let mut slices = [IoSlice::new(&[]); N];
        let mut count = 0;
        let mut offered = 0;
        let mut skip = self.sent_bytes;
        let without_files = self.queue.iter().take_while(|reply| reply.files.is_empty());
        for piece in without_files.flat_map(Reply::pieces) {
            let hidden = skip.min(piece.len());
            skip -= hidden;
            if hidden == piece.len() {
                continue;
            }
            if count == N {
                break;
            }
            slices[count] = IoSlice::new(&piece[hidden..]);
            offered += piece.len() - hidden;
            count += 1;
        }
        Ok((offered, stream.send(&slices[..count])?))
    }

    fn forget(&mut self, sent: usize) {
        self.queued_bytes -= sent;
        self.sent_bytes += sent;
        while let Some(first) = self.queue.front()
            && self.sent_bytes >= first.bytes()
        {
            self.sent_bytes -= first.bytes();
            self.queue.pop_front();
        }
    }
}

fn is_bad_address(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::FAULT)
}

/// Pieces in one send: some thirty replies, which is plenty to share a system call.
const SLICES_MAX: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::service::Lent;
    use std::io::IoSliceMut;
    use std::sync::Arc;

    /// Takes at most `room` bytes per send, and every other time nothing.
    struct Narrow {
        taken: Vec<u8>,
        room: usize,
        calls: usize,
    }

    impl Stream for Narrow {
        fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(2) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            let count = all.len().min(self.room);
            self.taken.extend_from_slice(&all[..count]);
            Ok(count)
        }
        fn receive(&mut self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
        fn shutdown(&mut self) {}
    }

    /// Is lent as long as its holder is held twice.
    struct Borrowed {
        bytes: Vec<u8>,
        _holder: Arc<()>,
    }

    impl Lent for Borrowed {
        fn bytes(&self) -> &[u8] {
            &self.bytes
        }
        fn copy(&self) -> io::Result<Buffer> {
            let mut copy = Buffer::unpooled(self.bytes.len());
            copy.copy_from_slice(&self.bytes);
            Ok(copy)
        }
    }

    fn response(number: usize) -> Response {
        let mut data = Buffer::unpooled(number * 7);
        data.fill(number as u8);
        let data = (!number.is_multiple_of(3)).then(|| match number % 2 {
            0 => Data::Buffered(data),
            _ => Data::Lent(Box::new(Borrowed { bytes: data.to_vec(), _holder: Arc::new(()) })),
        });
        Response {
            status: pvfs_wire::OK,
            body: vec![number as u8; number % 5],
            data,
            files: Vec::new(),
            leased_ms: 0,
        }
    }

    #[test]
    fn partial_sends_lose_and_repeat_nothing() {
        for room in [1, 7, 63, 64, 65, 1000, 1 << 20] {
            let mut output = Output::default();
            let mut whole = Output::default();
            for number in 0..70 {
                let header = Header::request(1, number as u64).reply(pvfs_wire::OK);
                output.push(header, response(number), true);
                whole.push(header, response(number), true);
            }
            let mut narrow = Narrow { taken: Vec::new(), room, calls: 0 };
            let mut wide = Narrow { taken: Vec::new(), room: usize::MAX, calls: 0 };
            while !output.is_empty() {
                output.flush(&mut narrow).unwrap();
            }
            while !whole.is_empty() {
                whole.flush(&mut wide).unwrap();
            }
            assert!(narrow.taken == wide.taken, "room {room}");
            assert_eq!(output.queued_bytes(), 0);
        }
    }

    #[test]
    fn nothing_stays_lent_for_a_client_that_does_not_take_it() {
        let holder = Arc::new(());
        let mut output = Output::default();
        for number in 0..3 {
            let bytes = vec![number; 100];
            let data = Data::Lent(Box::new(Borrowed { bytes, _holder: holder.clone() }));
            let header = Header::request(1, u64::from(number)).reply(pvfs_wire::OK);
            let response = Response { data: Some(data), ..Response::encoded(Vec::new()) };
            output.push(header, response, false);
        }
        assert_eq!(Arc::strong_count(&holder), 4);
        let mut narrow = Narrow { taken: Vec::new(), room: 200, calls: 0 };
        output.flush(&mut narrow).unwrap();
        assert_eq!(Arc::strong_count(&holder), 1);
        while !output.is_empty() {
            output.flush(&mut narrow).unwrap();
        }
        assert!(narrow.taken.ends_with(&[2; 100]) && narrow.taken.len() == 3 * 164);
    }
}
