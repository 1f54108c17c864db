//! Whole histories with lost replies, repetitions, reordering and kills, from a seed each.

use super::*;

/// A client that moves its one file on and on: renaming is the least repeatable of all changes.
struct Mover {
    client: u64,
    connection: u64,
    moved: u64,
    caller: Caller,
    current: Option<Message>,
}

impl Mover {
    fn new(world: &World, client: u64) -> Self {
        let caller = world.client(client);
        world.call(&caller, 1, &world.mkdir(&format!("{client}-0"))).unwrap();
        Self { client, connection: client * 100, moved: 0, caller, current: None }
    }

    fn name(&self, moved: u64) -> String {
        format!("{}-{moved}", self.client)
    }

    /// The rename it wants done, the same one until it has its answer.
    fn message(&mut self, world: &World) -> Message {
        let from = world.name(&self.name(self.moved));
        let to = world.name(&self.name(self.moved + 1));
        let rename = Rename { from, to, flags: RenameFlags::NOREPLACE };
        let count = self.moved + 2;
        again(self.current.get_or_insert_with(|| message(&rename, 0, count)))
    }

    fn reconnect(&mut self, world: &World) {
        world.manager.departed(&self.caller.peer, Departure::Broken);
        self.connection += 1;
        let (caller, reception) = world.arrive(self.client, self.connection);
        assert!(reception.lease_kept);
        self.caller = caller;
    }

    fn answered(&mut self, status: Errno) {
        assert_eq!(status, OK, "client {} at move {}", self.client, self.moved);
        self.moved += 1;
        self.current = None;
    }
}

fn history(seed: u64) {
    // Shown when the test fails.
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut world = World::new();
    let mut movers: Vec<Mover> = (1..=3).map(|client| Mover::new(&world, client)).collect();
    for _ in 0..60 {
        if random.number().is_multiple_of(10) {
            world = world.restarted();
            movers.iter_mut().for_each(|mover| mover.reconnect(&world));
        }
        let mut round = Vec::new();
        for (index, mover) in movers.iter_mut().enumerate() {
            for _ in 0..random.number() % 3 {
                round.push((index, mover.message(&world)));
            }
        }
        let at = random.number() as usize % (round.len() + 1);
        round.rotate_left(at);
        let sent: Vec<(&Caller, &Message)> =
            round.iter().map(|(index, message)| (&movers[*index].caller, message)).collect();
        world.send(&sent);
        hear(&world, &mut movers, round, &mut random);
    }
    let caller = world.client(9);
    for mover in &movers {
        // The last one may have happened without its client having heard.
        let names = (0..=mover.moved + 1).filter(|n| world.exists(&caller, &mover.name(*n)));
        let names: Vec<u64> = names.collect();
        let expected =
            names == [mover.moved] || names == [mover.moved + 1] && mover.current.is_some();
        assert!(expected, "seed {seed}: client {} has {names:?}", mover.client);
    }
    assert_eq!(crate::namespace::check(&*world.store.snapshot()).unwrap(), [], "seed {seed}");
}

/// A third of the replies is lost.
fn hear(world: &World, movers: &mut [Mover], round: Vec<(usize, Message)>, random: &mut Random) {
    let mut heard = vec![Vec::new(); movers.len()];
    for (index, message) in round {
        let status = world.status_of(&movers[index].caller, &message).expect("all are answered");
        if !random.number().is_multiple_of(3) {
            heard[index].push(status);
        }
    }
    for (mover, statuses) in movers.iter_mut().zip(heard) {
        if let Some(first) = statuses.first() {
            assert!(statuses.iter().all(|status| status == first), "{statuses:?}");
            mover.answered(*first);
        }
    }
}

#[test]
fn every_rename_happens_once_whatever_is_lost_repeated_or_killed() {
    (0..100).for_each(history);
}
