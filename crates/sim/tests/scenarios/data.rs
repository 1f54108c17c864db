//! Data: what was written is read, by everybody, to the byte, whatever breaks.

mod appends;
mod concurrent;
mod history;
mod holes;
mod sequential;
mod sizes;
mod together;
mod vectors;

use std::time::Duration;

use pvfs_sim::{Client, Patience, World};
use pvfs_wire::ops::Target;
use pvfs_wire::{Errno, Handle};

/// Deadlines that no outage of these scenarios outlasts: then every operation has to succeed.
const UNHURRIED: Patience = Patience { data: MINUTES, metadata: MINUTES, status: MINUTES };

const MINUTES: Duration = Duration::from_secs(600);

/// Repeats what an iod that is down just now may fail at once: what only looks.
async fn insist<T>(client: &Client, mut look: impl AsyncFnMut() -> pvfs_client::Result<T>) -> T {
    let deadline = client.now().after(MINUTES);
    loop {
        match look().await {
            Ok(value) => return value,
            Err(error) if client.now() > deadline => panic!("still failing: {error}"),
            Err(error) if [Errno::EIO, Errno::ETIMEDOUT].contains(&error.errno()) => {
                client.sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Removes these files; soon afterwards nothing of them lies on any iod.
fn nothing_is_left(
    world: &mut World,
    client: &Client,
    dir: Handle,
    names: &'static [&'static str],
) {
    let user = client.user.clone();
    world.spawn(&client.host, async move {
        for name in names {
            user.unlink(Target::below(dir, name)).await.expect("everything is mended");
        }
    });
    world.run(MINUTES);
    // A client may have died while the manager was away, which waits ten leases for it.
    world.run_for(Duration::from_secs(480));
    world.check_names();
    assert!(world.objects().is_empty(), "objects are left: {:?}", world.objects());
}
