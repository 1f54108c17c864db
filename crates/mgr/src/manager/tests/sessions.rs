//! Who is told of which clients, and of which users of a file; a page at a time, and all of them once.

use super::*;

/// A client of this user; its session has the client's number.
fn user(world: &World, client: u64, uid: u32) -> Caller {
    world.arrive_as(client, client * 100, uid).0
}

/// Somebody with the cluster key.
fn administrator(world: &World) -> Caller {
    let caller = user(world, 1000, 4000);
    let session = Session { rights: SessionRights::ADMIN, ..(*caller.session).clone() };
    Caller { session: Arc::new(session), ..caller }
}

fn clients(world: &World, caller: &Caller) -> Vec<ClientReport> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = world.call(caller, 0, &Sessions { after }).unwrap();
        all.extend(page.clients);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

fn report(world: &World, caller: &Caller, client: u64) -> Option<ClientReport> {
    let number = world.manager.clients().number_of(client)?;
    clients(world, caller).into_iter().find(|report| report.number == number)
}

fn uses(world: &World, caller: &Caller, path: &str) -> Result<UseList, Errno> {
    let mut all = UseList { opens: vec![], locks: vec![], incomplete: false, next: None };
    let mut after = None;
    loop {
        let page = world.call(caller, 0, &Uses { target: world.name(path), after })?;
        all.opens.extend(page.opens);
        all.locks.extend(page.locks);
        all.incomplete |= page.incomplete;
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

fn lock(handle: Handle, kind: LockKind, start: u64, end: u64, wait_ms: u32) -> Lock {
    Lock { handle, family: LockFamily::Range, owner: 1, pid: 77, kind, start, end, wait_ms }
}

/// The uids and numbers of the sessions shown, by client.
fn shown(world: &World, reports: &[ClientReport]) -> Vec<(u64, Vec<(u32, u64)>)> {
    let known = world.manager.clients();
    let client = |report: &ClientReport| {
        (1..2000).find(|client| known.number_of(*client) == Some(report.number)).unwrap()
    };
    let sessions = |report: &ClientReport| {
        report.sessions.iter().map(|session| (session.uid, session.id)).collect()
    };
    reports.iter().map(|report| (client(report), sessions(report))).collect()
}

/// Another user's session on the same connection, as on a mount.
fn beside(world: &World, caller: &Caller, id: u64, uid: u32) -> Caller {
    let session = Arc::new(Session { id, uid, ..(*caller.session).clone() });
    world.manager.believed(&caller.peer, &session);
    Caller { session, ..caller.clone() }
}

#[test]
fn an_administrator_sees_everybody_and_a_user_only_what_is_his() {
    let world = World::new();
    let (alice, bob) = (user(&world, 5, 1000), user(&world, 6, 2000));
    let (mount, guest) = (user(&world, 7, 2000), user(&world, 8, 3000));
    beside(&world, &mount, 70, 1000);
    let admin = administrator(&world);
    let all = [
        (5, vec![(1000, 5)]),
        (6, vec![(2000, 6)]),
        (7, vec![(2000, 7), (1000, 70)]),
        (8, vec![(3000, 8)]),
        (1000, vec![(4000, 1000)]),
    ];
    assert_eq!(shown(&world, &clients(&world, &admin)), all);
    let alices = clients(&world, &alice);
    assert_eq!(shown(&world, &alices), [(5, vec![(1000, 5)]), (7, vec![(1000, 70)])]);
    assert!(alices[0].locks.is_some());
    assert_eq!((alices[1].locks, alices[1].cached), (None, None), "they are Bob's as well");
    assert_eq!(shown(&world, &clients(&world, &bob)), [(6, vec![(2000, 6)]), (7, vec![(2000, 7)])]);
    assert_eq!(shown(&world, &clients(&world, &guest)), [(8, vec![(3000, 8)])]);
    let root = user(&world, 9, 0);
    assert_eq!(
        shown(&world, &clients(&world, &root)),
        [(9, vec![(0, 9)])],
        "root of a node is no administrator"
    );
}

#[test]
fn what_a_client_holds_is_counted() {
    let world = World::new();
    let (admin, other) = (administrator(&world), user(&world, 6, 0));
    let caller = user(&world, 5, 0);
    let file = world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap().attr.handle;
    world.call(&caller, 2, &world.open_file("file", 2, OpenFlags::READ)).unwrap();
    world.call(&caller, 0, &lock(file, LockKind::Write, 0, 10, 0)).unwrap();
    world.call(&caller, 0, &lock(file, LockKind::Write, 20, 30, 0)).unwrap();
    let waiting = message(&lock(file, LockKind::Read, 5, 6, 10_000), 0, 0);
    world.send(&[(&other, &waiting)]);
    let seen = report(&world, &admin, 5).unwrap();
    assert_eq!((seen.opens, seen.locks), (2, Some(LockCounts { held: 2, awaited: 0 })));
    assert_eq!((seen.software.as_str(), seen.address.as_str()), ("test", "unix"));
    let seen = report(&world, &admin, 6).unwrap();
    assert_eq!((seen.opens, seen.locks), (0, Some(LockCounts { held: 0, awaited: 1 })));
    world.call(&caller, 0, &lock(file, LockKind::Unlock, 0, 10, 0)).unwrap();
    close(&world, &caller, 1);
    let seen = report(&world, &admin, 5).unwrap();
    assert_eq!((seen.opens, seen.locks), (1, Some(LockCounts { held: 1, awaited: 0 })));
    assert_eq!(report(&world, &admin, 6).unwrap().locks, Some(LockCounts { held: 1, awaited: 0 }));
}

#[test]
fn a_client_is_told_of_as_long_as_it_is_waited_for() {
    let world = World::new();
    let caller = user(&world, 5, 0);
    world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    world.pass(7.5);
    let admin = administrator(&world);
    let seen = report(&world, &admin, 5).unwrap();
    assert_eq!((seen.here_s, seen.freed_in_s), (Some(7), None));
    world.manager.departed(&caller.peer, Departure::Broken);
    world.pass_and_tick(10.0);
    let seen = report(&world, &admin, 5).unwrap();
    assert_eq!((seen.here_s, seen.freed_in_s, seen.opens), (None, Some(20), 1));
    world.pass_and_tick(20.0);
    assert_eq!(report(&world, &admin, 5), None);
    assert_eq!(uses(&world, &admin, "file").unwrap().opens, []);
}

/// Nobody knows whose it was until it comes back.
#[test]
fn after_a_restart_a_client_is_known_by_what_it_holds() {
    let world = World::new();
    let caller = user(&world, 5, 0);
    world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    let world = world.restarted();
    let seen = report(&world, &administrator(&world), 5).unwrap();
    assert_eq!((seen.opens, seen.here_s, seen.freed_in_s), (1, None, Some(300)));
    assert_eq!((seen.sessions.len(), seen.software.as_str()), (0, ""));
    assert_eq!(report(&world, &user(&world, 6, 0), 5), None);
    user(&world, 5, 0);
    assert_eq!(report(&world, &user(&world, 6, 0), 5).unwrap().opens, 1);
}

#[test]
fn sessions_that_are_not_believed_any_more_are_not_shown() {
    let world = World::new();
    let (admin, mount) = (administrator(&world), user(&world, 5, 1000));
    let now_s = clock::unix_seconds(world.clock.wall());
    let short = Session { id: 50, uid: 2000, expiry: now_s + 10, ..(*mount.session).clone() };
    world.manager.believed(&mount.peer, &Arc::new(short));
    beside(&world, &mount, 51, 3000);
    let seen = |world: &World| {
        let all = shown(world, &clients(world, &admin));
        all.into_iter().find(|(client, _)| *client == 5).unwrap().1
    };
    assert_eq!(seen(&world), [(1000, 5), (2000, 50), (3000, 51)]);
    world.pass(70.5);
    assert_eq!(seen(&world), [(1000, 5), (2000, 50), (3000, 51)], "clocks may differ");
    world.pass(1.0);
    assert_eq!(seen(&world), [(1000, 5), (3000, 51)]);
    let (issued_until, expiry) = (u64::MAX, u64::MAX);
    let denial = Denial { session: Some(51), uid: None, issued_until, expiry };
    super::orders::deny(&world, denial);
    assert_eq!(seen(&world), [(1000, 5)]);
}

#[test]
fn every_client_is_listed_once_in_pages() {
    let world = World::new();
    // Not a multiple of a page.
    (1..=1500)
        .for_each(|client| drop(user(&world, client * 3, 1000 + u32::from(client % 500 == 0))));
    let admin = administrator(&world);
    let all: Vec<u64> = clients(&world, &admin).iter().map(|report| report.number).collect();
    assert_eq!(all, (1..=1501).collect::<Vec<u64>>());
    let own = clients(&world, &user(&world, 1500, 1001));
    assert_eq!(own.len(), 3, "and those of one among many");
    assert!(world.call(&admin, 0, &Sessions { after: None }).unwrap().clients.len() < 1000);
}

#[test]
fn a_client_with_very_many_sessions_fits_into_a_reply() {
    let world = World::new();
    for client in 1..=100 {
        let mount = user(&world, client, 0);
        (0..3000).for_each(|id| drop(beside(&world, &mount, id, id as u32)));
    }
    let admin = administrator(&world);
    let page = world.call(&admin, 0, &Sessions { after: None }).unwrap();
    assert!(page.to_bytes().len() < 2 << 20, "{} bytes", page.to_bytes().len());
    assert_eq!(page.clients[0].sessions.len(), 1024);
    assert_eq!(page.clients[0].sessions.last().unwrap().id, 2999, "the latest are kept");
    assert_eq!(clients(&world, &admin).len(), 101);
}

#[test]
fn who_has_a_file_open_or_locked_is_told() {
    let world = World::new();
    let (writer, admin) = (user(&world, 5, 0), administrator(&world));
    let file = world.call(&writer, 1, &world.open_file("file", 1, CREATE)).unwrap().attr.handle;
    world.call(&writer, 2, &world.open_file("other", 2, CREATE)).unwrap();
    let (reader, waiter) = (user(&world, 6, 1000), user(&world, 7, 2000));
    world.call(&reader, 1, &world.open_file("file", 1, OpenFlags::READ)).unwrap();
    world.call(&writer, 0, &lock(file, LockKind::Write, 0, 10, 0)).unwrap();
    world.call(&reader, 0, &lock(file, LockKind::Read, 10, 20, 0)).unwrap();
    let waiting = message(&lock(file, LockKind::Read, 5, 6, 10_000), 0, 0);
    world.send(&[(&waiter, &waiting)]);
    let told = uses(&world, &admin, "file").unwrap();
    let open = |number, uid, flags| OpenReport { number: Some(number), uid, flags };
    assert_eq!(told.opens, [open(1, 0, CREATE), open(3, 1000, OpenFlags::READ)]);
    let locks = |told: &UseList| {
        let row = |report: &LockReport| {
            let HeldLock { kind, start, end, pid } = report.lock;
            assert_eq!((report.family, pid), (LockFamily::Range, 77));
            (report.number.unwrap(), kind, start, end, report.awaited)
        };
        told.locks.iter().map(row).collect::<Vec<_>>()
    };
    let of_reader = (3, LockKind::Read, 10, 20, false);
    let all = [(1, LockKind::Write, 0, 10, false), of_reader, (4, LockKind::Read, 5, 6, true)];
    assert_eq!(locks(&told), all);
    let own = uses(&world, &reader, "file").unwrap();
    assert_eq!((own.opens.len(), own.opens[0].uid), (1, 1000));
    assert_eq!(locks(&own), [of_reader]);
    beside(&world, &reader, 60, 1001);
    assert_eq!(locks(&uses(&world, &reader, "file").unwrap()), [], "they may be the other's");
    close(&world, &writer, 1);
    world.call(&writer, 0, &lock(file, LockKind::Unlock, 0, 10, 0)).unwrap();
    let told = uses(&world, &admin, "file").unwrap();
    assert_eq!(told.opens, [open(3, 1000, OpenFlags::READ)]);
    assert_eq!(locks(&told), [(4, LockKind::Read, 5, 6, false), of_reader], "its turn has come");
    assert_eq!(uses(&world, &admin, "absent"), Err(Errno::ENOENT));
}

#[test]
fn directories_keep_users_from_looking_and_not_administrators() {
    let world = World::new();
    let (admin, owner) = (administrator(&world), user(&world, 5, 0));
    world.call(&owner, 1, &Mkdir { mode: 0o700, ..world.mkdir("d") }).unwrap();
    world.call(&owner, 2, &world.open_file("d/file", 1, CREATE)).unwrap();
    assert_eq!(uses(&world, &user(&world, 6, 1000), "d/file"), Err(Errno::EACCES));
    assert_eq!(uses(&world, &admin, "d/file").unwrap().opens.len(), 1);
}

#[test]
fn an_open_by_group_handle_is_told_without_a_client() {
    let world = World::new();
    let (admin, owner) = (administrator(&world), user(&world, 5, 0));
    let (sharers, striping) = (Sharers::Anyone, Striping::default());
    let (target, flags) = (world.name("file"), CREATE);
    let open = OpenShared { target, flags, mode: 0o600, striping, sharers, lifetime_s: 60 };
    world.call(&owner, 1, &open).unwrap();
    let told = uses(&world, &admin, "file").unwrap();
    assert_eq!(told.opens, [OpenReport { number: None, uid: 0, flags: CREATE }]);
}

/// However many files are open, one request looks at so many of them; what it finds is told once.
#[test]
fn a_file_is_looked_for_among_very_many_opens_in_pages() {
    let world = World::new();
    let (admin, mut batch) = (administrator(&world), crate::store::Batch::default());
    for client in 2000..3200 {
        user(&world, client, 0);
        for open in 0..30 {
            let object = if client == 2999 && open % 2 == 0 { 7 } else { 1 };
            let opened = crate::record::OpenFile { object, flags: OpenFlags::READ, uid: 0 };
            batch.put(crate::keys::open(client, open), crate::record::Record::encode(&opened));
        }
    }
    for open in 0..40_000 {
        let opened = crate::record::OpenFile { object: 7, flags: OpenFlags::WRITE, uid: 0 };
        batch.put(crate::keys::open(3200, open), crate::record::Record::encode(&opened));
    }
    world.store.commit(batch).unwrap();
    let caller = user(&world, 3200, 0);
    let asked =
        |after| Uses { target: Target::object(world.manager.filesystem().handle(7)), after };
    assert_eq!(world.call(&admin, 0, &asked(None)), Err(Errno::ESTALE), "there is no such file");
    make_objects(&world, &caller, 7);
    let (mut writers, mut readers, mut pages, mut after) = (0, 0, 0, None);
    loop {
        let page = world.call(&admin, 0, &asked(after)).unwrap();
        assert!(page.to_bytes().len() < 2 << 20);
        writers += page.opens.iter().filter(|open| open.flags == OpenFlags::WRITE).count();
        readers += page.opens.iter().filter(|open| open.flags == OpenFlags::READ).count();
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((readers, writers), (15, 40_000));
    assert!(pages > 3, "{pages}");
    for last in [LastUse { number: u64::MAX, open: 0 }, LastUse { number: 0, open: u64::MAX }] {
        world.call(&admin, 0, &asked(Some(last))).unwrap();
    }
    assert_eq!(report(&world, &admin, 3200).unwrap().opens, OPENS_COUNTED_MAX);
}

/// Makes files until there is one of this number.
fn make_objects(world: &World, caller: &Caller, object: u64) {
    for count in 1.. {
        let open = world.open_file(&format!("f{count}"), 50_000 + count, CREATE);
        let made = world.call(caller, count, &open).unwrap().attr.handle.object;
        close(world, caller, 50_000 + count);
        if made == object {
            return;
        }
        assert!(made < object);
    }
}

#[test]
fn so_many_locks_are_told_and_that_there_are_more() {
    let world = World::new();
    let (admin, caller) = (administrator(&world), user(&world, 5, 0));
    let file = world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap().attr.handle;
    let take = |start| {
        let taken = lock(file, LockKind::Write, start * 2, start * 2 + 1, 0);
        world.call(&caller, 0, &taken).unwrap();
    };
    (0..LOCKS_TOLD_MAX as u64).for_each(take);
    let told = uses(&world, &admin, "file").unwrap();
    assert_eq!((told.locks.len(), told.incomplete), (LOCKS_TOLD_MAX, false));
    take(LOCKS_TOLD_MAX as u64);
    let told = uses(&world, &admin, "file").unwrap();
    assert_eq!((told.locks.len(), told.incomplete), (LOCKS_TOLD_MAX, true));
}

#[test]
fn keys_that_a_client_caches_are_counted_until_it_has_let_go() {
    let world = World::new();
    let (admin, cacher) = (administrator(&world), user(&world, 5, 0));
    let begin = Recalls { lease: 0, acknowledged: 0, wait_ms: 0, ends: false };
    world.call(&cacher, 0, &begin).unwrap();
    let cached = |world: &World| report(world, &admin, 5).unwrap().cached;
    assert_eq!(cached(&world), Some(0));
    assert!(!world.exists(&cacher, "a"));
    let some = cached(&world).unwrap();
    assert!(some >= 2, "the name, and its directory: {some}");
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&user(&world, 6, 0), &mkdir)]);
    assert!(cached(&world).unwrap() < some);
    world.pass_and_tick(6.0);
    assert_eq!(cached(&world), None, "its lease is over");
}

fn close(world: &World, caller: &Caller, open: u64) {
    world.call(caller, 0, &Close { opens: vec![ClosedOpen { open, wrote: None }] }).unwrap();
}
