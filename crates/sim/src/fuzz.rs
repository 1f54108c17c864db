//! What no bytes may do: bring a daemon down, hold it up, or damage its state.
//!
//! Each function takes arbitrary bytes and panics when a promise is broken. `fuzz/` drives them with a fuzzer;
//! `tests/fuzz.rs` drives them with damaged copies of [`corpus`], on every machine that runs tests.
//! What a connection does with broken frames is also shown in crates/net/tests/server.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use pvfs_layout::{Dist, Distribution, IodId, IodList, Regions};
use pvfs_mgr::record::{Dentry, Inode, OpenFile, Record, ReplyRecord};
use pvfs_net::lane::{Lane, Outgoing};
use pvfs_net::memory::MemoryRuntime;
use pvfs_net::runtime::{Interest, Runtime, before, ready};
use pvfs_net::stream::Stream;
use pvfs_wire::attr::{Attr, Extras, FileKind, Placement, SizeState, Striping, Time};
use pvfs_wire::group_handle::{GroupHandle, GroupHandleError};
use pvfs_wire::ops::*;
use pvfs_wire::token::{
    CLOCK_SKEW_S, Capability, Credential, Holder, KeyRing, Rights, Session, SessionRights,
};
use pvfs_wire::{Bytes, Errno, HEADER_BYTES, Handle, Header, Operation, VERSION, Wire};

use crate::manager_host::MANAGER;
use crate::world::{Settings, World};

/// A header and the record of any operation, or reply: understood or refused, and then stable.
pub fn bodies(data: &[u8]) {
    if let Some(Ok(header)) = data.first_chunk::<HEADER_BYTES>().map(Header::decode) {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
    macro_rules! all {
        ($($name:ident -> $reply:ident = $code:literal $effect:ident;)*) => {$(
            stable::<$name>(data);
            stable::<$reply>(data);
        )*};
    }
    pvfs_wire::daemon_operations!(all);
    pvfs_wire::manager_operations!(all);
    pvfs_wire::iod_operations!(all);
}

fn stable<T: Wire + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(value) = T::from_bytes(data) {
        assert_eq!(T::from_bytes(&value.to_bytes()), Ok(value));
    }
}

/// A distribution, a list of iods, a list of regions: arithmetic on them stays within bounds.
pub fn layouts(data: &[u8]) {
    if let Ok((iods, _)) = IodList::decode(data, 1 << 16) {
        assert_eq!(iods.iter().take(1000).count() as u32, iods.len().min(1000));
    }
    let regions = Regions::decode(data, 1 << 16);
    if let Ok((regions, _)) = &regions {
        let total: u64 = regions.iter().take(1000).map(|region| region.len).sum();
        assert!(total <= regions.total_bytes());
    }
    let Ok((dist, rest)) = Dist::decode(data) else { return };
    for part in rest.chunks(8) {
        let mut number = [0; 8];
        number[..part.len()].copy_from_slice(part);
        let offset = u64::from_le_bytes(number);
        let place = dist.locate(offset);
        assert!(place.slot < dist.slots());
        if offset < pvfs_layout::FILE_SIZE_MAX {
            assert_eq!(dist.file_offset(place.slot, place.local), Some(offset));
        }
        assert!(dist.contiguous_from(place.slot, place.local) > 0);
        let _ = dist.file_end(place.slot, offset);
    }
}

/// What a manager stores: refused, or stored again as it was understood.
pub fn records(data: &[u8]) {
    macro_rules! all {
        ($($name:ty),*) => {$(
            if let Ok(value) = <$name>::decode(data) {
                assert_eq!(<$name>::decode(&value.encode()).as_ref(), Ok(&value));
            }
        )*};
    }
    all!(Dentry, Inode, OpenFile, ReplyRecord);
}

/// What an agent answers, and every token: nobody makes one up.
pub fn tokens(data: &[u8]) {
    let ring = KeyRing::new(&[[7; 32]]);
    let _ = Credential::from_bytes(data);
    assert!(ring.check_session(data, 0).is_err(), "a session was made up");
    assert!(ring.check_capability(data, 0).is_err(), "a capability was made up");
    assert!(ring.check_order::<Order>(data).is_err(), "an order was made up");
    let _ = ring.session_secret(data);
    assert!(GroupHandle::check_seal(data, &ring).is_err(), "a group handle was made up");
    group_handles(data);
}

/// The record in a group handle that a stranger sealed: the file it speaks of, or no handle; never one of ours.
/// Whether it was a handle.
pub fn group_handles(data: &[u8]) -> bool {
    let Ok(handle) = GroupHandle::from_bytes(data) else { return false };
    let bytes = handle.seal(&KeyRing::new(&[[9; 32]]));
    let own = GroupHandle::check_seal(&bytes, &KeyRing::new(&[[7; 32]]));
    assert!(own.is_err(), "a group handle was made up");
    let foreign = GroupHandle::read(&bytes, !handle.fsid, 0);
    assert!(foreign.is_err(), "a handle of another file system");
    match GroupHandle::read(&bytes, handle.fsid, 0) {
        Ok(read) => assert_eq!(read, handle),
        Err(error) => assert_eq!(error, GroupHandleError::Malformed),
    }
    let late = GroupHandle::read(&bytes, handle.fsid, u64::MAX);
    assert!(late.is_err() || handle.expiry.saturating_add(CLOCK_SKEW_S) == u64::MAX);
    GroupHandle::read(&bytes, handle.fsid, 0).is_ok()
}

/// Raw bytes, after a proper hello or not: daemons live, and serve others.
pub fn connections(data: &[u8]) {
    let mut world = small_world();
    for host in HOSTS {
        let (runtime, data) = (MemoryRuntime::new(world.network(), "enemy"), data.to_vec());
        world.spawn("enemy", async move {
            let hello = Header::request(Hello::CODE, 1).with_body(&hello().to_bytes());
            let greeting = [&hello.encode()[..], &self::hello().to_bytes()].concat();
            let is_polite = data.first().is_some_and(|first| first % 2 == 0);
            let bytes = [if is_polite { &greeting[..] } else { &[] }, &data].concat();
            let pouring = pin!(pour(&runtime, host, &bytes));
            before(&runtime, runtime.now().after(PATIENCE), pouring).await;
        });
    }
    world.run(Duration::from_secs(60));
    still_serves(world);
}

/// Requests of somebody who may ask, with arbitrary bodies: daemons live, and their state is sound.
///
/// The bytes are a list of (operation, body, data) as on the wire, or else one operation and its body.
/// Returns what was answered.
pub fn requests(data: &[u8]) -> Vec<(u16, Errno)> {
    let script = Vec::<(u16, (Bytes, Bytes))>::from_bytes(data).unwrap_or_else(|_| {
        let (code, body) = data.split_at(data.len().min(2));
        let code = code.try_into().map_or(0, u16::from_le_bytes);
        vec![(code, (body.into(), Bytes::default()))]
    });
    let mut world = small_world();
    let answers = Rc::new(RefCell::new(Vec::new()));
    for host in HOSTS {
        let (runtime, script) = (MemoryRuntime::new(world.network(), "enemy"), script.clone());
        let answers = answers.clone();
        world.spawn("enemy", async move {
            let asking = pin!(ask_all(&runtime, host, &script, &answers));
            before(&runtime, runtime.now().after(PATIENCE), asking).await;
        });
    }
    world.run(Duration::from_secs(60));
    still_serves(world);
    answers.take()
}

/// The record of a proper group handle, to begin from: bytes for [`group_handles`].
pub fn group_handle() -> Vec<u8> {
    let handle = Handle { fsid: 1, generation: 1, object: 9 };
    let (mode, nlink, uid, gid, time) = (0o644, 1, 1000, 100, Time::default());
    let attr = Attr {
        handle,
        kind: FileKind::Regular,
        mode,
        nlink,
        uid,
        gid,
        rdev: 0,
        size: 5,
        size_state: SizeState::Unsettled,
        disk_bytes: None,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        change: 3,
        extras: Extras::NONE,
    };
    let dist = Dist::simple_stripe(1024, 3).expect("a small one");
    let iods = IodList::new([0, 1, 2].map(IodId)).expect("each once");
    GroupHandle {
        fsid: 1,
        flags: OpenFlags::READ,
        rights: Rights::READ,
        holder: Holder::User(1000),
        handle,
        number: 12,
        placement: Placement { dist, iods },
        attr,
        capability: b"capability".into(),
        expiry: 1_000_000,
    }
    .to_bytes()
}

/// One proper request of many kinds, to begin from: bytes for [`requests`].
pub fn corpus() -> Vec<Vec<u8>> {
    let root = Handle::root(1, 1);
    let target = || Target::below(root, "a");
    let file = root.sibling(2);
    let capability = Capability {
        handle: file,
        rights: Rights::READ | Rights::WRITE | Rights::TRUNCATE,
        dist: Dist::simple_stripe(1024, 1).expect("a small one"),
        holder: Holder::Session(SESSION),
        layout_epoch: 0,
        expiry: u64::MAX / 2,
    };
    let token = Some(Bytes(KeyRing::new(&[[7; 32]]).sign_capability(&capability)));
    let access = || Access { number: 1, token: token.clone() };
    let regions = || Regions::contiguous(100, 3000).expect("a small range");
    let open = Open {
        target: target(),
        flags: OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE | OpenFlags::APPEND,
        mode: 0o644,
        striping: Striping::default(),
        open: 1,
    };
    let lock = Lock {
        handle: file,
        family: LockFamily::Range,
        owner: 1,
        pid: 1,
        kind: LockKind::Write,
        start: 0,
        end: 100,
        wait_ms: 100,
    };
    let wrote =
        Some(Wrote { end: 7, mtime: Default::default(), uncertain: false, disk_bytes: Some(5) });
    let (name, value) = (Bytes::from("user.x"), Bytes::from("y"));
    let write = Write { access: access(), slot: 0, regions: regions(), sync: true };
    vec![
        whole(&[one(&open), one(&lock), one(&Append { open: 1, bytes: 9, end: Some(5) })]),
        whole(&[
            one(&open),
            one(&Truncate { target: target(), follow: true, size: 9, open: None }),
        ]),
        whole(&[one(&open), one(&Close { opens: vec![ClosedOpen { open: 1, wrote }] })]),
        whole(&[
            one(&open),
            one(&Settle {
                handle: file,
                change: 1,
                size: 9,
                disk_bytes: 5,
                mtime: Default::default(),
            }),
        ]),
        whole(&[
            one(&open),
            one(&Truncated { handle: file, ticket: 1, size: Some(9), disk_bytes: Some(5) }),
        ]),
        whole(&[one(&Mkdir { target: target(), mode: 0o755 }), one(&Rmdir { target: target() })]),
        whole(&[one(&Mknod { target: target(), kind: FileKind::Fifo, mode: 0, rdev: 7 })]),
        whole(&[
            one(&Symlink { target: target(), path: "a/b".into() }),
            one(&Readlink { target: target() }),
        ]),
        whole(&[
            one(&open),
            one(&Link { existing: target(), follow: true, new: Target::below(root, "b") }),
        ]),
        whole(&[one(&open), one(&Unlink { target: target() })]),
        whole(&[
            one(&open),
            one(&Rename { from: target(), to: Target::below(root, "b"), flags: RenameFlags::NONE }),
        ]),
        whole(&[one(&Stat { target: Target::object(root), follow: true, placement: true })]),
        whole(&[one(&Readdir { dir: root, cookie: 0, entries_max: 100, attributes: true })]),
        whole(&[one(&SetXattr {
            target: Target::object(root),
            follow: true,
            name,
            value,
            flags: XattrFlags::NONE,
        })]),
        whole(&[
            (Write::CODE, (Bytes(write.to_bytes()), Bytes(vec![7; 3000]))),
            one(&Sync { access: access() }),
            one(&Lend { access: access(), purpose: LoanFor::Writing }),
        ]),
        whole(&[one(&Read { access: access(), slot: 0, regions: regions() })]),
        whole(&[one(&TruncateObject { access: access(), slot: 0, size: 5000 })]),
        whole(&[
            one(&StatObjects { handles: vec![file] }),
            one(&RemoveObjects { handles: vec![file] }),
        ]),
    ]
}

fn one<O: Operation>(operation: &O) -> (u16, (Bytes, Bytes)) {
    (O::CODE, (Bytes(operation.to_bytes()), Bytes::default()))
}

fn whole(requests: &[(u16, (Bytes, Bytes))]) -> Vec<u8> {
    requests.to_vec().to_bytes()
}

fn small_world() -> World {
    World::new(1, Settings { iods: 1, ..Settings::default() })
}

async fn pour(runtime: &MemoryRuntime, host: &str, bytes: &[u8]) {
    let mut stream = runtime.network().connect("enemy", host);
    let mut sent = 0;
    while sent < bytes.len() {
        ready(runtime, &stream, Interest::Writable).await;
        match stream.send(&[std::io::IoSlice::new(&bytes[sent..])]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
    ready(runtime, &stream, Interest::Readable).await;
}

async fn ask_all(
    runtime: &MemoryRuntime,
    host: &str,
    script: &[(u16, (Bytes, Bytes))],
    answers: &RefCell<Vec<(u16, Errno)>>,
) {
    let stream = runtime.network().connect("enemy", host);
    let Ok(mut lane) = Lane::open(runtime, stream, &hello()).await else { return };
    let now_s = runtime.wall_s();
    let session = Session {
        id: SESSION,
        uid: 1000,
        gid: 1000,
        gids: Vec::new(),
        // A daemon of the cluster may remove objects, also those of files that are still to be made.
        rights: SessionRights::ADMIN,
        issued: now_s,
        expiry: now_s + 3600,
    };
    let credential = Credential::issue(&KeyRing::new(&[[7; 32]]), &session);
    let Ok(session) = lane.introduce(runtime, 1, &credential).await else { return };
    let mut into = vec![0; 1 << 16];
    for ((code, (body, data)), count) in script.iter().zip(1..) {
        let sequence = pvfs_wire::Sequence { slot: 0, count };
        let header = Header { session, sequence, ..Header::request(*code, 0) };
        let outgoing = Outgoing { header, body, data: &[data], data_checksum: true, lent: None };
        // Only a read is answered with data.
        let mut pieces = [&mut into[..]];
        let pieces = if *code == Read::CODE { &mut pieces[..] } else { &mut [] };
        match lane.exchange(runtime, &outgoing, READ_DONE_BYTES, pieces).await {
            Ok(incoming) => answers.borrow_mut().push((*code, incoming.header.status)),
            Err(_) => return,
        }
    }
}

fn hello() -> Hello {
    Hello {
        version_min: VERSION,
        version_max: VERSION,
        client: 99,
        lane: 0,
        incarnation: 1,
        fsid: 1,
        nonce: [5; 32],
        software: "enemy".into(),
    }
}

/// An honest client is served as ever.
fn still_serves(mut world: World) {
    let client = world.client("honest");
    world.spawn("honest", async move {
        let root = client.user.root().await.expect("the manager lives");
        let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
        let name = Target::below(root, "honest");
        let file = client.user.open_regular(name, flags, 0o600, Striping::default()).await;
        let file = file.expect("the manager lives");
        client.user.write_at(&file, 9, &[3; 5000], true).await.expect("the iod lives");
        let mut bytes = [0; 5000];
        client.user.read_at(&file, 9, &mut bytes).await.expect("the iod lives");
        assert_eq!(bytes, [3; 5000]);
        client.user.close(file).await.expect("the manager lives");
    });
    world.run(Duration::from_secs(30));
    world.check_names();
}

const HOSTS: [&str; 2] = [MANAGER, "io0"];
const PATIENCE: Duration = Duration::from_secs(20);
const SESSION: u64 = 9;
const READ_DONE_BYTES: usize = 8;
