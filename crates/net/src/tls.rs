//! TLS 1.3 beneath our protocol: one connection's records, between a socket and the pieces of whoever uses it.
//!
//! ```text
//!   send:    pieces --encrypt--> records not sent yet --> socket      taken once all of them are in the socket
//!   receive: socket --> received --decrypt--> plaintext --> pieces    what does not fit stays inside
//! ```
//!
//! Both ends show certificates that the cluster's CA has signed. Who a user is, and what may be done, is said
//! inside, as it is without TLS: see docs/design/tls.md.

mod fault;
mod setup;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::BorrowedFd;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use rustls::Connection;

use crate::runtime::Interest;
pub use fault::{Defect, TlsFault};
pub use setup::{Acceptor, Connector, TlsSetupError};

/// The TLS side of one connection. At most [`INSIDE_BYTES_MAX`] are held in it, on each way.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    is_open: bool,
    /// Records as they came; those before `seen` were decrypted.
    received: Vec<u8>,
    seen: usize,
    /// Decrypted and not taken.
    plain_bytes: usize,
    /// Of the caller's bytes, those in records that are not in the socket yet: encrypted, and not reported as sent.
    owed_bytes: usize,
    /// The other end has said that nothing more comes.
    has_ended: bool,
    /// The last receive took less than there was room for.
    was_short: bool,
    fault: Option<TlsFault>,
}

impl Session {
    fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(INSIDE_BYTES_MAX));
        Self {
            connection,
            is_open: false,
            received: Vec::new(),
            seen: 0,
            plain_bytes: 0,
            owed_bytes: 0,
            has_ended: false,
            was_short: false,
            fault: None,
        }
    }

    /// Goes on with the handshake, and says what it waits for; nothing when it is done.
    pub(crate) fn handshake(&mut self, wire: BorrowedFd<'_>) -> io::Result<Option<Interest>> {
        while !self.is_open {
            if !self.flush(wire)? {
                return Ok(Some(Interest::Writable));
            }
            if !self.connection.is_handshaking() {
                self.is_open = true;
                break;
            }
            match self.advance(wire) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Some(Interest::Readable));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether a receive gives something without the socket's having anything new.
    pub(crate) fn has_more(&self) -> bool {
        self.plain_bytes > 0 || self.seen < self.received.len() || self.fault.is_some()
    }

    /// As [`crate::stream::Stream::send`]: after `WouldBlock` the same bytes must be offered again, for some of them may
    /// be encrypted already.
    pub(crate) fn send(
        &mut self,
        wire: BorrowedFd<'_>,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        if !self.is_open {
            return Err(ErrorKind::NotConnected.into());
        }
        let mut pieces = pieces.to_vec();
        let (mut rest, mut sent) = (&mut pieces[..], 0);
        loop {
            match self.flush(wire) {
                Ok(true) => {}
                Ok(false) if sent == 0 => return Err(ErrorKind::WouldBlock.into()),
                Err(error) if sent == 0 => return Err(error),
                Ok(false) | Err(_) => return Ok(sent),
            }
            // Who offers fewer bytes than before has lost count of them, and this panics.
            IoSlice::advance_slices(&mut rest, self.owed_bytes);
            sent += std::mem::take(&mut self.owed_bytes);
            if rest.is_empty() {
                return Ok(sent);
            }
            self.owed_bytes = self.connection.writer().write_vectored(rest)?;
        }
    }

    /// As [`crate::stream::Stream::receive`].
    pub(crate) fn receive(
        &mut self,
        wire: BorrowedFd<'_>,
        pieces: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        if self.handshake(wire)?.is_some() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut taken = 0;
        for piece in pieces {
            let mut filled = 0;
            while filled < piece.len() {
                filled += match self.give(wire, &mut piece[filled..], taken + filled > 0) {
                    Ok(0) => return Ok(taken + filled),
                    Ok(bytes) => bytes,
                    Err(_) if taken + filled > 0 => return Ok(taken + filled),
                    Err(error) => return Err(error),
                }
            }
            taken += filled;
        }
        Ok(taken)
    }

    /// Fills a part of `piece`. Once there is something to return, the socket is asked only for as long as it has
    /// plenty.
    fn give(
        &mut self,
        wire: BorrowedFd<'_>,
        piece: &mut [u8],
        has_some: bool,
    ) -> io::Result<usize> {
        while self.plain_bytes == 0 {
            if self.has_ended {
                return Ok(0);
            }
            let asks = !has_some || !self.was_short || self.seen < self.received.len();
            if !asks || self.advance(wire)? == 0 {
                return Ok(0);
            }
        }
        let bytes = self.connection.reader().read(piece)?;
        self.plain_bytes -= bytes;
        Ok(bytes)
    }

    /// Decrypts some of what was received, which is received first if there is nothing; 0 at its end.
    fn advance(&mut self, wire: BorrowedFd<'_>) -> io::Result<usize> {
        if let Some(fault) = self.fault {
            return Err(fault.into());
        }
        if self.seen == self.received.len() {
            // An idle connection holds no buffer.
            let mut received = Vec::with_capacity(RECEIVE_BYTES);
            let room = rustix::buffer::spare_capacity(&mut received);
            let (_, bytes) = rustix::net::recv(wire, room, RecvFlags::DONTWAIT)?;
            self.was_short = bytes < RECEIVE_BYTES;
            (self.received, self.seen) = (received, 0);
            if bytes == 0 {
                return Ok(0);
            }
        }
        self.decrypt(wire)
    }

    /// Decrypts a few kilobytes of what was received; returns how many.
    fn decrypt(&mut self, wire: BorrowedFd<'_>) -> io::Result<usize> {
        let read = self.connection.read_tls(&mut &self.received[self.seen..]).unwrap_or(0);
        self.seen += read;
        if self.seen == self.received.len() {
            (self.received, self.seen) = (Vec::new(), 0);
        }
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.plain_bytes = state.plaintext_bytes_to_read();
                self.has_ended = state.peer_has_closed();
                // A message that is longer than any may be is not read to its end.
                match read > 0 || self.has_ended {
                    true => Ok(read),
                    false => Err(self.give_up(TlsFault::Malformed)),
                }
            }
            Err(error) => {
                let fault = TlsFault::from(&error);
                let is_garbage = self.is_open && fault == TlsFault::Unspoken;
                let error = self.give_up(if is_garbage { TlsFault::Malformed } else { fault });
                // The other end is told why; if it hears it or not, this is over.
                let _ = self.flush(wire);
                Err(error)
            }
        }
    }

    fn give_up(&mut self, fault: TlsFault) -> io::Error {
        self.fault = Some(fault);
        fault.into()
    }

    /// Whether all records are in the socket.
    fn flush(&mut self, wire: BorrowedFd<'_>) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Wire(wire)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.last_words(wire).unwrap_or(error)),
            }
        }
        Ok(true)
    }

    /// Who closes in the middle has said why, if it was about certificates: a daemon looks at the client's when the
    /// client takes the handshake for done.
    fn last_words(&mut self, wire: BorrowedFd<'_>) -> Option<io::Error> {
        if self.plain_bytes == 0 {
            let _ = self.advance(wire);
        }
        self.fault.map(io::Error::from)
    }
}

/// The socket, for what comes in pieces.
struct Wire<'a>(BorrowedFd<'a>);

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut nothing = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(self.0, pieces, &mut nothing, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether TLS begins like this: a record of a handshake, of any version.
pub(crate) fn is_hello(bytes: &[u8]) -> bool {
    bytes.starts_with(&[CONTENT_HANDSHAKE, VERSION_MAJOR])
}

/// Whether these are the last words of an end that speaks TLS to one that does not.
pub(crate) fn is_alert(bytes: &[u8]) -> bool {
    bytes.starts_with(&[CONTENT_ALERT, VERSION_MAJOR])
}

/// What is answered in a language that the other end understands where TLS is not spoken: the fatal alert
/// `protocol_version` (RFC 8446, section 6).
pub(crate) const NOT_SPOKEN: [u8; 7] = [CONTENT_ALERT, VERSION_MAJOR, 3, 0, 2, 2, 70];

const CONTENT_ALERT: u8 = 21;
const CONTENT_HANDSHAKE: u8 = 22;
const VERSION_MAJOR: u8 = 3;

/// Eight records: enough for a system call to be cheap, and in a processor's cache still when the next one reads it.
const INSIDE_BYTES_MAX: usize = 128 << 10;

/// Four records.
const RECEIVE_BYTES: usize = 64 << 10;
