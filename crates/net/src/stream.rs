//! A connection's two ends, seen as bytes that never block.

use std::io::{self, IoSlice, IoSliceMut};

/// One end of a connection: ordered, reliable bytes.
///
/// `WouldBlock` means "nothing now, wait until the stream is ready"; any other error, and a receive of
/// zero bytes into a non-empty buffer, mean the connection is over.
pub trait Stream: Send {
    /// Takes bytes from the pieces, in order; returns how many it took.
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Fills the pieces, in order; returns how many bytes it gave.
    fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// A hint: it is worth waking up only for that many bytes, or the end. Whatever arrives can still be
    /// received; 1 takes the hint back.
    fn expect(&mut self, _bytes: usize) {}

    /// Whether both ends are on this node, so that bytes cannot change on their way.
    fn is_local(&self) -> bool {
        false
    }

    /// Says that nothing more will be sent or wanted. Idempotent.
    fn shutdown(&mut self);
}
