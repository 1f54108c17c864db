//! The daemon's network against clients that are honest, careless, slow and hostile, on loopback.

#[path = "../authority/mod.rs"]
mod authority;
mod balance;
mod client;
mod echo;
mod tls;
mod trays;

use std::io::Write;
use std::time::{Duration, Instant};

use client::{Client, hello};
use echo::*;
use pvfs_net::gate::{Limits, Rules};
use pvfs_net::memory::Chance;
use pvfs_net::reactor::Stopped;
use pvfs_net::service::Departure;
use pvfs_wire::header::Kind;
use pvfs_wire::ops::{Auth, Hello, Ping, Status};
use pvfs_wire::token::{KeyRing, SessionRights, client_proof};
use pvfs_wire::{Errno, Header, OK, Operation};

#[test]
fn a_client_with_the_key_is_served_over_tcp_and_unix() {
    let fixture = Fixture::new();
    for (client, endpoint) in (10..).zip(fixture.both()) {
        let mut client = Client::introduced(&endpoint, hello(client, 1), &credential());
        client.send(ECHO, b"body", b"data");
        let reply = client.receive().unwrap();
        assert_eq!((reply.header.kind, reply.header.status), (Kind::Reply, OK));
        assert_eq!((&reply.body[..], &reply.data[..]), (&b"body"[..], &b"data"[..]));
        assert_eq!(client.welcome.unwrap().name, "io0");
    }
}

#[test]
fn nothing_but_ping_and_control_is_served_without_a_session() {
    let fixture = Fixture::new();
    let mut client = Client::greeted(&fixture.tcp, hello(1, 1)).ok().unwrap();
    client.send(ECHO, b"", b"");
    assert_eq!(client.receive().unwrap().header.status, Errno::EACCES);
    assert_eq!(client.ask(&Status {}), Err(Errno::EACCES));
    // The echo service does not know what a ping is, but it was asked.
    assert_eq!(client.ask(&Ping {}), Err(Errno::ENOSYS));
    client.session = 77;
    client.send(ECHO, b"", b"");
    assert_eq!(client.receive().unwrap().header.status, Errno::EACCES);
}

#[test]
fn a_wrong_key_and_a_replayed_proof_are_refused() {
    let fixture = Fixture::new();
    let mut client = Client::greeted(&fixture.tcp, hello(1, 1)).ok().unwrap();
    let stranger = credential_of(&KeyRing::new(&[[2; 32]]), 0, SessionRights::ADMIN, u64::MAX);
    assert_eq!(client.auth(&stranger), Err(Errno::EKEYREJECTED));

    let credential = credential();
    let server = client.welcome.as_ref().unwrap().nonce;
    let proof = client_proof(&credential.secret, &client.hello.nonce, &server);
    let auth = Auth { token: credential.token.clone(), proof };
    assert!(client.ask(&auth).is_ok());
    let mut thief = Client::greeted(&fixture.tcp, hello(2, 1)).ok().unwrap();
    thief.hello.nonce = client.hello.nonce;
    assert_eq!(thief.ask(&auth).err(), Some(Errno::EKEYREJECTED));
}

#[test]
fn versions_and_file_systems_that_do_not_fit_are_refused_with_a_status() {
    let fixture = Fixture::new();
    let newer = Hello { version_min: 9, version_max: 12, ..hello(1, 1) };
    assert_eq!(Client::greeted(&fixture.tcp, newer).err(), Some(Errno::EPROTO));
    let other = Hello { fsid: 8, ..hello(2, 1) };
    assert_eq!(Client::greeted(&fixture.tcp, other).err(), Some(Errno::ENODEV));
    let ours = Hello { fsid: 7, version_max: 12, ..hello(3, 1) };
    assert!(Client::greeted(&fixture.tcp, ours).is_ok());
}

#[test]
fn networks_that_are_not_allowed_are_refused() {
    let fixture = Fixture::with(Rules {
        networks: vec!["10.0.0.0/8".parse().unwrap()],
        ..rules(Limits::default())
    });
    assert_eq!(Client::greeted(&fixture.tcp, hello(1, 1)).err(), Some(Errno::EACCES));
    assert!(Client::greeted(&fixture.unix, hello(2, 1)).is_ok());
}

#[test]
fn root_is_nobody_unless_it_is_a_daemon_or_an_administrator() {
    let fixture = Fixture::new();
    let mut client = Client::greeted(&fixture.tcp, hello(1, 1)).ok().unwrap();
    let cases = [
        (0, SessionRights::NONE, 65_534u32),
        (0, SessionRights::ADMIN, 0),
        (0, SessionRights::DAEMON, 0),
        (1000, SessionRights::NONE, 1000),
    ];
    for (uid, rights, expected) in cases {
        client.session = client.auth(&credential_of(&ring(), uid, rights, u64::MAX)).unwrap();
        client.send(WHOAMI, b"", b"");
        assert_eq!(client.receive().unwrap().body, expected.to_le_bytes());
    }
}

#[test]
fn an_expired_session_is_refused() {
    let fixture = Fixture::new();
    let mut client = Client::greeted(&fixture.tcp, hello(1, 1)).ok().unwrap();
    let expired = credential_of(&ring(), 1000, SessionRights::NONE, 1);
    assert_eq!(client.auth(&expired), Err(Errno::EKEYEXPIRED));
}

#[test]
fn ten_bad_tokens_lock_the_address_out() {
    let fixture = Fixture::new();
    let stranger = credential_of(&KeyRing::new(&[[2; 32]]), 0, SessionRights::NONE, u64::MAX);
    let mut client = Client::greeted(&fixture.tcp, hello(1, 1)).ok().unwrap();
    for _ in 0..10 {
        assert_eq!(client.auth(&stranger), Err(Errno::EKEYREJECTED));
    }
    assert!(client.is_closed());
    assert_eq!(Client::greeted(&fixture.tcp, hello(2, 1)).err(), Some(Errno::EACCES));
    let lockouts = fixture.daemon.list_figures();
    assert!(lockouts.contains(&("net_lockouts_count".into(), 1)));
    // Users of this node are other offenders.
    assert!(Client::greeted(&fixture.unix, hello(3, 1)).is_ok());
}

#[test]
fn ten_forged_capabilities_lock_the_address_out_too() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    for _ in 0..10 {
        client.send(FORGED, b"", b"");
        assert_eq!(client.receive().unwrap().header.status, Errno::EKEYREJECTED);
    }
    assert!(client.is_closed());
    assert_eq!(Client::greeted(&fixture.tcp, hello(2, 1)).err(), Some(Errno::EACCES));
}

#[test]
fn a_newer_incarnation_replaces_the_older_and_an_older_is_refused() {
    let fixture = Fixture::new();
    for (client, endpoint) in (10..).zip(fixture.both()) {
        let mut old = Client::introduced(&endpoint, hello(client, 3), &credential());
        let mut new = Client::introduced(&endpoint, hello(client, 4), &credential());
        assert!(old.is_closed());
        assert!(
            fixture.echo.departed.lock().unwrap().contains(&(client, Departure::Replaced)),
            "the service knows before the newer one is welcomed"
        );
        assert_eq!(Client::greeted(&endpoint, hello(client, 3)).err(), Some(Errno::ESTALE));
        assert_eq!(Client::greeted(&endpoint, hello(client, 4)).err(), Some(Errno::ESTALE));
        new.send(ECHO, b"still here", b"");
        assert_eq!(new.receive().unwrap().body, b"still here");
    }
}

/// A write that still runs on a worker must not land after the client has reconnected.
#[test]
fn a_newer_incarnation_is_welcomed_only_when_changes_of_the_older_are_over() {
    let fixture = Fixture::new();
    let mut old = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    old.send(HOLD, b"late", b"");
    eventually("the request is held", || fixture.echo.held.lock().unwrap().len() == 1);
    let endpoint = fixture.tcp.clone();
    let newer = std::thread::spawn(move || Client::greeted(&endpoint, hello(1, 2)).is_ok());
    assert!(old.is_closed());
    std::thread::sleep(Duration::from_millis(100));
    assert!(!newer.is_finished());
    fixture.echo.held.lock().unwrap().clear();
    assert!(newer.join().unwrap());
}

#[test]
fn a_thousand_pipelined_requests_are_answered_in_few_rounds() {
    let fixture = Fixture::new();
    for (client, endpoint) in (10..).zip(fixture.both()) {
        let mut client = Client::introduced(&endpoint, hello(client, 1), &credential());
        fixture.echo.rounds.lock().unwrap().clear();
        let mut answered = 0u32;
        for batch in 0..25u32 {
            let frames: Vec<u8> = (0..40)
                .flat_map(|n| client.frame(ECHO, &(batch * 40 + n).to_le_bytes(), b""))
                .collect();
            client.transport.write_all(&frames).unwrap();
            for _ in 0..40 {
                assert_eq!(client.receive().unwrap().body, answered.to_le_bytes());
                answered += 1;
            }
        }
        assert_eq!(answered, 1000);
        let rounds = fixture.echo.rounds.lock().unwrap();
        assert!(rounds.len() < 250, "{} rounds for 25 batches", rounds.len());
    }
}

#[test]
fn large_data_travels_both_ways() {
    let fixture = Fixture::new();
    for (client, endpoint) in (10..).zip(fixture.both()) {
        let mut client = Client::introduced(&endpoint, hello(client, 1), &credential());
        for bytes in [1, 4096, 65_535, 65_536, 100_000, 1 << 20, 4 << 20, 5, 4 << 20] {
            let data: Vec<u8> =
                (0..bytes).map(|at: u32| (at.wrapping_mul(31) >> 3) as u8).collect();
            client.send(ECHO, b"", &data);
            assert!(client.receive().unwrap().data == data, "{bytes} bytes");
        }
    }
}

#[test]
fn replies_come_from_other_threads_and_kept_data_outlives_its_round() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    for delay_ms in [30u8, 20, 10, 0] {
        client.send(LATER, &[delay_ms], &vec![delay_ms; 100_000]);
    }
    let mut seen: Vec<u8> = (0..4)
        .map(|_| {
            let reply = client.receive().unwrap();
            assert!(reply.data == vec![reply.body[0]; 100_000]);
            reply.body[0]
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 10, 20, 30]);
    eventually("all buffers are back", || fixture.echo.pool.lent_bytes() == 0);
}

#[test]
fn a_dropped_ticket_answers_eio() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    client.send(FORGET, b"", b"");
    assert_eq!(client.receive().unwrap().header.status, Errno::EIO);
}

#[test]
fn a_request_that_is_to_have_no_reply_is_served_and_has_none() {
    let fixture = Fixture::new();
    for (number, endpoint) in (10..).zip(fixture.both()) {
        let mut client = Client::introduced(&endpoint, hello(number, 1), &credential());
        for round in 0..100 {
            // Answered at once, by another thread, by nobody, and by the gate.
            let session = client.session;
            [ECHO, LATER, FORGET].into_iter().for_each(|way| client.post(way, &[1, round]));
            client.session = 0;
            client.post(ECHO, b"nobody's");
            client.session = session;
            client.send(ECHO, b"heard", b"");
            assert_eq!(client.receive().unwrap().body, b"heard");
        }
        let served = fixture.echo.served.lock().unwrap();
        let bodies: Vec<&[u8]> =
            served.iter().filter(|(by, _)| *by == number).map(|(_, body)| &body[..]).collect();
        assert_eq!(bodies.len(), 400);
        assert!(bodies.contains(&&[1, 99][..]) && !bodies.contains(&&b"nobody's"[..]));
    }
}

#[test]
fn a_duplicate_or_older_tag_is_dropped_and_counted() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    let first = client.frame(ECHO, b"first", b"");
    let second = client.frame(ECHO, b"second", b"");
    client.transport.write_all(&[&first[..], &second, &first, &second].concat()).unwrap();
    assert_eq!(client.receive().unwrap().body, b"first");
    assert_eq!(client.receive().unwrap().body, b"second");
    client.send(ECHO, b"third", b"");
    assert_eq!(client.receive().unwrap().body, b"third");
    assert_eq!(fixture.daemon.figures().duplicates_count.get(), 2);
}

#[test]
fn more_outstanding_than_agreed_closes_the_connection() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    for _ in 0..65 {
        client.send(HOLD, b"", b"");
    }
    assert!(client.is_closed());
    let mut client = Client::introduced(&fixture.tcp, hello(2, 1), &credential());
    let data = vec![0; 4 << 20];
    for _ in 0..4 {
        client.send(HOLD, b"", &data);
    }
    // Refused by its header, before its data arrive.
    let frame = client.frame(HOLD, b"", &[1]);
    client.transport.write_all(&frame[..64]).unwrap();
    assert!(client.is_closed());
    assert_eq!(fixture.daemon.figures().unruly_count.get(), 2);
}

#[test]
fn a_reader_that_does_not_read_holds_no_more_than_its_cap_and_is_closed() {
    let limits = Limits { stall_time_max: Duration::from_secs(1), ..Limits::default() };
    let fixture = Fixture::with(rules(limits));
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    let bytes = (1u32 << 20).to_le_bytes();
    let mut most = 0;
    // Its requests are never over what was agreed: sent one by one, answered one by one.
    for _ in 0..60 {
        let frame = client.frame(PRODUCE, &bytes, b"");
        client.transport.write_all(&frame).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        most = most.max(fixture.echo.pool.lent_bytes());
    }
    assert!(most <= (8 << 20) + (3 << 20), "{most} bytes were queued");
    eventually("it is closed", || fixture.daemon.figures().stalled_count.get() == 1);
    eventually("its memory is back", || fixture.echo.pool.lent_bytes() == 0);
}

/// However many large replies are asked for at once, no more are made than the cap allows.
#[test]
fn many_large_replies_asked_for_at_once_are_made_little_by_little() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    let bytes = (4u32 << 20).to_le_bytes();
    let frames: Vec<u8> = (0..60).flat_map(|_| client.frame(PRODUCE, &bytes, b"")).collect();
    client.transport.write_all(&frames).unwrap();
    let mut most = 0;
    for _ in 0..60 {
        most = most.max(fixture.echo.pool.lent_bytes());
        assert_eq!(client.receive().unwrap().data.len(), 4 << 20);
    }
    // The first round is a guess; all later ones know.
    assert!(most <= 10 * (4 << 20), "{most} bytes were lent");
}

#[test]
fn connections_are_capped_and_silent_ones_are_closed() {
    let limits = Limits {
        connections_max: 4,
        handshake_time_max: Duration::from_secs(1),
        ..Limits::default()
    };
    let fixture = Fixture::with(rules(limits));
    let mut silent: Vec<Client> = (0..4).map(|_| Client::silent(&fixture.tcp)).collect();
    eventually("all have seats", || fixture.daemon.figures().connections.get() == 4);
    assert!(Client::silent(&fixture.tcp).is_closed());
    for client in &mut silent {
        assert!(client.is_closed());
    }
    eventually("all seats are free", || fixture.daemon.figures().connections.get() == 0);
    assert!(Client::greeted(&fixture.tcp, hello(1, 1)).is_ok());
}

#[test]
fn malformed_bytes_close_the_connection_and_are_counted() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    let mut wrong_body = client.frame(ECHO, b"body", b"data");
    wrong_body[64] ^= 1;
    let mut wrong_data = client.frame(ECHO, b"body", b"data");
    wrong_data[68] ^= 1;
    let mut wrong_kind = Header::request(ECHO, 9);
    wrong_kind.kind = Kind::Reply;
    let cases =
        [wrong_body, wrong_data, wrong_kind.encode().to_vec(), b"GET / HTTP/1.1\r\n".repeat(8)];
    for (index, bytes) in (2..).zip(cases) {
        let mut client = Client::introduced(&fixture.tcp, hello(index, 1), &credential());
        client.tag = 5;
        client.transport.write_all(&bytes).unwrap();
        assert!(client.is_closed());
    }
    assert_eq!(fixture.daemon.figures().malformed_count.get(), 4);
    client.tag += 5;
    client.send(ECHO, b"others are served", b"");
    assert_eq!(client.receive().unwrap().body, b"others are served");
}

#[test]
fn random_bytes_never_bring_the_daemon_down() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut chance = Chance::new(seed);
    let fixture = Fixture::new();
    for round in 0..300u64 {
        let greets = round.is_multiple_of(3);
        let mut client = match greets {
            true => Client::introduced(&fixture.tcp, hello(1000 + round, 1), &credential()),
            false => Client::silent(&fixture.tcp),
        };
        let operation = [Hello::CODE, Auth::CODE, ECHO, FORGET][chance.below(4)];
        let body: Vec<u8> = (0..chance.below(300)).map(|_| chance.below(256) as u8).collect();
        let mut bytes = client.frame(operation, &body, &body);
        for _ in 0..chance.below(3) {
            let at = chance.below(bytes.len());
            bytes[at] ^= 1 << chance.below(8);
        }
        bytes.truncate(1 + chance.below(bytes.len() * 2));
        // The daemon may close at any time.
        let _ = client.transport.write_all(&bytes);
    }
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    client.send(ECHO, b"alive", b"");
    assert_eq!(client.receive().unwrap().body, b"alive");
}

#[test]
fn a_stop_answers_what_was_asked() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    client.send(LATER, &[200], b"");
    eventually("it is being served", || fixture.echo.served.lock().unwrap().len() == 1);
    let start = Instant::now();
    assert_eq!(fixture.daemon.stop(Duration::from_secs(5)), Stopped::Cleanly);
    assert!(start.elapsed() >= Duration::from_millis(100));
    assert_eq!(client.receive().unwrap().body, [200]);
    assert!(client.is_closed());
    assert!(client::connect(&fixture.tcp).is_err() && client::connect(&fixture.unix).is_err());
}

#[test]
fn a_stop_ends_at_its_deadline() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    client.send(HOLD, b"", b"");
    eventually("it is held", || fixture.echo.held.lock().unwrap().len() == 1);
    let start = Instant::now();
    assert_eq!(fixture.daemon.stop(Duration::from_millis(300)), Stopped::InTheMiddle);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(client.is_closed());
}

#[test]
fn an_emergency_stop_closes_at_once_and_resume_needs_no_restart() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    client.send(HOLD, b"", b"");
    eventually("it is held", || fixture.echo.held.lock().unwrap().len() == 1);
    let start = Instant::now();
    fixture.daemon.estop();
    assert!(client.is_closed());
    assert!(start.elapsed() < Duration::from_secs(1));
    fixture.echo.held.lock().unwrap().clear();
    let mut client = Client::introduced(&fixture.tcp, hello(1, 2), &credential());
    client.send(ECHO, b"", b"");
    assert_eq!(client.receive().unwrap().header.status, Errno::EIO);
    assert_eq!(client.ask(&Ping {}), Err(Errno::ENOSYS));
    fixture.daemon.resume();
    client.send(ECHO, b"again", b"");
    assert_eq!(client.receive().unwrap().body, b"again");
}

/// `estop` reaches the one daemon that carries it out, and its answer reaches who ordered it.
#[test]
fn the_order_of_an_emergency_stop_is_answered() {
    let fixture = Fixture::new();
    fixture.echo.daemon.set(fixture.daemon.clone()).ok().unwrap();
    let mut other = Client::introduced(&fixture.unix, hello(2, 1), &credential());
    let mut client = Client::introduced(&fixture.tcp, hello(1, 1), &credential());
    client.send(ESTOP, b"", b"");
    assert_eq!(client.receive().unwrap().header.status, OK);
    assert!(client.is_closed() && other.is_closed());
    assert!(fixture.daemon.list_figures().contains(&("net_connections".into(), 0)));
}

#[test]
fn a_stale_socket_file_is_taken_over_and_a_living_one_is_not() {
    use pvfs_net::listener::Listener;
    let fixture = Fixture::new();
    assert!(Listener::bind(&fixture.unix).is_err());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let endpoint = pvfs_net::endpoint::Endpoint::unix(&path);
    assert_eq!(Listener::bind(&endpoint).unwrap().len(), 1);
    std::fs::write(&path, "no socket").unwrap();
    assert!(Listener::bind(&endpoint).is_err());
    assert!(path.exists());
}

#[test]
fn the_welcome_says_what_was_agreed() {
    let fixture = Fixture::new();
    let client = Client::greeted(&fixture.tcp, hello(1, 1)).ok().unwrap();
    let welcome = client.welcome.unwrap();
    assert_eq!((welcome.boot, welcome.requests_max, welcome.lease_kept), (42, 64, true));
}
