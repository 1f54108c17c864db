//! Connections that go to another thread, because theirs has more to do.

use std::time::{Duration, Instant};

use pvfs_net::service::Departure;

use crate::client::{Client, hello};
use crate::echo::*;

/// Two clients of which one thread serves both, the other nobody who says anything.
fn crowded(fixture: &Fixture) -> Vec<Client> {
    let clients: Vec<u64> = (1..=3).collect();
    let mut clients: Vec<Client> = clients
        .into_iter()
        .map(|client| Client::introduced(&fixture.tcp, hello(client, 1), &credential()))
        .collect();
    exchange(&mut clients);
    let threads = fixture.echo.threads.lock().unwrap();
    let thread = |client: &Client| threads[&client.hello.client];
    let alone = (0..3).find(|alone| {
        let others: Vec<_> = (0..3).filter(|index| index != alone).collect();
        thread(&clients[others[0]]) == thread(&clients[others[1]])
    });
    clients.remove(alone.expect("of three clients two have the same of two threads"));
    clients
}

fn exchange(clients: &mut [Client]) {
    for client in clients {
        let body = client.tag.to_le_bytes();
        client.send(ECHO, &body, b"data");
        let reply = client.receive().unwrap();
        assert_eq!((&reply.body[..], &reply.data[..]), (&body[..], &b"data"[..]));
    }
}

/// Asks until some connection has moved.
fn busy_until_moved(fixture: &Fixture, clients: &mut [Client]) {
    let before = fixture.figure("net_moved_count");
    let start = Instant::now();
    while fixture.figure("net_moved_count") == before {
        assert!(start.elapsed() < Duration::from_secs(10), "no connection moved");
        exchange(clients);
        std::thread::sleep(Duration::from_millis(2));
    }
    exchange(clients);
}

#[test]
fn clients_that_are_busy_do_not_share_a_thread_while_another_rests() {
    let fixture = Fixture::new();
    let mut clients = crowded(&fixture);
    busy_until_moved(&fixture, &mut clients);
    let threads = fixture.echo.threads.lock().unwrap().clone();
    assert_ne!(threads[&clients[0].hello.client], threads[&clients[1].hello.client]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        exchange(&mut clients);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(fixture.figure("net_moved_count"), 1, "one of two is enough, and it stays");
}

#[test]
fn a_connection_that_moved_is_replaced_by_a_newer_one_of_its_lane() {
    let fixture = Fixture::new();
    let mut clients = crowded(&fixture);
    busy_until_moved(&fixture, &mut clients);
    for old in &mut clients {
        let client = old.hello.client;
        let mut new = Client::introduced(&fixture.tcp, hello(client, 2), &credential());
        assert!(old.is_closed());
        assert!(fixture.echo.departed.lock().unwrap().contains(&(client, Departure::Replaced)));
        exchange(std::slice::from_mut(&mut new));
    }
}

#[test]
fn a_connection_that_moved_is_closed_in_an_emergency_and_by_its_client() {
    let fixture = Fixture::new();
    let mut clients = crowded(&fixture);
    busy_until_moved(&fixture, &mut clients);
    drop(clients.pop());
    eventually("its end is noticed", || fixture.figure("net_connections") <= 1);
    fixture.daemon.estop();
    assert!(clients[0].is_closed());
    eventually("all are closed", || fixture.figure("net_connections") == 0);
}

#[test]
fn a_connection_with_a_request_under_way_stays_where_the_reply_finds_it() {
    let fixture = Fixture::new();
    let mut clients = crowded(&fixture);
    let start = Instant::now();
    // So that at every moment at least one of each is unanswered.
    while start.elapsed() < Duration::from_millis(2500) {
        for client in &mut clients {
            client.send(LATER, &[5], b"late");
        }
        for client in &mut clients {
            client.send(LATER, &[5], b"late");
            assert_eq!(client.receive().unwrap().data, b"late");
            assert_eq!(client.receive().unwrap().data, b"late");
        }
    }
    exchange(&mut clients);
}
