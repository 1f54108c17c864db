//! When pieces of memory are many and tiny, one copy is cheaper than telling the kernel of each.
//!
//! The kernel looks at every piece of a `sendmsg` or `recvmsg`, and takes some hundreds per call; copying a few
//! dozen bytes costs less than that. What is staged is one request's data at most.

/// Memory on its way to or from an iod.
pub trait Pieces {
    /// Bytes in all, and how many pieces.
    fn extent(&self) -> (usize, usize);
}

impl<P: AsRef<[u8]>> Pieces for [P] {
    fn extent(&self) -> (usize, usize) {
        (self.iter().map(|piece| piece.as_ref().len()).sum(), self.len())
    }
}

/// Whether the pieces should be copied to one place.
pub fn is_cheaper(pieces: &(impl Pieces + ?Sized)) -> bool {
    let (bytes, count) = pieces.extent();
    count > PIECES_MAX || (count > FEW && bytes / count < TINY_BYTES)
}

/// All bytes side by side.
pub fn gather(pieces: &[&[u8]]) -> Vec<u8> {
    pieces.concat()
}

/// Puts the bytes where they belong.
pub fn scatter(staged: &[u8], pieces: &mut [&mut [u8]]) {
    let mut rest = staged;
    for piece in pieces {
        let (bytes, others) = rest.split_at(piece.len());
        piece.copy_from_slice(bytes);
        rest = others;
    }
}

/// So few are one call, whatever their size.
const FEW: usize = 8;

/// Below this many bytes a copy is cheaper than a piece of its own, for which the kernel takes some 40 ns (by processor
/// time, AF_UNIX; copying 512 bytes takes as long).
const TINY_BYTES: usize = 512;

/// More pieces would be several system calls.
const PIECES_MAX: usize = 512;
