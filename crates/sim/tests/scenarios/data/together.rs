//! Many small transfers side by side over one connection to each iod: equal to an array of bytes while daemons are
//! killed, and a write that is given up never lands later.

use std::pin::pin;
use std::time::Duration;

use pvfs_client::OpenFile;
use pvfs_net::runtime::{all, before};
use pvfs_sim::{Chance, Client, Command, Loss, Settings, Trouble, Victim, World, seeds};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

use super::{UNHURRIED, insist};

const HOST: &str = "c0";
const ROUNDS: u32 = 6;
const PLACES: usize = 150;
const PLACE: usize = 100;

async fn open(client: &Client) -> OpenFile {
    insist(client, async || {
        let root = client.user.root().await?;
        let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
        let name = Target::below(root, "file");
        client.user.open_regular(name, flags, 0o600, Striping::default()).await
    })
    .await
}

fn together(world: &World) -> Client {
    let mut client = world.patient_client(HOST, UNHURRIED);
    client.user = client.user.together();
    client
}

#[test]
fn writes_and_reads_side_by_side_are_all_done_while_daemons_are_killed() {
    let name = "writes_and_reads_side_by_side_are_all_done_while_daemons_are_killed";
    seeds::each(name, 8, |seed| {
        let mut world = World::new(seed, Settings::default());
        let client = together(&world);
        let mut trouble = Trouble::new(world.chance(), &[HOST], 3);
        trouble.manager = Some(Loss::Process);
        trouble.iod = Some(Loss::Process);
        world.set_trouble(trouble);
        let chance = world.chance();
        world.spawn(HOST, rounds(client, chance));
        world.run(Duration::from_secs(36_000));
        world.command(Command::Mend);
    });
}

async fn rounds(client: Client, mut chance: Chance) {
    let file = open(&client).await;
    let mut content = vec![0; PLACES * PLACE];
    for round in 1..=ROUNDS {
        let mut places: Vec<usize> = (0..PLACES).collect();
        places.sort_by_cached_key(|_| chance.any());
        let pieces: Vec<(usize, Vec<u8>)> = places
            .into_iter()
            .map(|at| (at * PLACE, vec![(round as usize * 30 + at) as u8; PLACE]))
            .collect();
        let writes = pieces.iter().map(|(at, piece)| {
            let (user, file) = (&client.user, &file);
            async move { user.write_at(file, *at as u64, piece, false).await }
        });
        for written in all(writes).await {
            written.expect("iods come back before the deadline");
        }
        for (at, piece) in &pieces {
            content[*at..at + PLACE].copy_from_slice(piece);
        }
        let reads = (0..PLACES).map(|at| {
            let (client, file, expected) = (&client, &file, &content[at * PLACE..][..PLACE]);
            async move {
                let got = insist(client, async || {
                    let mut buffer = [0; PLACE];
                    client.user.read_at(file, (at * PLACE) as u64, &mut buffer).await?;
                    Ok(buffer)
                });
                assert_eq!(got.await, expected, "place {at} in round {round}");
            }
        });
        all(reads).await;
        client.sleep(Duration::from_millis(200)).await;
    }
    client.user.part();
    client.user.sync(&file).await.expect("iods come back before the deadline");
}

/// All over one connection, more than one connection may have outstanding at once.
#[test]
fn hundreds_at_once_are_one_request_each() {
    let mut world = World::new(1, Settings { iods: 1, ..Settings::default() });
    let client = together(&world);
    world.spawn(HOST, async move {
        let file = open(&client).await;
        client.user.write_at(&file, 0, &[1; 3000], false).await.unwrap();
        let reads = (0..500u64).map(|at| {
            let (user, file) = (&client.user, &file);
            async move { user.read_at(file, at, &mut [0; 9]).await }
        });
        assert!(all(reads).await.into_iter().all(|read| read == Ok(9)));
    });
    world.run(Duration::from_secs(60));
    assert_eq!(world.requests(Victim::Iod(0)), 501);
}

/// Reads that are given up leave the connection as it is; writes end it, so that they cannot land later.
#[test]
fn what_is_given_up_never_disturbs_what_comes_after() {
    seeds::each("what_is_given_up_never_disturbs_what_comes_after", 20, |seed| {
        let mut world = World::new(seed, Settings { iods: 2, ..Settings::default() });
        let client = together(&world);
        let mut chance = world.chance();
        world.spawn(HOST, async move {
            let file = open(&client).await;
            let mut content = vec![0u8; 4000];
            client.user.write_at(&file, 0, &content, false).await.unwrap();
            for round in 1..40u8 {
                let patience = Duration::from_micros(chance.between(0, 900));
                let deadline = client.now().after(patience);
                let (at, is_write) = (chance.between(0, 3900) as usize, chance.between(0, 1) == 0);
                let user = &client.user;
                if is_write {
                    let write = async {
                        let piece = [round; 100];
                        let early = pin!(user.write_at(&file, at as u64, &piece, false));
                        before(client.runtime(), deadline, early).await
                    };
                    let others = (0..10u64).map(|number| {
                        let file = &file;
                        async move { user.read_at(file, number, &mut [0; 50]).await }
                    });
                    let (_, others) = both(write, all(others)).await;
                    assert!(others.into_iter().all(|read| read == Ok(50)));
                    // Whatever became of it, this one comes after it.
                    let piece = [round.wrapping_add(100); 100];
                    user.write_at(&file, at as u64, &piece, false).await.unwrap();
                    content[at..at + 100].copy_from_slice(&piece);
                } else {
                    let read = user.read_at(&file, at as u64, &mut [0; 100]).await;
                    let mut slow = [0; 2000];
                    let given_up = pin!(user.read_at(&file, 0, &mut slow));
                    let _ = before(client.runtime(), deadline, given_up).await;
                    assert_eq!(read, Ok(100));
                }
                let pause = Duration::from_millis(chance.between(0, 20));
                client.sleep(pause).await;
                let mut all_of_it = vec![0; 4000];
                assert_eq!(user.read_at(&file, 0, &mut all_of_it).await, Ok(4000));
                assert!(all_of_it == content, "round {round}");
            }
        });
        world.run(Duration::from_secs(600));
    });
}

async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    enum Either<A, B> {
        One(A),
        Other(B),
    }
    type Boxed<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;
    let futures: [Boxed<'_, Either<A, B>>; 2] = [
        Box::pin(async { Either::One(one.await) }),
        Box::pin(async { Either::Other(other.await) }),
    ];
    let mut outputs = all(futures).await.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(Either::One(one)), Some(Either::Other(other))) => (one, other),
        _ => unreachable!("all() keeps the order"),
    }
}
