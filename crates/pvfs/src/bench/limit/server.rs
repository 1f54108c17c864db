//! The bare server: a thread per connection, blocking calls, one buffer, which begins at a page as those of the
//! file system do.

use super::{Medium, REQUEST_BYTES, Request, WRITTEN_BYTES};
use crate::bench::io::Transfer;
use pvfs_net::buffer::{Buffer, Pool};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::Builder;

/// Where a bare server waits for clients.
pub enum Listener {
    /// On loopback.
    Tcp(TcpListener),
    /// A socket of this node.
    Unix(UnixListener),
}

impl Listener {
    /// The next connection. A socket is read and written as a file is.
    fn accept(&self) -> io::Result<File> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(File::from(OwnedFd::from(stream)))
            }
            Self::Unix(listener) => Ok(File::from(OwnedFd::from(listener.accept()?.0))),
        }
    }
}

/// Serves files in `directory` until the listener fails; each connection on a thread of its own.
pub fn serve(listener: &Listener, directory: &Path) -> io::Result<()> {
    loop {
        let socket = listener.accept()?;
        let directory = directory.to_owned();
        let serving = Builder::new().name("bare-server".into());
        serving.spawn(move || {
            if let Err(error) = Serving::new(socket, directory).run() {
                eprintln!("bare server: {error}");
            }
        })?;
    }
}

struct Serving {
    socket: File,
    directory: PathBuf,
    files: HashMap<u32, File>,
    buffer: Buffer,
}

impl Serving {
    fn new(socket: File, directory: PathBuf) -> Self {
        Self {
            socket,
            directory,
            files: HashMap::new(),
            buffer: Pool::new().take(REQUEST_BYTES + CHUNK_BYTES),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        // A client has one request outstanding, so whatever arrives belongs to it.
        while let Some(got) = self.request()? {
            let request =
                Request::decode(self.buffer[..REQUEST_BYTES].try_into().expect("its length"));
            match request.transfer {
                Transfer::Read => self.read(request)?,
                Transfer::Write => self.write(request, got - REQUEST_BYTES)?,
            }
        }
        Ok(())
    }

    /// Receives a request and perhaps the first of its data; tells how many bytes. `None` at the end.
    fn request(&mut self) -> io::Result<Option<usize>> {
        let mut got = 0;
        while got < REQUEST_BYTES {
            match self.socket.read(&mut self.buffer[got..])? {
                0 if got == 0 => return Ok(None),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => got += count,
            }
        }
        Ok(Some(got))
    }

    fn read(&mut self, request: Request) -> io::Result<()> {
        let mut done = 0;
        while done < request.length {
            let bytes = (request.length - done).min(CHUNK_BYTES as u64) as usize;
            if request.medium == Medium::File {
                let file = file(&mut self.files, &self.directory, request.file)?;
                file.read_exact_at(&mut self.buffer[..bytes], request.offset + done)?;
            }
            self.socket.write_all(&self.buffer[..bytes])?;
            done += bytes as u64;
        }
        Ok(())
    }

    /// Writes the data, of which `first` bytes have arrived behind the request.
    fn write(&mut self, request: Request, first: usize) -> io::Result<()> {
        let (mut done, mut held) = (0, first);
        while done < request.length {
            let bytes = (request.length - done).min(CHUNK_BYTES as u64) as usize;
            let chunk = &mut self.buffer[REQUEST_BYTES..REQUEST_BYTES + bytes];
            self.socket.read_exact(&mut chunk[held..])?;
            held = 0;
            if request.medium == Medium::File {
                let file = file(&mut self.files, &self.directory, request.file)?;
                file.write_all_at(chunk, request.offset + done)?;
            }
            done += bytes as u64;
        }
        self.socket.write_all(&[0; WRITTEN_BYTES])
    }
}

fn file<'a>(
    files: &'a mut HashMap<u32, File>,
    directory: &Path,
    number: u32,
) -> io::Result<&'a File> {
    use std::collections::hash_map::Entry;
    Ok(match files.entry(number) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => {
            let path = directory.join(number.to_string());
            place.insert(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)?,
            )
        }
    })
}

/// One system call moves so much; smaller and larger were slower, or no faster.
const CHUNK_BYTES: usize = 256 << 10;
