//! The caller's memory: any number of slices, cut in order into the pieces of a transfer without copying.

use std::slice;

/// Memory that is dealt out from its first byte to its last.
pub trait Memory {
    /// Bytes side by side.
    type Piece: AsRef<[u8]>;

    /// Cuts the next `bytes` bytes off, in as few pieces as they lie in.
    ///
    /// # Panics
    /// When there are not so many left: callers compare sums first.
    fn take(&mut self, bytes: u64, into: &mut Vec<Self::Piece>);
}

/// Memory to write from.
pub struct Sources<'m> {
    rest: &'m [u8],
    others: slice::Iter<'m, &'m [u8]>,
}

/// Memory to read into.
pub struct Targets<'m, 'b> {
    rest: &'m mut [u8],
    others: slice::IterMut<'m, &'b mut [u8]>,
}

impl<'m> Sources<'m> {
    /// These slices, in this order.
    pub fn new(slices: &'m [&'m [u8]]) -> Self {
        Self { rest: &[], others: slices.iter() }
    }
}

impl<'m, 'b> Targets<'m, 'b> {
    /// These slices, in this order.
    pub fn new(slices: &'m mut [&'b mut [u8]]) -> Self {
        Self { rest: &mut [], others: slices.iter_mut() }
    }
}

impl<'m> Memory for Sources<'m> {
    type Piece = &'m [u8];

    fn take(&mut self, mut bytes: u64, into: &mut Vec<&'m [u8]>) {
        while bytes > 0 {
            if self.rest.is_empty() {
                self.rest = self.others.next().expect(ENOUGH);
                continue;
            }
            let (piece, rest) = self.rest.split_at(shorter(self.rest.len(), bytes));
            self.rest = rest;
            bytes -= piece.len() as u64;
            into.push(piece);
        }
    }
}

impl<'m> Memory for Targets<'m, '_> {
    type Piece = &'m mut [u8];

    fn take(&mut self, mut bytes: u64, into: &mut Vec<&'m mut [u8]>) {
        while bytes > 0 {
            if self.rest.is_empty() {
                self.rest = self.others.next().expect(ENOUGH);
                continue;
            }
            let whole = std::mem::take(&mut self.rest);
            let at = shorter(whole.len(), bytes);
            let (piece, rest) = whole.split_at_mut(at);
            self.rest = rest;
            bytes -= piece.len() as u64;
            into.push(piece);
        }
    }
}

fn shorter(have: usize, wanted: u64) -> usize {
    usize::try_from(wanted).map_or(have, |wanted| have.min(wanted))
}

const ENOUGH: &str = "the memory is as long as the access";
