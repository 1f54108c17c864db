//! The ground of it all: a seed is a history.

use std::time::Duration;

use pvfs_sim::{Loss, Settings, Trouble, World, seeds};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

fn history(seed: u64) -> u64 {
    let mut world = World::new(seed, Settings::default());
    let mut trouble = Trouble::new(world.chance(), &["c0", "c1"], 3);
    trouble.manager = Some(Loss::Power);
    trouble.iod = Some(Loss::Power);
    world.set_trouble(trouble);
    for host in ["c0", "c1"] {
        let client = world.client(host);
        world.spawn(host, async move {
            let Ok(root) = client.user.root().await else { return };
            for round in 0..10 {
                let name = Target::below(root, format!("{}-{round}", client.host));
                let flags = OpenFlags::CREATE | OpenFlags::WRITE;
                let opened = client.user.open_regular(name, flags, 0o600, Striping::default());
                let Ok(file) = opened.await else { continue };
                let _ = client.user.write_at(&file, 17, &[round; 5000], false).await;
                let _ = client.user.close(file).await;
                let _ = client.user.list(root, true).await;
            }
        });
    }
    world.run(Duration::from_secs(3600));
    world.trace()
}

#[test]
fn the_same_seed_is_the_same_history() {
    seeds::each("the_same_seed_is_the_same_history", 6, |seed| {
        assert_eq!(history(seed), history(seed));
    });
    assert_ne!(history(1), history(2));
}
