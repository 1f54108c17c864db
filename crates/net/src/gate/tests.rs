//! What the gate lets pass, with a clock that the test turns.

use pvfs_wire::Bytes;
use pvfs_wire::ops::Denial;
use pvfs_wire::token::{Credential, KeyRing, SessionRights};

use super::*;

const HERE: Origin = Origin::Unix { uid: 1000 };
const WORK: u16 = 0x0300;

/// One who lets everybody in, and asks for no key.
pub(crate) fn doorman(limits: Limits) -> Arc<Doorman> {
    Arc::new(Doorman::new(Rules {
        name: "io0".into(),
        boot: 1,
        fsid: 7,
        security: Security::None,
        networks: Vec::new(),
        root_squash: true,
        limits,
        secret: [3; 32],
    }))
}

fn at(second: u64) -> Now {
    Now { instant: Instant(second * 1_000_000_000), wall_s: second }
}

struct Visitor {
    gate: Gate,
    tag: u64,
    nonce: Nonce,
}

impl Visitor {
    fn welcomed(doorman: &Arc<Doorman>, client: u64) -> Self {
        let gate = Gate::new(doorman.clone(), ConnectionId(client), HERE, at(100));
        let mut visitor = Self { gate, tag: 0, nonce: [0; 32] };
        let hello = Hello {
            version_min: VERSION,
            version_max: VERSION,
            client,
            lane: 0,
            incarnation: 1,
            fsid: 7,
            nonce: [5; 32],
            software: String::new(),
        };
        assert!(matches!(visitor.say(&hello, at(100)), Verdict::Greet(older) if older.is_empty()));
        assert!(visitor.gate.may_open().is_some());
        let response = visitor.gate.welcome(Reception::default());
        visitor.nonce = Welcome::from_bytes(&response.body).unwrap().nonce;
        visitor
    }

    fn say<O: Operation>(&mut self, request: &O, now: Now) -> Verdict {
        self.tag += 1;
        let body = request.to_bytes();
        self.gate.pass(&Header::request(O::CODE, self.tag).with_body(&body), &body, now)
    }

    fn auth(&mut self, expiry: u64, now: Now) -> Result<u32, Errno> {
        let ring = KeyRing::new(&[[0; 32]]);
        let session = Session {
            id: 1,
            uid: 1000,
            gid: 100,
            gids: Vec::new(),
            rights: SessionRights::NONE,
            issued: 0,
            expiry,
        };
        let credential = Credential::issue(&ring, &session);
        let proof = client_proof(&credential.secret, &[5; 32], &self.nonce);
        let token = Bytes(credential.token.to_vec());
        match self.say(&Auth { token, proof }, now) {
            Verdict::Believe(response, session) => {
                assert_eq!((session.id, response.status), (1, pvfs_wire::OK));
                Ok(Authed::from_bytes(&response.body).unwrap().session)
            }
            Verdict::Answer(response) => Err(response.status),
            _ => panic!("an auth is answered"),
        }
    }

    /// The status of a request that is answered by the gate; OK if it is passed on.
    fn work(&mut self, session: u32, now: Now) -> Errno {
        self.tag += 1;
        let header = Header { session, ..Header::request(WORK, self.tag).with_body(&[]) };
        match self.gate.pass(&header, &[], now) {
            Verdict::Serve(Some(_)) => {
                self.gate.answered(&header);
                pvfs_wire::OK
            }
            Verdict::Answer(response) => response.status,
            _ => panic!("work is served or answered"),
        }
    }
}

#[test]
fn a_session_ends_in_the_middle_of_a_connection() {
    let mut visitor = Visitor::welcomed(&doorman(Limits::default()), 1);
    let session = visitor.auth(1000, at(100)).unwrap();
    assert_eq!(visitor.work(session, at(1000 + CLOCK_SKEW_S)), pvfs_wire::OK);
    assert_eq!(visitor.work(session, at(1001 + CLOCK_SKEW_S)), Errno::EKEYEXPIRED);
    let renewed = visitor.auth(9000, at(1100)).unwrap();
    assert_ne!(renewed, session);
    assert_eq!(visitor.work(renewed, at(1100)), pvfs_wire::OK);
}

#[test]
fn a_denied_session_is_not_believed_any_more_wherever_it_is_used() {
    let doorman = doorman(Limits::default());
    let (mut one, mut other) = (Visitor::welcomed(&doorman, 1), Visitor::welcomed(&doorman, 2));
    let session = one.auth(1000, at(100)).unwrap();
    assert_eq!(one.work(session, at(100)), pvfs_wire::OK);
    let denial = |session, uid| Denial { session, uid, issued_until: 99, expiry: 1000 };
    doorman.denials().add(denial(Some(7), None), 100).unwrap();
    assert_eq!(one.work(session, at(100)), pvfs_wire::OK, "another one was meant");
    doorman.denials().add(denial(None, Some(1000)), 100).unwrap();
    assert_eq!(one.work(session, at(100)), Errno::EKEYREVOKED);
    assert_eq!(one.work(session, at(100)), Errno::EKEYREVOKED);
    assert_eq!(one.auth(1000, at(100)), Err(Errno::EKEYREVOKED));
    assert_eq!(other.auth(1000, at(100)), Err(Errno::EKEYREVOKED));
    assert_eq!(doorman.lockouts_count(), 0, "it is signed: no offence");
}

#[test]
fn sessions_are_bounded_and_their_numbers_are_never_given_again() {
    let limits = Limits { sessions_max: 3, ..Limits::default() };
    let mut visitor = Visitor::welcomed(&doorman(limits), 1);
    let short = visitor.auth(200, at(100)).unwrap();
    let long: Vec<u32> = (0..2).map(|_| visitor.auth(9000, at(100)).unwrap()).collect();
    assert_eq!(visitor.auth(9000, at(100)), Err(Errno::EMFILE));
    let next = visitor.auth(9000, at(500)).unwrap();
    assert!(![short, long[0], long[1]].contains(&next));
    assert_eq!(visitor.work(short, at(500)), Errno::EKEYEXPIRED);
    assert_eq!(visitor.work(next + 1, at(500)), Errno::EACCES);
    assert_eq!(visitor.work(0, at(500)), Errno::EACCES);
    for number in [long[0], long[1], next] {
        assert_eq!(visitor.work(number, at(500)), pvfs_wire::OK);
    }
}

#[test]
fn handshakes_and_strangers_have_their_time() {
    let doorman = doorman(Limits::default());
    let silent = Gate::new(doorman.clone(), ConnectionId(9), HERE, at(100));
    assert!(!silent.is_too_slow(at(105)) && silent.is_too_slow(at(106)));
    let mut visitor = Visitor::welcomed(&doorman, 1);
    assert!(!visitor.gate.is_too_slow(at(160)) && visitor.gate.is_too_slow(at(161)));
    visitor.auth(u64::MAX, at(100)).unwrap();
    assert!(!visitor.gate.is_too_slow(at(100_000)));
}

#[test]
fn a_newer_incarnation_waits_until_the_older_connection_is_over() {
    let doorman = doorman(Limits::default());
    let older = Visitor::welcomed(&doorman, 1);
    let key = older.gate.lane().unwrap();
    let entry = doorman.lanes().enter(key, 2, ConnectionId(2));
    assert_eq!(entry, Entry::Older(vec![ConnectionId(1)]));
    assert!(!doorman.lanes().is_first(key, ConnectionId(2)));
    doorman.lanes().leave(key, ConnectionId(1));
    assert!(doorman.lanes().is_first(key, ConnectionId(2)));
}

#[test]
fn keys_roll_without_a_gap() {
    let doorman = doorman(Limits::default());
    let mut visitor = Visitor::welcomed(&doorman, 1);
    let both = KeyRing::new(&[[2; 32], [0; 32]]);
    doorman.reload(Security::Psk(both), Vec::new());
    assert!(visitor.auth(u64::MAX, at(100)).is_ok());
    doorman.reload(Security::Psk(KeyRing::new(&[[2; 32]])), Vec::new());
    assert_eq!(visitor.auth(u64::MAX, at(100)), Err(Errno::EKEYREJECTED));
}

#[test]
fn only_waiting_for_a_lock_and_asking_are_harmless_when_late() {
    use pvfs_wire::ops::{Read, Stat, Write};
    assert!(!changes_something(Read::CODE) && !changes_something(Stat::CODE));
    assert!(!changes_something(Lock::CODE));
    assert!(changes_something(Write::CODE) && changes_something(WORK));
}

#[test]
fn every_header_and_body_is_survived() {
    let doorman = doorman(Limits::default());
    let mut state = 1u64;
    for round in 0..20_000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
        let mut visitor = match round % 3 {
            0 => Visitor::welcomed(&doorman, round + 10),
            _ => {
                let gate = Gate::new(doorman.clone(), ConnectionId(round), HERE, at(100));
                Visitor { gate, tag: 0, nonce: [0; 32] }
            }
        };
        let operation = (state >> 33) as u16 % 8;
        let body: Vec<u8> = state.to_le_bytes().repeat(1 + (state >> 60) as usize);
        let header = Header::request(operation, visitor.tag + 1).with_body(&body);
        visitor.gate.pass(&header, &body, at(100));
        if let Some(lane) = visitor.gate.lane() {
            doorman.lanes().leave(lane, ConnectionId(round + 10));
        }
    }
}
