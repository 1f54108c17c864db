//! Properties of the network itself, and of the daemon's end on it, over many seeds.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pvfs_wire::ops::Hello;
use pvfs_wire::token::{Credential, KeyRing, Session, SessionRights};
use pvfs_wire::{Errno, Header, OK, VERSION};

use super::*;
use crate::buffer::Pool;
use crate::endpoint::Endpoint;
use crate::gate::{Doorman, Limits, Rules, Security};
use crate::lane::{Lane, LaneError, Outgoing};
use crate::runtime::{Runtime, before};
use crate::service::{Departure, Peer, Reception, Request, Response, Service, Ticket};

/// Sends `bytes` one way, as the network allows; what arrived, how it ended and a trace with times.
fn carry(network: &MemoryNetwork, bytes: &[u8], mut fault: impl FnMut(usize)) -> Carried {
    let listener = network.listen("server");
    let mut client = network.connect("client", "server");
    let mut server = None;
    let mut carried = Carried::default();
    let mut sent = 0;
    for step in 0.. {
        fault(step);
        let mut is_busy = false;
        if client.is_ready(Interest::Writable) && sent < bytes.len() && carried.sender.is_none() {
            match client.send(&[IoSlice::new(&bytes[sent..])]) {
                Ok(count) => sent += count,
                Err(error) => carried.sender = Some((network.now(), error.kind())),
            }
            is_busy = true;
        }
        server = server.or_else(|| listener.accept().map(|(stream, _)| stream));
        if let Some(stream) = &mut server
            && stream.is_ready(Interest::Readable)
            && carried.receiver.is_none()
        {
            let mut part = vec![0; 10_000];
            match stream.receive(&mut [IoSliceMut::new(&mut part)]) {
                Ok(0) => carried.receiver = Some((network.now(), ErrorKind::UnexpectedEof)),
                Ok(count) => {
                    carried.bytes.extend_from_slice(&part[..count]);
                    carried.trace.push((network.now(), count));
                }
                Err(error) => carried.receiver = Some((network.now(), error.kind())),
            }
            is_busy = true;
        }
        if !is_busy {
            match network.next_event() {
                Some(at) => network.advance_to(at),
                None => return carried,
            }
        }
    }
    carried
}

#[derive(Debug, Default, Eq, PartialEq)]
struct Carried {
    bytes: Vec<u8>,
    trace: Vec<(Instant, usize)>,
    sender: Option<(Instant, ErrorKind)>,
    receiver: Option<(Instant, ErrorKind)>,
}

fn message(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 / 8) as u8).collect()
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    for seed in 0..50 {
        let network = MemoryNetwork::new(seed);
        network.set_weather(Weather { cut_ppm: 0, ..Weather::stormy() });
        let sent = message(1_000_000);
        let carried = carry(&network, &sent, |_| ());
        assert!(carried.bytes == sent, "seed {seed}");
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    let history = |seed| {
        let network = MemoryNetwork::new(seed);
        network.set_weather(Weather::stormy());
        carry(&network, &message(300_000), |_| ())
    };
    for seed in 0..20 {
        assert!(history(seed) == history(seed), "seed {seed}");
    }
    assert!(history(1) != history(2));
}

#[test]
fn what_arrives_before_a_cut_is_a_beginning_of_what_was_sent() {
    let mut cut_short = 0;
    for seed in 0..200 {
        let network = MemoryNetwork::new(seed);
        network.set_weather(Weather { cut_ppm: 200_000, ..Weather::stormy() });
        let sent = message(300_000);
        let carried = carry(&network, &sent, |_| ());
        assert!(sent.starts_with(&carried.bytes), "seed {seed}");
        cut_short += usize::from(carried.bytes.len() < sent.len());
        if carried.bytes.len() < sent.len() {
            assert!(carried.receiver.is_some(), "seed {seed}: the receiver waits for ever");
        }
    }
    assert!(cut_short > 50, "only {cut_short} of 200 were cut");
}

#[test]
fn bytes_sent_before_a_cut_may_arrive_long_after_the_client_noticed() {
    let mut late = 0;
    for seed in 0..50 {
        let network = MemoryNetwork::new(seed);
        let cut = network.clone();
        let carried = carry(&network, &message(1_000_000), |step| {
            if step == 8 {
                cut.cut("client", "server", Cut::ServerLate(Duration::from_secs(5)));
            }
        });
        let noticed = carried.sender.map(|(at, _)| at);
        let last = carried.trace.last().map(|(at, _)| *at);
        late += usize::from(last > noticed && noticed.is_some());
    }
    assert!(late > 10, "late bytes in only {late} of 50 histories");
}

#[test]
fn a_partition_delays_and_then_breaks() {
    let network = MemoryNetwork::new(3);
    let other = network.clone();
    let heals = carry(&network, &message(600_000), |step| {
        if step == 4 {
            other.hold("client", "server", Some(Duration::from_secs(10)));
        }
    });
    assert_eq!(heals.bytes, message(600_000));
    assert!(network.now() > Instant(0).after(Duration::from_secs(10)));

    let network = MemoryNetwork::new(3);
    let other = network.clone();
    let breaks = carry(&network, &message(600_000), |step| {
        if step == 4 {
            other.partition("client", "server");
        }
    });
    let (at, kind) = breaks.sender.expect("the sender notices");
    assert_eq!(kind, ErrorKind::ConnectionReset);
    assert!(at >= Instant(0).after(GIVE_UP_AFTER));
}

#[test]
fn a_crashed_host_is_noticed_and_may_come_back() {
    let network = MemoryNetwork::new(3);
    let other = network.clone();
    let carried = carry(&network, &message(600_000), |step| {
        if step == 6 {
            other.crash("server", Crash::Killed);
        }
    });
    assert_eq!(carried.sender.map(|(_, kind)| kind), Some(ErrorKind::ConnectionReset));
    let mut client = network.connect("client", "server");
    while !client.is_ready(Interest::Writable) {
        network.advance_to(network.next_event().expect("the refusal is under way"));
    }
    let refused = client.send(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(carry(&network, b"again", |_| ()).bytes, b"again");
}

/// A register: serves writes of growing numbers, some at once and some later.
#[derive(Default)]
struct Register {
    count: AtomicU64,
    served: Mutex<Vec<u64>>,
    waiting: Mutex<Vec<Waiting>>,
    departures: Mutex<Vec<Departure>>,
}

/// A write that takes its time, in ticks, as on a slow disk.
struct Waiting {
    ticket: Ticket,
    number: u64,
    ticks: u64,
}

impl Service for Register {
    fn arrived(&self, _: &Arc<Peer>, _: &Hello) -> Result<Reception, Errno> {
        Ok(Reception::default())
    }
    fn departed(&self, _: &Arc<Peer>, how: Departure) {
        self.departures.lock().unwrap().push(how);
    }
    fn serve(&self, round: Vec<Request<'_>>) {
        for request in round {
            let number = u64::from_le_bytes(request.body.try_into().unwrap());
            // Data are a function of the number, so that mixed-up frames would be noticed.
            assert!(request.data.iter().all(|byte| *byte == number as u8));
            let ticket = request.ticket;
            let mut waiting = self.waiting.lock().unwrap();
            match self.count.fetch_add(1, Ordering::Relaxed) * 7919 % 50 {
                ticks @ 0..30 => waiting.push(Waiting { ticket, number, ticks }),
                _ => self.finish(ticket, number),
            }
        }
    }
    fn tick(&self) {
        let mut waiting = self.waiting.lock().unwrap();
        waiting.iter_mut().for_each(|write| write.ticks = write.ticks.saturating_sub(1));
        for write in waiting.extract_if(.., |write| write.ticks == 0) {
            self.finish(write.ticket, write.number);
        }
    }
}

impl Register {
    fn finish(&self, ticket: Ticket, number: u64) {
        self.served.lock().unwrap().push(number);
        let body = number.to_le_bytes().to_vec();
        ticket.reply(Response::encoded(body));
    }
}

struct Cluster {
    network: MemoryNetwork,
    register: Arc<Register>,
    daemons: Vec<MemoryDaemon>,
    credential: Credential,
}

fn cluster(seed: u64) -> Cluster {
    let network = MemoryNetwork::new(seed);
    network.set_weather(Weather::stormy());
    let ring = KeyRing::new(&[[1; 32]]);
    let rules = Rules {
        name: "io0".into(),
        boot: network.random(),
        fsid: 1,
        security: Security::Psk(ring.clone()),
        networks: Vec::new(),
        root_squash: true,
        limits: Limits::default(),
        secret: [seed as u8; 32],
    };
    let register = Arc::new(Register::default());
    let doorman = Arc::new(Doorman::new(rules));
    let daemon = MemoryDaemon::start(&network, "io0", register.clone(), doorman, Pool::new());
    let session = Session {
        id: 1,
        uid: 1000,
        gid: 1000,
        gids: Vec::new(),
        rights: SessionRights::NONE,
        issued: 0,
        expiry: u64::MAX,
    };
    let credential = Credential::issue(&ring, &session);
    Cluster { network, register, daemons: vec![daemon], credential }
}

/// Writes the numbers one after the other; each again, on a new connection, until it was answered.
async fn write_numbers(runtime: &MemoryRuntime, credential: &Credential, count: u64) {
    let mut incarnation = 0;
    let mut lane = None;
    for number in 1..=count {
        loop {
            if lane.is_none() {
                incarnation += 1;
                lane = connect(runtime, credential, incarnation).await.ok();
            }
            let Some((open, session)) = &mut lane else { continue };
            let deadline = runtime.now().after(Duration::from_secs(10));
            let written = {
                let written = pin!(write(runtime, open, *session, number));
                before(runtime, deadline, written).await
            };
            if matches!(written, Some(Ok(()))) {
                break;
            }
            lane = None;
        }
    }
}

async fn connect(
    runtime: &MemoryRuntime,
    credential: &Credential,
    incarnation: u64,
) -> Result<(Lane<MemoryStream>, u32), LaneError> {
    let hello = Hello {
        version_min: VERSION,
        version_max: VERSION,
        client: 9,
        lane: 0,
        incarnation,
        fsid: 1,
        nonce: [incarnation as u8; 32],
        software: "test".into(),
    };
    let deadline = runtime.now().after(Duration::from_secs(10));
    let opening = pin!(async {
        let stream = runtime.connect(&Endpoint::tcp("io0", 7000), None)?;
        let mut lane = Lane::open(runtime, stream, &hello).await?;
        let session = lane.introduce(runtime, 1, credential).await?;
        Ok((lane, session))
    });
    before(runtime, deadline, opening)
        .await
        .unwrap_or_else(|| Err(io::Error::from(ErrorKind::TimedOut).into()))
}

async fn write(
    runtime: &MemoryRuntime,
    lane: &mut Lane<MemoryStream>,
    session: u32,
    number: u64,
) -> Result<(), LaneError> {
    let body = number.to_le_bytes();
    let data = vec![number as u8; (number * 7919 % 200_000) as usize];
    let header = Header { session, ..Header::request(0x0300, 0) };
    let outgoing =
        Outgoing { header, body: &body, data: &[&data], data_checksum: true, lent: None };
    let incoming = lane.exchange(runtime, &outgoing, 0, &mut []).await?;
    assert_eq!((incoming.header.status, &incoming.body[..]), (OK, &body[..]));
    Ok(())
}

/// F4: whatever is lost, late or cut, a write never lands after a later one of the same lane.
#[test]
fn a_delayed_duplicate_never_lands() {
    let mut repeated = 0;
    let mut replaced = 0;
    for seed in 0..60 {
        let Cluster { network, register, mut daemons, credential } = cluster(seed);
        let runtime = MemoryRuntime::new(&network, "client");
        let work = write_numbers(&runtime, &credential, 40);
        let hour = Duration::from_secs(3600);
        let lightning = |_: &mut Vec<MemoryDaemon>| {
            if network.random().is_multiple_of(100) {
                network.cut("client", "io0", Cut::ServerLate(Duration::from_secs(2)));
            }
        };
        let done = MemoryRuntime::run(&network, &mut daemons, hour, work, lightning);
        assert!(done.is_some(), "seed {seed}: the client waits for ever");
        // What is still under way arrives now, if it ever does.
        let minute = network.now().after(Duration::from_secs(60));
        while network.now() < minute {
            daemons.iter_mut().for_each(|daemon| while daemon.run_ready() {});
            network.advance_to(network.next_event().expect("the daemon ticks"));
        }
        let served = register.served.lock().unwrap();
        assert!(served.is_sorted(), "seed {seed}: {served:?}");
        assert!((1..=40).all(|number| served.contains(&number)), "seed {seed}: {served:?}");
        repeated += served.len() - 40;
        let departures = register.departures.lock().unwrap();
        replaced += departures.iter().filter(|how| **how == Departure::Replaced).count();
    }
    assert!(repeated > 10 && replaced > 10, "the storms were too mild: {repeated}, {replaced}");
}

#[test]
fn a_whole_cluster_history_repeats_with_its_seed() {
    let history = |seed| {
        let Cluster { network, register, mut daemons, credential } = cluster(seed);
        let runtime = MemoryRuntime::new(&network, "client");
        let work = write_numbers(&runtime, &credential, 20);
        MemoryRuntime::run(&network, &mut daemons, Duration::from_secs(3600), work, |_| ());
        let served = register.served.lock().unwrap().clone();
        (network.now(), served, daemons[0].figures().list())
    };
    for seed in 100..110 {
        assert_eq!(history(seed), history(seed), "seed {seed}");
    }
}
