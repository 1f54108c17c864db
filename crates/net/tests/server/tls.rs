//! The same daemon where TLS is spoken: with clients that do so rightly, wrongly, slowly and not at all.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvfs_config::Certificates;
use pvfs_net::endpoint::Endpoint;
use pvfs_net::gate::{Limits, Rules, Security};
use pvfs_net::tls::Acceptor;
use pvfs_wire::{HEADER_BYTES, Header, OK};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::authority::{AT_ONCE, Authority};
use crate::client::{Client, Transport, hello};
use crate::echo::*;

struct Secured {
    fixture: Fixture,
    authority: Authority,
}

impl Secured {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let authority = Authority::new();
        let acceptor = Acceptor::new(&authority.node(&["127.0.0.1"]), ["127.0.0.1"]).unwrap();
        let rules = Rules { security: Security::Tls(ring(), acceptor), ..rules(limits) };
        Self { fixture: Fixture::with(rules), authority }
    }

    fn introduced(&self, client: u64) -> Client {
        let mut client = Client {
            transport: connect(&self.fixture.tcp, &self.authority.user()),
            hello: hello(client, 1),
            ..Client::silent(&self.fixture.tcp)
        };
        client.welcome = Some(client.ask(&client.hello.clone()).unwrap());
        client.session = client.auth(&credential()).unwrap();
        client
    }
}

/// Somebody else's TLS, and not the one under test.
struct Encrypted(StreamOwned<ClientConnection, TcpStream>);

impl Read for Encrypted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for Encrypted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.sock.as_fd()
    }
}

fn connect(endpoint: &Endpoint, certificates: &Certificates) -> Box<dyn Transport> {
    Box::new(encrypted(endpoint, certificates))
}

fn encrypted(endpoint: &Endpoint, certificates: &Certificates) -> Encrypted {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&certificates.ca.text).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(&certificates.certificate.text).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&certificates.key.text).unwrap();
    let config =
        ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Encrypted(StreamOwned::new(connection, plain(endpoint)))
}

fn plain(endpoint: &Endpoint) -> TcpStream {
    let Endpoint::Tcp { host, port } = endpoint else { panic!("TLS is spoken over TCP") };
    let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn over_tcp_tls_is_spoken_and_within_the_node_it_is_not() {
    let secured = Secured::new();
    let local = Client::introduced(&secured.fixture.unix, hello(2, 1), &credential());
    for mut client in [secured.introduced(1), local] {
        client.send(ECHO, b"body", &vec![7; 3 << 20]);
        let reply = client.receive().unwrap();
        assert_eq!((reply.header.status, &reply.body[..]), (OK, &b"body"[..]));
        assert!(reply.data == vec![7; 3 << 20]);
    }
}

/// What follows a message in its record is inside when the message is served, and epoll says nothing of it.
#[test]
fn requests_that_come_in_one_go_are_all_answered() {
    let secured = Secured::new();
    let mut client = secured.introduced(1);
    for data_bytes in [0, 10, 5_000, 70_000, 100_001] {
        let count = if data_bytes > 5_000 { 30 } else { 60 };
        let frames: Vec<u8> =
            (0..count).flat_map(|at| client.frame(ECHO, &[at], &vec![at; data_bytes])).collect();
        client.transport.write_all(&frames).unwrap();
        for at in 0..count {
            let reply = client.receive().unwrap();
            assert_eq!((reply.body, reply.data.len()), (vec![at], data_bytes));
        }
    }
}

/// The daemon is held up until all of them are in its socket, and takes more out of it than it has room for.
#[test]
fn requests_that_wait_inside_are_answered_although_nothing_more_comes() {
    let secured = Secured::new();
    let mut client = secured.introduced(1);
    // So that the window is large enough for a burst.
    for _ in 0..6 {
        client.send(ECHO, b"", &vec![7; 3 << 20]);
        client.receive().unwrap();
    }
    for _ in 0..20 {
        let first = client.frame(ECHO, b"first", b"");
        let burst: Vec<u8> =
            (0..50).flat_map(|at| client.frame(ECHO, &[at], &[at; 2_000])).collect();
        {
            let _held_up = secured.fixture.echo.served.lock().unwrap();
            client.transport.write_all(&first).unwrap();
            client.transport.write_all(&burst).unwrap();
        }
        assert_eq!(client.receive().unwrap().body, b"first");
        for at in 0..50 {
            assert_eq!(client.receive().unwrap().body, [at]);
        }
    }
}

#[test]
fn a_client_that_reads_a_byte_at_a_time_gets_its_replies_and_others_theirs() {
    let secured = Secured::new();
    let mut slow = secured.introduced(1);
    let bytes = 4 << 20;
    slow.send(PRODUCE, &u32::to_le_bytes(bytes), b"");
    let mut head = [0; HEADER_BYTES];
    for (client, byte) in (2..).zip(head.chunks_mut(1)) {
        slow.transport.read_exact(byte).unwrap();
        let mut other = secured.introduced(client);
        other.send(ECHO, b"at once", b"");
        assert_eq!(other.receive().unwrap().body, b"at once");
    }
    assert_eq!(Header::decode(&head).unwrap().data_bytes, bytes);
    let mut rest = vec![1; bytes as usize];
    rest.chunks_mut(1000).for_each(|part| slow.transport.read_exact(part).unwrap());
    assert!(rest.iter().all(|byte| *byte == 0));
}

#[test]
fn a_client_of_another_cluster_is_refused_and_counted() {
    let secured = Secured::new();
    let mine = Certificates { ca: secured.authority.user().ca, ..Authority::new().user() };
    let mut stranger = connect(&secured.fixture.tcp, &mine);
    // Its handshake is over before the daemon has looked at what it showed.
    let begun = Instant::now();
    let heard = stranger.write_all(&[0; 100]).and_then(|()| stranger.read(&mut [0; 100]).map(drop));
    assert!(heard.is_err());
    assert!(begun.elapsed() < AT_ONCE);
    eventually("it is counted", || secured.fixture.figure("net_untrusted_count") == 1);
    assert_eq!(secured.fixture.figure("net_connections"), 0);
}

#[test]
fn who_does_not_speak_tls_is_told_so_at_once() {
    let secured = Secured::new();
    let begun = Instant::now();
    let mut client = Client::silent(&secured.fixture.tcp);
    let frame = client.frame(ECHO, b"hello", b"");
    client.transport.write_all(&frame).unwrap();
    let mut heard = Vec::new();
    client.transport.read_to_end(&mut heard).unwrap();
    assert_eq!(heard[..3], [21, 3, 3], "an alert of TLS");
    assert!(begun.elapsed() < AT_ONCE);
    assert_eq!(secured.fixture.figure("net_untrusted_count"), 1);
}

#[test]
fn who_speaks_tls_where_it_is_not_spoken_is_told_so_at_once() {
    let (fixture, authority) = (Fixture::new(), Authority::new());
    let begun = Instant::now();
    let mut client = connect(&fixture.tcp, &authority.user());
    let said = client.write_all(b"hello").unwrap_err().to_string();
    assert!(said.contains("ProtocolVersion"), "{said}");
    assert!(begun.elapsed() < AT_ONCE);
    eventually("it is counted", || fixture.daemon.figures().untrusted_count.get() == 1);
}

#[test]
fn who_falls_silent_within_the_handshake_is_closed() {
    let limits = Limits { handshake_time_max: Duration::from_secs(1), ..Limits::default() };
    let secured = Secured::with(limits);
    let mut hello = Vec::new();
    let mut whole = encrypted(&secured.fixture.tcp, &secured.authority.user());
    whole.0.conn.write_tls(&mut hello).unwrap();
    drop(whole);
    for said in [0, 3, hello.len() / 2, hello.len()] {
        let mut silent = plain(&secured.fixture.tcp);
        silent.write_all(&hello[..said]).unwrap();
        let begun = Instant::now();
        let _ = silent.read_to_end(&mut Vec::new());
        assert!((Duration::from_millis(900)..AT_ONCE).contains(&begun.elapsed()), "{said}");
    }
    eventually("all seats are free", || secured.fixture.figure("net_connections") == 0);
    assert_eq!(secured.fixture.figure("net_stalled_count"), 4);
}

#[test]
fn records_that_mean_nothing_close_the_connection_and_are_counted() {
    let secured = Secured::new();
    let records: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        // Encrypted by nobody; longer than a record may be; of a handshake, in the open.
        &[&[23, 3, 3, 0, 100][..], &[5; 100]].concat(),
        &[&[23, 3, 3, 0xff, 0xff][..], &[5; 70_000]].concat(),
        &[22, 3, 3, 0, 5, 24, 0, 0, 1, 0],
    ];
    for (client, record) in (1..).zip(records) {
        let mut transport = encrypted(&secured.fixture.tcp, &secured.authority.user());
        let mut greeter =
            Client { hello: hello(client, 1), ..Client::silent(&secured.fixture.tcp) };
        let frame = greeter.frame(0x0101, b"", b"");
        let begun = Instant::now();
        // Past the handshake: what it says inside is out of turn only when it has ended.
        transport.write_all(&frame[..10]).unwrap();
        eventually("it was received", || {
            secured.fixture.figure("net_received_bytes") >= 10 * client
        });
        let _ = transport.0.sock.write_all(record);
        let _ = transport.0.sock.read_to_end(&mut Vec::new());
        assert!(begun.elapsed() < AT_ONCE);
        eventually("it is counted", || secured.fixture.figure("net_malformed_count") == client);
    }
    let mut client = secured.introduced(9);
    client.send(ECHO, b"others are served", b"");
    assert_eq!(client.receive().unwrap().body, b"others are served");
}

#[test]
fn other_certificates_are_shown_from_the_next_connection_on() {
    let secured = Secured::new();
    let mut client = secured.introduced(1);
    let authority = Authority::new();
    let acceptor = Acceptor::new(&authority.node(&["127.0.0.1"]), ["127.0.0.1"]).unwrap();
    secured.fixture.doorman.reload(Security::Tls(ring(), acceptor), Vec::new());
    let renewed = Secured { authority, ..secured };
    renewed.introduced(2);
    client.send(ECHO, b"still served", b"");
    assert_eq!(client.receive().unwrap().body, b"still served");
}
