//! A whole cluster inside one test: seeded network, disks and crashes.
//!
//! ```text
//!   scenario (a test)     asks clients, records what they were told, checks it against a model
//!     World               one loop: processes, daemons, trouble, then time jumps to the next event
//!       processes         client futures, the same code that programs run
//!       ManagerHost       Manager over MemoryStore: killed, power lost, started again
//!       IodHost           Iod over MemoryDisk: the same
//!       Trouble           chooses what breaks, and mends it
//!     MemoryNetwork       virtual time, delays, cuts, holds (pvfs-net)
//! ```
//!
//! One seed decides everything, so a failure is repeated by its seed: see [`seeds`].
//!
//! ```
//! use pvfs_sim::{Settings, World};
//! use pvfs_wire::ops::Target;
//! use std::time::Duration;
//!
//! let mut world = World::new(7, Settings::default());
//! let user = world.client("c0").user;
//! world.spawn("c0", async move {
//!     let root = user.root().await.unwrap();
//!     user.mkdir(Target::below(root, "results"), 0o755).await.unwrap();
//! });
//! world.run(Duration::from_secs(10));
//! ```

#![forbid(unsafe_code)]

mod agent;
mod client;
mod clock;
mod disk_host;
pub mod fuzz;
mod manager_host;
mod purging;
pub mod seeds;
mod store;
mod trouble;
mod world;

pub use client::{Client, ClientUser, Patience};
pub use manager_host::Durability;
pub use pvfs_net::memory::Chance;
pub use trouble::Trouble;
pub use world::{Command, Loss, Losses, ProcessId, Remote, Settings, Victim, World};
