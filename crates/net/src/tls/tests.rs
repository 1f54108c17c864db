//! Two ends of one connection over a pair of sockets, driven by one thread.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use pvfs_config::Certificates;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection};

use self::authority::{Authority, Purpose, pem};
use super::setup::Trust;
use super::*;
use crate::memory::Chance;
use crate::socket::Socket;
use crate::stream::Stream;

#[path = "../../tests/authority/mod.rs"]
mod authority;

struct End {
    wire: OwnedFd,
    session: Session,
}

impl End {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // As a header, a body and data are offered.
        let (first, rest) = bytes.split_at(bytes.len().min(64));
        self.session.send(self.wire.as_fd(), &[IoSlice::new(first), IoSlice::new(rest)])
    }

    fn receive(&mut self, room: usize) -> io::Result<Vec<u8>> {
        let (mut first, mut rest) = (vec![0; room.div_ceil(3)], vec![0; room - room.div_ceil(3)]);
        let mut pieces = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut rest)];
        let bytes = self.session.receive(self.wire.as_fd(), &mut pieces)?;
        let mut all = [first, rest].concat();
        all.truncate(bytes);
        Ok(all)
    }

    fn shake(&mut self) -> io::Result<Option<Interest>> {
        self.session.handshake(self.wire.as_fd())
    }

    fn is_readable(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.wire, PollFlags::IN)], Some(&now)).unwrap() == 1
    }
}

fn pair(client: Session, server: Session) -> (End, End) {
    let (one, other) = UnixStream::pair().unwrap();
    let ends = [(one, client), (other, server)].map(|(stream, session)| {
        stream.set_nonblocking(true).unwrap();
        let wire: OwnedFd = stream.into();
        sockopt::set_socket_send_buffer_size(&wire, 40_000).unwrap();
        End { wire, session }
    });
    ends.into()
}

fn between(client: &Connector, server: &Acceptor) -> (End, End) {
    pair(client.begin("localhost").unwrap(), server.begin().unwrap())
}

fn client_of(certificates: &Certificates) -> Connector {
    Connector::unchecked(certificates, &Trust::new(certificates).unwrap()).unwrap()
}

fn server_of(certificates: &Certificates) -> Acceptor {
    Acceptor::unchecked(certificates, &Trust::new(certificates).unwrap()).unwrap()
}

/// Both ends after their handshakes.
fn open() -> (End, End) {
    let authority = Authority::new();
    let node = authority.node(&["localhost"]);
    let (mut client, mut server) = between(&client_of(&authority.user()), &server_of(&node));
    assert_eq!(shake_hands(&mut client, &mut server), (None, None));
    (client, server)
}

/// Lets both go on until neither can; the fault of each.
fn shake_hands(client: &mut End, server: &mut End) -> (Option<TlsFault>, Option<TlsFault>) {
    let faults = [0; 10].map(|_| {
        let faults = [&mut *client, &mut *server].map(|end| match end.shake() {
            Ok(Some(_)) => None,
            // A client hears only later what a daemon thinks of its certificate.
            Ok(None) => match end.receive(1) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => TlsFault::of(&error),
                _ => None,
            },
            Err(error) => TlsFault::of(&error),
        });
        (faults[0], faults[1])
    });
    let is_open = client.session.is_open && server.session.is_open;
    let last = faults[9];
    assert!(is_open || last != (None, None), "the handshake has come to a halt");
    last
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ (at >> 9) as u8).collect()
}

/// Moves bytes both ways at once. A reader asks only when it is told to: by poll, or by the session.
fn exchange(client: &mut End, server: &mut End, bytes: usize, reads: usize, chance: &mut Chance) {
    let whole = pattern(bytes);
    let (mut sent, mut got) = ([0; 2], [Vec::new(), Vec::new()]);
    let mut idle = 0;
    while got.iter().any(|got| got.len() < bytes) {
        let before = (sent, got[0].len(), got[1].len());
        for (end, which) in [(&mut *client, 0), (&mut *server, 1)] {
            // Never less than was offered before.
            match end.send(&whole[sent[which]..]) {
                Ok(taken) => sent[which] += taken,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(end.session.owed_bytes <= INSIDE_BYTES_MAX);
            for _ in 0..chance.below(4) {
                if end.session.has_more() || end.is_readable() {
                    match end.receive(1 + chance.below(reads)) {
                        Ok(more) => got[which].extend(more),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                    }
                }
                assert!(end.session.received.len() <= RECEIVE_BYTES);
            }
        }
        let is_idle = before == (sent, got[0].len(), got[1].len());
        idle = if is_idle { idle + 1 } else { 0 };
        assert!(idle < 100, "nothing moves: {sent:?} of {bytes} sent");
    }
    assert!(got[0] == whole && got[1] == whole, "other bytes arrived than were sent");
}

#[test]
fn bytes_arrive_in_order_however_they_are_cut_and_both_ways_at_once() {
    for (seed, bytes) in (1..).zip([1, 63, 65, 16_384, 16_385, 300_000, 2_000_000]) {
        let (mut client, mut server) = open();
        let mut chance = Chance::new(seed);
        for reads in [1 << 20, 100_000, 5_000] {
            exchange(&mut client, &mut server, bytes, reads, &mut chance);
        }
    }
}

#[test]
fn a_reader_that_takes_a_byte_at_a_time_gets_all() {
    let (mut client, mut server) = open();
    exchange(&mut client, &mut server, 50_000, 1, &mut Chance::new(5));
}

#[test]
fn nothing_is_reported_as_sent_before_it_is_in_the_socket() {
    let (mut client, mut server) = open();
    let whole = pattern(1 << 20);
    let mut sent = 0;
    while let Ok(taken) = client.send(&whole[sent..]) {
        sent += taken;
    }
    assert!(sent < whole.len(), "the socket takes all of it, and this shows nothing");
    // What was not reported is lost with this end; what was is not.
    drop(client);
    let mut got = Vec::new();
    while got.len() < sent {
        let more = server.receive(1 << 20).unwrap();
        assert!(!more.is_empty(), "{} of {sent} bytes have arrived", got.len());
        got.extend(more);
    }
    assert!(whole.starts_with(&got));
}

#[test]
fn the_end_is_heard_behind_all_that_was_sent() {
    let (mut client, mut server) = open();
    assert_eq!(client.send(&pattern(20_000)).unwrap(), 20_000);
    drop(client);
    let mut got = Vec::new();
    loop {
        let more = server.receive(7_000).unwrap();
        if more.is_empty() {
            break;
        }
        got.extend(more);
    }
    assert!(got == pattern(20_000));
}

#[test]
fn each_end_says_what_it_does_not_like_about_the_other() {
    use Defect::{Expired, Missing, Name, Purpose as WrongPurpose, UnknownCa};
    use TlsFault::{Ours, Theirs};
    let (ours, others) = (Authority::new(), Authority::new());
    let (node, user) = (ours.node(&["localhost"]), ours.user());
    let old = |purpose| ours.issue(&["localhost"], purpose, 2010);
    // Whose signature is believed is one thing, and whose is shown another.
    let mixed = |mine: Certificates| Certificates { ca: node.ca.clone(), ..mine };
    let cases = [
        (user.clone(), mixed(others.node(&["localhost"])), Theirs(UnknownCa), Ours(UnknownCa)),
        (user.clone(), ours.node(&["elsewhere"]), Theirs(Name), Ours(Defect::Unusable)),
        (user.clone(), old(Purpose::Node), Theirs(Expired), Ours(Expired)),
        (
            user.clone(),
            ours.issue(&["localhost"], Purpose::User, 2100),
            Theirs(WrongPurpose),
            Ours(WrongPurpose),
        ),
        (mixed(others.user()), node.clone(), Ours(UnknownCa), Theirs(UnknownCa)),
        (old(Purpose::User), node.clone(), Ours(Expired), Theirs(Expired)),
    ];
    for (client, server, client_says, server_says) in cases {
        let (mut client, mut server) = between(&client_of(&client), &server_of(&server));
        let said = shake_hands(&mut client, &mut server);
        assert_eq!(said, (Some(client_says), Some(server_says)));
    }
    let (mut client, mut server) =
        pair(without_certificate(&user), server_of(&node).begin().unwrap());
    let said = shake_hands(&mut client, &mut server);
    assert_eq!(said, (Some(Ours(Missing)), Some(Theirs(Missing))));
}

/// A client that believes as any other, and shows nothing.
fn without_certificate(certificates: &Certificates) -> Session {
    let trust = Trust::new(certificates).unwrap();
    let config = ClientConfig::builder_with_provider(trust.provider.clone())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_webpki_verifier(trust.servers.clone())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    Session::new(ClientConnection::new(config.into(), name).unwrap().into())
}

#[test]
fn what_others_would_not_take_is_found_before_anybody_connects() {
    let (ours, others) = (Authority::new(), Authority::new());
    let accept = |certificates: &Certificates, host: &str| {
        Acceptor::new(certificates, [host]).map_err(|error| error.to_string()).err()
    };
    let says = |said: Option<String>, words: &str| {
        let said = said.expect("it is refused");
        assert!(said.contains(words), "{said}");
    };
    let node = ours.node(&["localhost", "10.0.0.1"]);
    assert_eq!(accept(&node, "localhost"), None);
    assert_eq!(accept(&node, "10.0.0.1"), None);
    says(accept(&node, "10.0.0.2"), "the certificate node.pem does not name 10.0.0.2");
    says(accept(&node, "no name"), "does not name no name");
    let user = ours.issue(&["localhost"], Purpose::User, 2100);
    says(accept(&user, "localhost"), "node.pem is one of users, and cannot stand for a daemon");
    says(accept(&ours.issue(&["localhost"], Purpose::Node, 2010), "localhost"), "has expired");
    let strange = Certificates { ca: others.user().ca, ..node.clone() };
    says(accept(&strange, "localhost"), "was not signed by this cluster's CA");
    let mixed = Certificates { key: user.key.clone(), ..node.clone() };
    says(accept(&mixed, "localhost"), "the key node.key is not that of the certificate node.pem");
    let empty = Certificates { ca: pem("ca.pem", String::new()), ..node.clone() };
    says(accept(&empty, "localhost"), "ca.pem holds no certificate in PEM form");
    let keyless = Certificates { key: pem("node.key", "?".into()), ..node };
    says(accept(&keyless, "localhost"), "node.key holds no private key in PEM form");
    assert!(Connector::new(&user).is_ok());
    says(
        Connector::new(&strange).map_err(|error| error.to_string()).err(),
        "was not signed by this cluster's CA",
    );
}

/// Passes on what one end sends, with one bit of it turned over.
#[test]
fn no_bit_is_changed_on_the_way_without_being_noticed() {
    let authority = Authority::new();
    let (connector, acceptor) =
        (client_of(&authority.user()), server_of(&authority.node(&["localhost"])));
    let mut noticed = 0;
    for seed in 1..120 {
        let mut chance = Chance::new(seed);
        let (mut client, near) =
            pair(connector.begin("localhost").unwrap(), acceptor.begin().unwrap());
        let (far, mut server) =
            pair(connector.begin("localhost").unwrap(), acceptor.begin().unwrap());
        let target = chance.below(4500);
        let (mut passed, mut got) = (0, Vec::new());
        let mut is_broken = false;
        for _ in 0..30 {
            for end in [&mut client, &mut server] {
                is_broken |= end.shake().is_err();
            }
            let _ = client.session.is_open.then(|| client.send(&pattern(3000)));
            for (from, to) in [(&near.wire, &far.wire), (&far.wire, &near.wire)] {
                let mut buffer = [0; 40_000];
                if let Ok((_, count)) = rustix::net::recv(from, &mut buffer, RecvFlags::DONTWAIT) {
                    if (passed..passed + count).contains(&target) {
                        buffer[target - passed] ^= 1 << chance.below(8);
                    }
                    passed += count;
                    let _ = rustix::net::send(to, &buffer[..count], SendFlags::NOSIGNAL);
                }
            }
            match server.receive(1000) {
                Ok(more) => got.extend(more),
                Err(error) => is_broken |= error.kind() != ErrorKind::WouldBlock,
            }
            // Alerts, for one, are encrypted too: what cannot be read is no word at all.
            is_broken |=
                client.receive(1).is_err_and(|error| error.kind() != ErrorKind::WouldBlock);
        }
        let expected = pattern(3000);
        let is_right = got.chunks(3000).all(|part| expected.starts_with(part));
        assert!(is_right, "seed {seed}: a byte was changed");
        noticed += usize::from(is_broken);
    }
    // A record's version field means nothing in TLS 1.3, and a changed length may be waited for for ever.
    assert!(noticed > 90, "only {noticed} of 119");
}

#[test]
fn bytes_that_are_no_tls_end_it_and_are_never_believed() {
    let authority = Authority::new();
    let acceptor = server_of(&authority.node(&["localhost"]));
    for seed in 1..200 {
        let mut chance = Chance::new(seed);
        let (peer, mut server) = pair(
            client_of(&authority.user()).begin("localhost").unwrap(),
            acceptor.begin().unwrap(),
        );
        let mut bytes: Vec<u8> = (0..70_000).map(|_| chance.below(256) as u8).collect();
        if seed % 2 == 0 {
            // The beginning of a handshake record of some length.
            bytes[..3].copy_from_slice(&[22, 3, 1]);
        }
        let mut faults = Vec::new();
        for part in bytes.chunks(1 + chance.below(20_000)) {
            let _ = rustix::net::send(&peer.wire, part, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            for _ in 0..20 {
                match server.shake() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("seed {seed}: that was no handshake"),
                    Err(error) => faults.push(TlsFault::of(&error)),
                }
            }
        }
        assert!(
            faults.iter().all(Option::is_some) && !faults.is_empty(),
            "seed {seed}: {faults:?}"
        );
        assert!(faults.iter().all(|fault| *fault == faults[0]), "seed {seed}: {faults:?}");
    }
    let (peer, mut server) =
        pair(client_of(&authority.user()).begin("localhost").unwrap(), acceptor.begin().unwrap());
    rustix::net::send(&peer.wire, b"PVFS\x01 and so on", SendFlags::NOSIGNAL).unwrap();
    assert_eq!(TlsFault::of(&server.shake().unwrap_err()), Some(TlsFault::Unspoken));
    let mut answer = [0; 100];
    let (_, count) = rustix::net::recv(&peer.wire, &mut answer, RecvFlags::DONTWAIT).unwrap();
    assert!(is_alert(&answer[..count]));
}

#[test]
fn who_does_not_speak_tls_is_understood_when_it_says_so() {
    let authority = Authority::new();
    let user = client_of(&authority.user());
    let node = server_of(&authority.node(&["localhost"]));
    let (mut client, peer) = pair(user.begin("localhost").unwrap(), node.begin().unwrap());
    assert_eq!(client.shake().unwrap(), Some(Interest::Readable));
    let mut hello = [0; 4096];
    let (_, count) = rustix::net::recv(&peer.wire, &mut hello, RecvFlags::DONTWAIT).unwrap();
    assert!(is_hello(&hello[..count]));
    rustix::net::send(&peer.wire, &NOT_SPOKEN, SendFlags::NOSIGNAL).unwrap();
    assert_eq!(TlsFault::of(&client.shake().unwrap_err()), Some(TlsFault::Unspoken));
}

#[test]
fn why_a_daemon_closed_is_heard_by_who_was_about_to_send() {
    let (ours, others) = (Authority::new(), Authority::new());
    let node = ours.node(&["localhost"]);
    let stranger = Certificates { ca: node.ca.clone(), ..others.user() };
    let (mut client, mut server) = between(&client_of(&stranger), &server_of(&node));
    while client.shake().unwrap().is_some() {
        server.shake().unwrap();
    }
    let unknown = Some(TlsFault::Theirs(Defect::UnknownCa));
    assert_eq!(TlsFault::of(&server.shake().unwrap_err()), unknown);
    drop(server);
    let unknown = Some(TlsFault::Ours(Defect::UnknownCa));
    assert_eq!(TlsFault::of(&client.send(b"hello").unwrap_err()), unknown);
    assert!(client.session.has_more(), "it is said again to who receives");
    assert_eq!(TlsFault::of(&client.receive(10).unwrap_err()), unknown);
}

#[test]
fn a_part_of_a_record_wakes_who_waits_for_a_whole_message() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, address) = listener.accept().unwrap();
    let mut socket = Socket::accepted(stream.into(), Some(address.ip())).unwrap();
    let acceptor = server_of(&Authority::new().node(&["localhost"]));
    socket.secure(acceptor.begin().unwrap());
    socket.expect(1000);
    sender.write_all(&[22]).unwrap();
    let wait = Timespec { tv_sec: 5, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait)), Ok(1));
}

#[test]
fn nothing_is_read_behind_what_means_nothing() {
    let (client, mut server) = open();
    let garbage = [255; 20_000];
    while rustix::net::send(&client.wire, &garbage, SendFlags::DONTWAIT).is_ok() {}
    // Nobody is there to hear why.
    drop(client);
    assert_eq!(TlsFault::of(&server.receive(10).unwrap_err()), Some(TlsFault::Malformed));
    assert_eq!(TlsFault::of(&server.receive(10).unwrap_err()), Some(TlsFault::Malformed));
    let mut rest = [0; 10];
    assert!(rustix::net::recv(&server.wire, &mut rest, RecvFlags::DONTWAIT).unwrap().1 > 0);
}
