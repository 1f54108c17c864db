//! The limit: the same bytes from and to the same kind of files, by bare programs and no file system.
//!
//! Four server processes stand for the iods; a client sends to each of them what a striped client
//! would (the same split), then receives all. The code blocks, has one thread per connection and reuses its
//! buffers: the simplest that is fast. It neither checks nor protects anything.
//!
//! ```text
//! request   file u32 | what u32 | offset u64 | length u64        and the data, of a write
//! reply     the data, of a read; 8 bytes, of a write
//! ```

pub mod client;
pub mod server;
pub mod servers;

use super::io::Transfer;

/// What a request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Number of the file in the server's directory.
    pub file: u32,
    /// Reading or writing.
    pub transfer: Transfer,
    /// Whether a file is read or written at all: without, this is a mere exchange of messages.
    pub medium: Medium,
    /// Where, in the server's file.
    pub offset: u64,
    /// How much.
    pub length: u64,
}

/// Where the bytes come from and go to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Medium {
    /// A file of the server.
    File,
    /// The server's buffer.
    Memory,
}

impl Request {
    /// As bytes.
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        let what = u32::from(self.transfer == Transfer::Write)
            | u32::from(self.medium == Medium::Memory) << 1;
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&self.file.to_le_bytes());
        bytes[4..8].copy_from_slice(&what.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Self {
        let half =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let whole =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let what = half(4);
        Self {
            file: half(0),
            transfer: if what & 1 == 0 { Transfer::Read } else { Transfer::Write },
            medium: if what & 2 == 0 { Medium::File } else { Medium::Memory },
            offset: whole(8),
            length: whole(16),
        }
    }
}

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 24;

/// Bytes of the reply to a write.
pub const WRITTEN_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_their_bytes() {
        for (transfer, medium) in [
            (Transfer::Read, Medium::File),
            (Transfer::Write, Medium::File),
            (Transfer::Read, Medium::Memory),
            (Transfer::Write, Medium::Memory),
        ] {
            let request = Request { file: 7, transfer, medium, offset: 1 << 40, length: 4096 };
            assert_eq!(Request::decode(&request.encode()), request);
        }
    }
}
