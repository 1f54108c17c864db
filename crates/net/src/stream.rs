//! A connection's two ends, seen as bytes that never block.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::runtime::Interest;

/// One end of a connection: ordered, reliable bytes.
///
/// `WouldBlock` means "nothing now, wait until the stream is ready"; any other error, and a receive of
/// zero bytes into a non-empty buffer, mean the connection is over.
pub trait Stream: Send {
    /// Goes on with what must be agreed on before anything is sent, and says what that waits for; nothing when it is
    /// done. A stream that was never asked may do so by itself when it is received from.
    fn handshake(&mut self) -> io::Result<Option<Interest>> {
        Ok(None)
    }

    /// Takes bytes from the pieces, in order; returns how many it took. After `WouldBlock` the same bytes are offered
    /// again, and perhaps more behind them, for the stream may have begun with them.
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Fills the pieces, in order; returns how many bytes it gave.
    fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Whether a receive would give something that has arrived already, of which no poll can tell.
    fn has_more(&self) -> bool {
        false
    }

    /// Takes bytes as [`Stream::send`] does, and descriptors with the first of them, all or none.
    fn send_files(
        &mut self,
        _pieces: &[IoSlice<'_>],
        _files: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fills the pieces as [`Stream::receive`] does, and keeps descriptors that came with the bytes.
    fn receive_files(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        _files: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        self.receive(pieces)
    }

    /// Whether descriptors can be sent along.
    fn carries_files(&self) -> bool {
        false
    }

    /// A hint: so many more bytes of a message are on their way, and waking up for fewer is of no use. Whatever
    /// arrives can still be received; 1 takes the hint back.
    fn expect(&mut self, _bytes: usize) {}

    /// Whether bytes cannot change on their way unnoticed: both ends are on this node, or TLS watches over them.
    fn is_protected(&self) -> bool {
        false
    }

    /// Says that nothing more will be sent or wanted. Idempotent.
    fn shutdown(&mut self);
}
