//! A mount that nobody uses for a while still holds what its programs have open and locked: it asks the manager
//! now and then, so that it soon comes back to one that was restarted, or that it was cut off from.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use pvfs_client::block_on;
use pvfs_wire::ops::Ping;

use crate::identity::Requester;
use crate::mounted::Mounted;

/// Beats as long as `mounted` lives.
pub fn start(mounted: &Arc<Mounted>) -> std::io::Result<()> {
    let mounted = Arc::downgrade(mounted);
    thread::Builder::new().name("pvfs-heartbeat".into()).spawn(move || beat(&mounted)).map(|_| ())
}

fn beat(mounted: &Weak<Mounted>) {
    let me = Requester::of_process();
    loop {
        thread::sleep(INTERVAL);
        let Some(mounted) = mounted.upgrade() else { return };
        mounted.give_up_pins();
        let manager = mounted.filesystem.manager();
        let beaten = mounted
            .identities
            .act(me, |user| block_on(user.inquire(manager, &Ping {})).map_err(Into::into));
        if let Err(error) = beaten {
            tracing::debug!("no heartbeat: {error}");
        }
    }
}

/// A third of the lease.
const INTERVAL: Duration = Duration::from_secs(10);
