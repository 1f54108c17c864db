//! The bare client: to each server its share of a transfer, then from each its reply.

use super::{Medium, Request, WRITTEN_BYTES};
use crate::bench::io::Transfer;
use pvfs_config::Endpoint;
use pvfs_layout::{Dist, Distribution};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Connections to all servers, of one client.
pub struct Client {
    sockets: Vec<File>,
    dist: Dist,
    medium: Medium,
}

impl Client {
    /// Connects. Files are dealt to the servers in strips of `strip_bytes`, as the file system does it.
    pub fn connect(servers: &[Endpoint], strip_bytes: u64, medium: Medium) -> io::Result<Self> {
        let sockets = servers.iter().map(connect).collect::<io::Result<Vec<File>>>()?;
        let dist =
            Dist::simple_stripe(strip_bytes, sockets.len() as u32).map_err(io::Error::other)?;
        Ok(Self { sockets, dist, medium })
    }

    /// Reads or writes `buffer` at `offset` of a striped file.
    pub fn transfer(
        &mut self,
        transfer: Transfer,
        file: u32,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let range = offset..offset + buffer.len() as u64;
        self.send(transfer, file, &range, buffer)?;
        self.receive(transfer, &range, buffer)
    }

    fn send(
        &mut self,
        transfer: Transfer,
        file: u32,
        range: &Range<u64>,
        buffer: &[u8],
    ) -> io::Result<()> {
        let mut rest = buffer;
        for (slot, socket) in (0..).zip(&mut self.sockets) {
            let local = self.dist.local_range(slot, range.clone());
            let length = local.end - local.start;
            if length == 0 {
                continue;
            }
            let (data, tail) = rest.split_at(length as usize);
            rest = tail;
            let request =
                Request { file, transfer, medium: self.medium, offset: local.start, length };
            match transfer {
                Transfer::Read => socket.write_all(&request.encode())?,
                Transfer::Write => write_both(socket, &request.encode(), data)?,
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        transfer: Transfer,
        range: &Range<u64>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut rest = buffer;
        for (slot, socket) in (0..).zip(&mut self.sockets) {
            let local = self.dist.local_range(slot, range.clone());
            if local.is_empty() {
                continue;
            }
            let (data, tail) = rest.split_at_mut((local.end - local.start) as usize);
            rest = tail;
            match transfer {
                Transfer::Read => socket.read_exact(data)?,
                Transfer::Write => socket.read_exact(&mut [0; WRITTEN_BYTES])?,
            }
        }
        Ok(())
    }
}

fn connect(server: &Endpoint) -> io::Result<File> {
    match server {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_nodelay(true)?;
            Ok(File::from(OwnedFd::from(stream)))
        }
        Endpoint::Unix { path } => Ok(File::from(OwnedFd::from(UnixStream::connect(path)?))),
    }
}

/// One system call for both, as long as the socket takes them.
fn write_both(socket: &mut File, head: &[u8], data: &[u8]) -> io::Result<()> {
    let sent = socket.write_vectored(&[IoSlice::new(head), IoSlice::new(data)])?;
    let (head_sent, data_sent) = (sent.min(head.len()), sent.saturating_sub(head.len()));
    socket.write_all(&head[head_sent..])?;
    socket.write_all(&data[data_sent..])
}
