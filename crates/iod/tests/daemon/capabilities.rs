//! Nothing is served without the right to it.

use std::time::Duration;

use pvfs_layout::Dist;
use pvfs_wire::Errno;
use pvfs_wire::ops::{Access, StatObjects, StatStore};
use pvfs_wire::token::{Capability, Holder, KeyRing, Rights};

use crate::harness::{Client, Daemon, Object, START_S, contiguous, handle, session};

fn refusals(client: &Client<'_>, object: &Object) -> [Option<Errno>; 4] {
    [
        client.read(object, contiguous(0, 1)).err(),
        client.write_at(object, 0, b"x").err(),
        client.truncate(object, 1).err(),
        client.sync(object).err(),
    ]
}

fn referring(object: &Object) -> Object {
    Object { access: Access { token: None, ..object.access.clone() }, ..object.clone() }
}

#[test]
fn rights_allow_just_what_they_say() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let no = Some(Errno::EACCES);
    for (rights, expected) in [
        (Rights::NONE, [no, no, no, no]),
        (Rights::READ, [None, no, no, None]),
        (Rights::WRITE, [no, None, None, None]),
        (Rights::TRUNCATE, [no, no, None, no]),
    ] {
        let object = client.slot(1, Dist::basic(), 0, rights);
        assert_eq!(refusals(&client, &object), expected, "{rights:?}");
    }
}

#[test]
fn a_number_never_shown_is_unknown_also_when_another_connection_showed_it() {
    let (daemon, _) = Daemon::in_memory();
    let (first, second) = (daemon.client(1), daemon.client(1));
    let object = first.object(7);
    first.write_at(&object, 0, b"x").unwrap();
    assert_eq!(refusals(&first, &referring(&object)), [None; 4]);
    assert_eq!(refusals(&second, &referring(&object)), [Some(Errno::ENOKEY); 4]);
}

#[test]
fn forged_capabilities_are_rejected_and_counted() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let mut object = client.object(1);
    let mut token = object.access.token.clone().unwrap();
    token.0[8] ^= 1;
    object.access.token = Some(token);
    assert_eq!(refusals(&client, &object), [Some(Errno::EKEYREJECTED); 4]);
    assert_eq!(daemon.figure("forged_capabilities"), 4);
    assert_eq!(daemon.figure("errors"), 4);
}

#[test]
fn a_key_of_another_cluster_signs_nothing_here() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let capability = Capability {
        handle: handle(1),
        rights: Rights::READ,
        dist: Dist::basic(),
        holder: Holder::Session(1),
        layout_epoch: 0,
        expiry: START_S + 600,
    };
    let token = KeyRing::new(&[[9; 32]]).sign_capability(&capability);
    let access = Access { number: 1, token: Some(token.into()) };
    let object = Object { access, ..client.object(1) };
    assert_eq!(refusals(&client, &object), [Some(Errno::EKEYREJECTED); 4]);
}

#[test]
fn keys_roll_without_a_restart() {
    let (mut daemon, _) = Daemon::in_memory();
    daemon.ring = KeyRing::new(&[[2; 32], [1; 32]]);
    let client = daemon.client(1);
    let object = client.object(1);
    assert_eq!(refusals(&client, &object), [Some(Errno::EKEYREJECTED); 4]);
    daemon.iod.accept_keys(daemon.ring.clone());
    assert_eq!(refusals(&client, &object), [None; 4]);
}

#[test]
fn an_expired_capability_ends_while_it_is_in_use() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    assert_eq!(refusals(&client, &object), [None; 4]);
    daemon.clock.advance(Duration::from_secs(661));
    assert_eq!(refusals(&client, &referring(&object)), [Some(Errno::EKEYEXPIRED); 4]);
    assert_eq!(refusals(&client, &object), [Some(Errno::EKEYEXPIRED); 4]);
}

#[test]
fn a_capability_of_another_session_is_worth_nothing() {
    let (daemon, _) = Daemon::in_memory();
    let (owner, thief) = (daemon.client(1), daemon.client(2));
    let object = owner.object(1);
    assert_eq!(refusals(&thief, &object), [Some(Errno::EKEYEXPIRED); 4]);
}

#[test]
fn without_a_session_nothing_is_served() {
    let (daemon, _) = Daemon::in_memory();
    let nobody = daemon.client_with(1, None);
    let object = nobody.object(1);
    assert_eq!(refusals(&nobody, &object), [Some(Errno::EACCES); 4]);
    assert_eq!(nobody.call(&StatStore {}), Err(Errno::EACCES));
    let request = StatObjects { handles: vec![handle(1)] };
    assert_eq!(nobody.call(&request), Err(Errno::EACCES));
}

#[test]
fn a_file_system_that_is_not_served_has_only_stale_handles() {
    let disk = pvfs_iod::MemoryDisk::new(1);
    let daemon = Daemon::with(disk, |config| config.filesystems = vec![2, 3]);
    let client = daemon.client(1);
    assert_eq!(refusals(&client, &client.object(1)), [Some(Errno::ESTALE); 4]);
    let request = StatObjects { handles: vec![handle(1)] };
    assert_eq!(client.call(&request), Err(Errno::ESTALE));
}

#[test]
fn a_hello_for_another_file_system_is_refused() {
    use crate::harness::hello;
    use pvfs_net::service::{ConnectionId, Peer, Service};
    let disk = pvfs_iod::MemoryDisk::new(1);
    let daemon = Daemon::with(disk, |config| config.filesystems = vec![2]);
    let peer = Peer { connection: ConnectionId(50), client: 1, lane: 0, address: "x".into() };
    let peer = std::sync::Arc::new(peer);
    assert_eq!(daemon.iod.arrived(&peer, &hello(1)), Err(Errno::ENODEV));
    assert!(daemon.iod.arrived(&peer, &hello(2)).is_ok());
    assert!(daemon.iod.arrived(&peer, &hello(0)).is_ok());
}

#[test]
fn sessions_on_one_connection_have_their_own_capabilities() {
    let (daemon, _) = Daemon::in_memory();
    let mut client = daemon.client(1);
    let first = client.object(1);
    assert_eq!(refusals(&client, &first), [None; 4]);
    client.session = Some(std::sync::Arc::new(session(2, pvfs_wire::token::SessionRights::NONE)));
    let second = client.object(2);
    assert_eq!(refusals(&client, &second), [None; 4]);
    assert_eq!(refusals(&client, &referring(&first)), [Some(Errno::EKEYEXPIRED); 4]);
}
