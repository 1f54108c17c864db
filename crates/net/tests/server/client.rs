//! A minimal blocking client that can also misbehave.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pvfs_net::endpoint::Endpoint;
use pvfs_wire::header::checksum;
use pvfs_wire::ops::{Auth, Authed, Hello, Welcome};
use pvfs_wire::token::{Credential, client_proof, same_code, server_proof};
use pvfs_wire::{Errno, HEADER_BYTES, Header, OK, Operation, VERSION, Wire};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Both kinds of blocking streams.
pub trait Transport: Read + Write + Send + AsFd {}
impl<T: Read + Write + Send + AsFd> Transport for T {}

pub struct Client {
    pub transport: Box<dyn Transport>,
    pub tag: u64,
    pub session: u32,
    pub hello: Hello,
    pub welcome: Option<Welcome>,
}

pub struct Reply {
    pub header: Header,
    pub body: Vec<u8>,
    pub data: Vec<u8>,
}

pub fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Transport>> {
    let patience = Some(Duration::from_secs(20));
    Ok(match endpoint {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(patience)?;
            stream.set_write_timeout(patience)?;
            Box::new(stream)
        }
        Endpoint::Unix { path } => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(patience)?;
            stream.set_write_timeout(patience)?;
            Box::new(stream)
        }
    })
}

pub fn hello(client: u64, incarnation: u64) -> Hello {
    Hello {
        version_min: VERSION,
        version_max: VERSION,
        client,
        lane: 0,
        incarnation,
        fsid: 0,
        nonce: [client as u8; 32],
        software: "test".into(),
    }
}

impl Client {
    /// Connected, and nothing said.
    pub fn silent(endpoint: &Endpoint) -> Self {
        Self {
            transport: connect(endpoint).unwrap(),
            tag: 0,
            session: 0,
            hello: hello(1, 1),
            welcome: None,
        }
    }

    /// Hello said; the status if it was refused.
    pub fn greeted(endpoint: &Endpoint, hello: Hello) -> Result<Self, Errno> {
        let mut client = Self { hello: hello.clone(), ..Self::silent(endpoint) };
        client.welcome = Some(client.ask(&hello)?);
        Ok(client)
    }

    /// Hello said, and a session proved.
    pub fn introduced(endpoint: &Endpoint, hello: Hello, credential: &Credential) -> Self {
        let mut client = Self::greeted(endpoint, hello).unwrap();
        client.session = client.auth(credential).unwrap();
        client
    }

    pub fn auth(&mut self, credential: &Credential) -> Result<u32, Errno> {
        let server = self.welcome.as_ref().unwrap().nonce;
        let proof = client_proof(&credential.secret, &self.hello.nonce, &server);
        let auth = Auth { token: credential.token.clone(), proof };
        let authed: Authed = self.ask(&auth)?;
        let expected = server_proof(&credential.secret, &self.hello.nonce, &server);
        assert!(same_code(&authed.proof, &expected), "the daemon is an impostor");
        Ok(authed.session)
    }

    pub fn ask<O: Operation>(&mut self, request: &O) -> Result<O::Reply, Errno> {
        self.send(O::CODE, &request.to_bytes(), &[]);
        let reply = self.receive().unwrap();
        match reply.header.status {
            OK => Ok(O::Reply::from_bytes(&reply.body).unwrap()),
            status => Err(status),
        }
    }

    pub fn frame(&mut self, operation: u16, body: &[u8], data: &[u8]) -> Vec<u8> {
        self.tag += 1;
        let header = Header {
            session: self.session,
            data_bytes: data.len() as u32,
            data_crc: (!data.is_empty()).then(|| checksum(data)),
            ..Header::request(operation, self.tag).with_body(body)
        };
        [&header.encode()[..], body, data].concat()
    }

    /// Sends a request that is to have no reply.
    pub fn post(&mut self, operation: u16, body: &[u8]) {
        self.tag += 1;
        let request = Header::request(operation, self.tag).with_body(body);
        let header = Header { session: self.session, unanswered: true, ..request };
        self.transport.write_all(&[&header.encode()[..], body].concat()).unwrap();
    }

    /// The header of a request whose data, so many bytes, are on a tray.
    pub fn on_a_tray(&mut self, operation: u16, body: &[u8], data_bytes: u32) -> Header {
        self.tag += 1;
        let request = Header::request(operation, self.tag).with_body(body);
        Header { session: self.session, data_bytes, shared_data: true, ..request }
    }

    pub fn send(&mut self, operation: u16, body: &[u8], data: &[u8]) {
        let frame = self.frame(operation, body, data);
        self.transport.write_all(&frame).unwrap();
    }

    /// Sends bytes with a descriptor.
    pub fn send_with(&mut self, bytes: &[u8], file: impl AsFd) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        let pieces = [io::IoSlice::new(bytes)];
        let sent =
            sendmsg(self.transport.as_fd(), &pieces, &mut ancillary, SendFlags::empty()).unwrap();
        assert_eq!(sent, bytes.len());
    }

    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut head = [0; HEADER_BYTES];
        self.transport.read_exact(&mut head)?;
        let header = Header::decode(&head).unwrap();
        let mut body = vec![0; header.body_bytes as usize];
        let mut data = vec![0; header.data_bytes as usize];
        self.transport.read_exact(&mut body)?;
        self.transport.read_exact(&mut data)?;
        header.check_body(&body).unwrap();
        assert!(header.data_crc.is_none_or(|crc| crc == checksum(&data)));
        Ok(Reply { header, body, data })
    }

    /// Waits for the daemon to close the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.transport.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}
