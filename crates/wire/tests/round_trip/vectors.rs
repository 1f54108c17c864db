//! Bytes that must never change while the wire's version stays: other programs may have been built on them.

use pvfs_layout::Regions;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::*;
use pvfs_wire::{Errno, Handle, Header, Operation, Sequence, Wire};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check<T: Wire + PartialEq + std::fmt::Debug>(value: &T, expected: &[&str]) {
    assert_eq!(hex(&value.to_bytes()), expected.concat(), "{value:?}");
}

fn file() -> Handle {
    Handle { fsid: 1, generation: 2, object: 0x0102_0304 }
}

fn access(token: Option<&[u8]>) -> Access {
    Access { number: 7, token: token.map(Into::into) }
}

fn regions() -> Regions {
    Regions::contiguous(4096, 100).expect("a small range")
}

fn hello() -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        client: 0x1122,
        lane: 1,
        incarnation: 2,
        fsid: 1,
        nonce: [0xab; 32],
        software: "x".into(),
    }
}

#[test]
fn read_and_write() {
    let read = Read { access: access(Some(b"tok")), slot: 3, regions: regions() };
    let place = ["03000000", "01", "0010000000000000", "6400000000000000"];
    check(&read, &["07000000", "01", "03000000", "746f6b", &place.concat()]);
    let write = Write { access: access(None), slot: 3, regions: regions(), sync: true };
    check(&write, &["07000000", "00", &place.concat(), "01"]);
}

#[test]
fn open_and_stat() {
    let target = Target::below(file(), "a/b");
    let named = ["01000000", "02000000", "0403020100000000", "03000000", "612f62"].concat();
    let open = Open {
        target: target.clone(),
        flags: OpenFlags::READ | OpenFlags::CREATE,
        mode: 0o644,
        striping: Striping { pcount: Some(2), ..Striping::default() },
        open: 9,
    };
    check(
        &open,
        &[&named, "05000000", "a4010000", "00", "0102000000", "00", "00", "0900000000000000"],
    );
    check(&Stat { target, follow: true, placement: false }, &[&named, "01", "00"]);
}

#[test]
fn greeting() {
    let numbers = ["2211000000000000", "01000000", "0200000000000000", "01000000"].concat();
    check(&hello(), &["0101", &numbers, &"ab".repeat(32), "01000000", "78"]);
}

#[test]
fn who_is_there() {
    check(&Sessions { after: Some(7) }, &["01", "0700000000000000"]);
    let client = ClientReport {
        number: 8,
        software: "pvfs".into(),
        address: "unix".into(),
        here_s: Some(9),
        freed_in_s: None,
        sessions: vec![SessionReport { id: 0x1122, uid: 1000, issued: 3, expiry: 4 }],
        opens: 5,
        locks: Some(LockCounts { held: 6, awaited: 1 }),
        cached: None,
    };
    let said = ["0800000000000000", "04000000", "70766673", "04000000", "756e6978"].concat();
    let session = ["2211000000000000", "e8030000", "0300000000000000", "0400000000000000"].concat();
    let locks = ["01", "0600000000000000", "0100000000000000"].concat();
    let client_bytes = [
        &said,
        "01",
        "0900000000000000",
        "00",
        "01000000",
        &session,
        "0500000000000000",
        &locks,
        "00",
    ]
    .concat();
    let list = SessionList { clients: vec![client], next: None };
    check(&list, &["01000000", &client_bytes, "00"]);
}

#[test]
fn who_uses_a_file() {
    let last = LastUse { number: 7, open: 8 };
    let place = ["0700000000000000", "0800000000000000"].concat();
    let target = ["01000000", "02000000", "0403020100000000", "00000000"].concat();
    check(&Uses { target: Target::object(file()), after: Some(last) }, &[&target, "01", &place]);
    let lock = HeldLock { kind: LockKind::Write, start: 1, end: 2, pid: 3 };
    let list = UseList {
        opens: vec![OpenReport { number: Some(7), uid: 1000, flags: OpenFlags::READ }],
        locks: vec![LockReport { number: None, family: LockFamily::Flock, lock, awaited: true }],
        incomplete: false,
        next: Some(last),
    };
    let open = ["01", "0700000000000000", "e8030000", "01000000"].concat();
    let lock =
        ["00", "02", "02", "0100000000000000", "0200000000000000", "03000000", "01"].concat();
    check(&list, &["01000000", &open, "01000000", &lock, "00", "01", &place]);
}

#[test]
fn headers() {
    let header = Header {
        session: 5,
        sequence: Sequence { slot: 1, count: 2 },
        timeout_ms: 10_000,
        map_version: 3,
        data_bytes: 4,
        data_crc: Some(0xdead_beef),
        ..Header::request(Read::CODE, 77)
    };
    let request = [
        "50564653",
        "01",
        "00",
        "0102",
        "4d00000000000000",
        "3f000000",
        "04000000",
        "00000000",
        "0100",
        "0000",
        "05000000",
        "03000000",
        "0200000000000100",
        "10270000",
        "307ae54e",
        "efbeadde",
        "747587b2",
    ];
    assert_eq!(hex(&header.with_body(&hello().to_bytes()).encode()), request.concat());
    let reply = [
        "50564653",
        "01",
        "01",
        "0102",
        "4d00000000000000",
        "00000000",
        "00000000",
        "02000000",
        "0000",
        "0000",
        "00000000",
        "00000000",
        "0000000000000000",
        "00000000",
        "00000000",
        "00000000",
        "270245bd",
    ];
    assert_eq!(hex(&header.reply(Errno::ENOENT).encode()), reply.concat());
}
