//! Data that a client puts down where the daemon sees them, instead of sending them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pvfs_net::blocking::{Blocking, Patient, block_on};
use pvfs_net::endpoint::Endpoint;
use pvfs_net::lane::{Lane, LentRange, Outgoing};
use pvfs_net::loan::Loan;
use pvfs_net::marked::MarkedFile;
use pvfs_net::runtime::{Instant, KeptFile, Runtime};
use pvfs_net::shared_buffers::{Placed, SharedBuffers};
use pvfs_net::tray::Tray;
use pvfs_net::words::{SharedWords, Words};
use pvfs_wire::{Header, OK};

use crate::client::{Client, hello};
use crate::echo::*;

/// A client's own end, with a session.
struct Introduced {
    lane: Lane<Patient>,
    session: u32,
}

impl Introduced {
    fn new(endpoint: &Endpoint, client: u64) -> Self {
        block_on(async {
            let stream = Blocking.connect(endpoint, None).unwrap();
            let mut lane = Lane::open(&Blocking, stream, &hello(client, 1)).await.unwrap();
            let session = lane.introduce(&Blocking, 1, &credential()).await.unwrap();
            Self { lane, session }
        })
    }

    /// What comes back of these data.
    fn echo(&mut self, operation: u16, body: &[u8], data: &[&[u8]]) -> Vec<u8> {
        let header = Header { session: self.session, ..Header::request(operation, 0) };
        let outgoing = Outgoing { header, body, data, data_checksum: true, lent: None };
        let mut back = vec![0; data.iter().map(|piece| piece.len()).sum()];
        let mut into = [&mut back[..]];
        let exchange = self.lane.exchange(&Blocking, &outgoing, body.len(), &mut into);
        assert_eq!(block_on(exchange).unwrap().header.status, OK);
        back
    }
}

/// Too short for a tray, just long enough, as long as possible, and too long; each other than the one before.
const SIZES: [usize; 8] = [1, 16 << 10, 300_001, 1 << 20, 100, (1 << 20) + 1, 65_536, 16_384 - 1];

#[test]
fn data_arrive_whether_they_fit_a_tray_or_not() {
    let fixture = Fixture::new();
    for (client, endpoint) in (20..).zip(fixture.both()) {
        let mut introduced = Introduced::new(&endpoint, client);
        for (round, bytes) in SIZES.into_iter().enumerate() {
            let data: Vec<u8> = (0..bytes).map(|at| (at * 7 + round) as u8).collect();
            let (first, rest) = data.split_at(bytes / 3);
            assert_eq!(introduced.echo(ECHO, b"body", &[first, &[], rest]), data, "{bytes} bytes");
        }
    }
}

#[test]
fn data_that_are_looked_at_after_the_round_are_still_there() {
    let fixture = Fixture::new();
    let mut introduced = Introduced::new(&fixture.unix, 30);
    for round in 0..3u8 {
        let data = vec![round + 1; 200_000];
        assert_eq!(introduced.echo(LATER, &[30], &[&data]), data);
    }
}

#[test]
fn who_speaks_of_a_tray_that_nobody_was_given_is_sent_away() {
    let fixture = Fixture::new();
    for (client, endpoint) in (40..).zip(fixture.both()) {
        let mut client = Client::introduced(&endpoint, hello(client, 1), &credential());
        let header = client.on_a_tray(ECHO, b"", 5);
        client.transport.write_all(&header.encode()).unwrap();
        assert!(client.is_closed());
    }
    assert!(fixture.echo.served.lock().unwrap().is_empty());
}

/// What a client with a tray leaves on it, from the header that a right request would have.
type Leave = fn(Header) -> (Header, &'static [u8]);

/// Leaves this, ends, and tells what the service was asked to do.
fn redone(fixture: &Fixture, client: u64, since: Instant, leave: Leave) -> Vec<Vec<u8>> {
    redone_from(fixture, client, since, leave, None, &[])
}

/// The like, of data that lie at these places in these buffers.
fn redone_from(
    fixture: &Fixture,
    client: u64,
    since: Instant,
    leave: Leave,
    buffers: Option<&SharedBuffers>,
    places: &[Placed],
) -> Vec<Vec<u8>> {
    let mut visitor = Client::introduced(&fixture.unix, hello(client, 1), &credential());
    let mut tray = Tray::new().unwrap();
    tray.put(&[b"data"]);
    let request = visitor.on_a_tray(ECHO, b"body", 4);
    let frame = [&request.encode()[..], b"body"].concat();
    visitor.send_with(&frame, tray.file().unwrap());
    assert_eq!(visitor.receive().unwrap().data, b"data");
    if let Some(buffers) = buffers {
        let request = visitor.on_a_tray(ECHO, b"body", 4);
        visitor.send_with(&[&request.encode()[..], b"body"].concat(), buffers.file().unwrap());
        assert_eq!(visitor.receive().unwrap().data, b"data");
    }
    let (header, body) = leave(Header { tag: visitor.tag + 1, ..request });
    assert!(tray.leave(since, [&header.encode(), body], places));
    drop(visitor);
    let departed = || fixture.echo.departed.lock().unwrap().iter().any(|(who, _)| *who == client);
    eventually("the client is gone", departed);
    assert!(!tray.take_back(), "it was taken");
    let redone = fixture.echo.redone.lock().unwrap();
    redone.iter().filter(|(who, _)| *who == client).map(|(_, what)| what.clone()).collect()
}

#[test]
fn what_a_client_left_when_it_ended_is_done_if_it_might_have_been_sent() {
    let fixture = Fixture::new();
    let now = Blocking.now();
    assert_eq!(redone(&fixture, 50, now, |header| (header, b"body")), [b"bodydata"]);
    let wrong: [Leave; 6] = [
        |header| (Header { tag: header.tag - 1, ..header }, b"body"),
        |header| (Header { session: 77, ..header }, b"body"),
        |header| (header, b"bod?"),
        |header| (header, b"body and more"),
        |header| (Header { shared_data: false, ..header }, b"body"),
        |header| (Header { data_bytes: (1 << 20) + 1, ..header }, b"body"),
    ];
    for (client, leave) in (51..).zip(wrong) {
        assert_eq!(redone(&fixture, client, now, leave), [[0; 0]; 0], "client {client}");
    }
    let long_ago = Instant(now.0.saturating_sub(31_000_000_000));
    assert_eq!(redone(&fixture, 60, long_ago, |header| (header, b"body")), [[0; 0]; 0]);
}

#[test]
fn what_lies_in_the_clients_buffers_is_done_from_there() {
    let (fixture, now) = (Fixture::new(), Blocking.now());
    let (all, mut buffers) = SharedBuffers::create(&Blocking, 2, 4096).unwrap();
    buffers[1][..4].copy_from_slice(b"here");
    let places = all.places(&[&buffers[1][2..4], &buffers[1][..2]]).unwrap();
    let right: Leave = |header| (header, b"body");
    let done = |client, buffers, places| redone_from(&fixture, client, now, right, buffers, places);
    assert_eq!(done(80, Some(&*all), &places), [b"bodyrehe"]);
    assert_eq!(done(81, Some(&*all), &[]), [b"bodydata"], "they lie on the tray");
    let nothing = [[0; 0]; 0];
    assert_eq!(done(82, None, &places), nothing, "nobody was given them");
    assert_eq!(done(83, Some(&*all), &places[..1]), nothing, "not all of them");
    let outside = [Placed { start: 8190, bytes: 4 }];
    assert_eq!(done(84, Some(&*all), &outside), nothing);
}

/// A file as an iod lends it, by the first two of these words.
fn lent(file: &File, words: &Words) -> Loan {
    Loan {
        file: MarkedFile::new(KeptFile::new(file.try_clone().unwrap().into(), None), 1).unwrap(),
        words: Arc::new(SharedWords::map(words.file()).unwrap()),
        whole: (0, words.load(0)),
        object: (1, words.load(1)),
        in_memory: true,
        until: Instant(u64::MAX),
        boot: 1,
        spoiled: AtomicBool::new(false),
    }
}

#[test]
fn what_is_lent_is_written_without_a_message_while_the_daemon_is_there() {
    let fixture = Fixture::new();
    let mut introduced = Introduced::new(&fixture.unix, 70);
    let (file, words) = (tempfile::tempfile().unwrap(), Words::new(2).unwrap());
    let loan = lent(&file, &words);
    let (all, mut shared) = SharedBuffers::create(&Blocking, 1, 8192).unwrap();
    let mut write = |data: &[u8], buffers: Option<&Arc<SharedBuffers>>| {
        let header = Header { session: introduced.session, ..Header::request(ECHO, 0) };
        let (lent, data) = (Some(LentRange { loan: &loan, local: 3, buffers }), &[data][..]);
        let outgoing = Outgoing { header, body: b"body", data, data_checksum: true, lent };
        let (mut back, served) = ([0; 5000], || fixture.echo.served.lock().unwrap().len());
        let (before, into) = (served(), &mut [&mut back[..]]);
        let done = block_on(introduced.lane.exchange(&Blocking, &outgoing, 4, into));
        let mut there = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut there, 0).unwrap();
        (done.is_ok(), served() - before, there)
    };
    let of = |byte: u8| [vec![0; 3], vec![byte; 5000]].concat();
    assert_eq!(write(&[1; 5000], None), (true, 1, vec![]), "the daemon does not have the tray yet");
    assert_eq!(write(&[2; 5000], None), (true, 0, of(2)));
    assert_eq!(write(&[3; 5000], None), (true, 0, of(3)));
    shared[0].fill(4);
    let lying_there = &shared[0][100..5100];
    assert_eq!(write(lying_there, Some(&all)), (true, 1, of(3)), "nor the buffers");
    assert_eq!(write(lying_there, Some(&all)), (true, 0, of(4)));
    assert_eq!(write(&[5; 5000], Some(&all)), (true, 0, of(5)), "it lies elsewhere");
    words.change(1);
    assert_eq!(write(lying_there, Some(&all)), (true, 1, of(5)), "the loan is over");
    fixture.daemon.estop();
    eventually("all are gone", || !fixture.echo.departed.lock().unwrap().is_empty());
    assert_eq!(write(&[6; 5000], None), (false, 0, of(5)), "nobody would do it again");
    assert_eq!(fixture.echo.redone.lock().unwrap().len(), 0);
}
