//! Bytes from outside never panic the daemon, and every request is answered once.

use proptest::prelude::*;
use pvfs_iod::MemoryDisk;
use pvfs_wire::ops::{self, Access, DaemonState, Read, StatObjects, TruncateObject, Write};
use pvfs_wire::{Errno, Wire};

use crate::harness::{Daemon, contiguous, handle};

fn codes() -> Vec<u16> {
    ops::table().map(|row| row.0).chain([0, 0x0006, 0x02ff, 0xffff]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bodies_are_answered(
        body in prop::collection::vec(any::<u8>(), 0..200), data in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let daemon = Daemon::with(MemoryDisk::new(1), |config| config.workers = 0);
        for client in [daemon.client(1), daemon.manager(), daemon.client_with(2, None)] {
            for code in codes() {
                client.send_raw(code, &body, &data).status();
            }
        }
        prop_assert_ne!(daemon.iod.state(), DaemonState::Down);
    }

    #[test]
    fn requests_with_changed_or_missing_bytes_are_answered(
        at in any::<prop::sample::Index>(), change in 1u8.., cut in any::<prop::sample::Index>(),
    ) {
        let daemon = Daemon::with(MemoryDisk::new(1), |config| config.workers = 0);
        let client = daemon.client(1);
        let access: Access = client.object(1).access;
        let (slot, regions) = (0, contiguous(3, 10));
        let requests = [
            (0x0201, Read { access: access.clone(), slot, regions: regions.clone() }.to_bytes()),
            (0x0202, Write { access: access.clone(), slot, regions, sync: true }.to_bytes()),
            (0x0203, TruncateObject { access, slot, size: 99 }.to_bytes()),
            (0x0205, StatObjects { handles: vec![handle(1); 3] }.to_bytes()),
        ];
        for (code, body) in requests {
            let mut changed = body.clone();
            changed[at.index(body.len())] ^= change;
            client.send_raw(code, &changed, &[0; 10]).status();
            let short = &body[..cut.index(body.len())];
            prop_assert_eq!(client.send_raw(code, short, &[0; 10]).status(), Errno::EPROTO);
        }
    }
}

#[test]
fn operations_of_others_are_not_supported() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    for code in [0x0101, 0x0110, 0x0200, 0x7777] {
        assert_eq!(client.send_raw(code, &[], &[]).status(), Errno::EOPNOTSUPP);
    }
    for code in [0x0001, 0x0002] {
        assert_eq!(client.send_raw(code, &[], &[]).status(), Errno::EPROTO);
    }
}
