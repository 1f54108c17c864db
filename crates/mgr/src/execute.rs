//! How a request meets the name space: the context it runs in, and the dispatch by operation code.
//!
//! [`apply`] is a pure function of the transaction's view, the request and what the context says.
//! It leaves its changes in the transaction, or, when it fails, none.

use pvfs_layout::{IodId, Scheme};
use pvfs_wire::attr::Time;
use pvfs_wire::ops::*;
use pvfs_wire::token::KeyRing;
use pvfs_wire::{Effect, Errno, Wire, manager_operations};

use crate::namespace::Filesystem;
use crate::permission::Credentials;
use crate::record::First;
use crate::store::{StoreError, Transaction};

/// What a request knows of the world.
pub struct Context<'a, 'view> {
    /// What is there, and what this round has changed.
    pub tx: &'a mut Transaction<'view>,
    /// The file system.
    pub fs: &'a Filesystem,
    /// Who is asking.
    pub who: &'a Credentials,
    /// Whose opens are meant.
    pub client: u64,
    /// The manager's clock.
    pub now: Time,
    /// How the administrator wants it.
    pub policy: &'a Policy,
    /// Signs capabilities.
    pub keys: &'a KeyRing,
    /// Chooses base iods and tickets.
    pub random: &'a mut Random,
    /// Set with EAGAIN: the request may succeed once the truncation of this object has ended.
    pub busy: Option<u64>,
    /// Open files, by their first opens, in which an open has ended.
    pub left: Vec<First>,
}

/// What is decided outside the name space.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How files are dealt unless somebody says otherwise.
    pub scheme: Scheme,
    /// Over how many iods; `None` for all.
    pub pcount: Option<u32>,
    /// The cluster's iods in their order.
    pub iods: Vec<IodId>,
    /// Free space of each of them, in the same order, as of lately.
    pub free_bytes: Vec<u64>,
    /// How long a capability is good for.
    pub capability_lifetime_s: u64,
    /// Objects that the store has room for.
    pub objects_free: u64,
    /// The answer to [`Map`].
    pub map: ClusterMap,
}

/// A small generator, seeded by the caller, so that a run can be repeated.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform over all of them (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// An operation that the name space can execute.
pub trait Execute: Operation {
    /// Does it: reads and changes the transaction. What it changed before an error is rolled back.
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Self::Reply, Errno>;
}

/// Executes one operation, all or nothing.
pub fn apply<O: Execute>(operation: &O, cx: &mut Context<'_, '_>) -> Result<O::Reply, Errno> {
    let savepoint = cx.tx.savepoint();
    let result = operation.execute(cx);
    if result.is_err() {
        cx.tx.rollback(savepoint);
    } else if O::EFFECT == Effect::Query {
        assert_eq!(cx.tx.savepoint(), savepoint, "a query changes nothing");
    }
    result
}

macro_rules! dispatch {
    // Locks are not in the store's name space: the manager executes them itself.
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        Lock -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    // Nor is what the store itself does.
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        SyncNames -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    // Nor who lives.
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        Vouch -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    // Nor who is there.
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        Sessions -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        Uses -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    // Nor is what clients cache.
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        Recalls -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        InheritLocks -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        TestLock -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)*) $($rest)*)
    };
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)
        $name:ident -> $reply:ident = $number:literal $effect:ident; $($rest:tt)*) => {
        dispatch!(@arms $code $body $cx ($($arms)* $number => run::<$name>($body, $cx),) $($rest)*)
    };
    (@arms $code:ident $body:ident $cx:ident ($($arms:tt)*)) => {
        match $code { $($arms)* _ => Err(Errno::ENOSYS) }
    };
    ($($rows:tt)*) => {
        /// Executes the request of this code and body, all or nothing; returns the reply's body.
        /// ENOSYS when the code is none of the name space, EPROTO when the body is not understood.
        pub fn dispatch(code: u16, body: &[u8], cx: &mut Context<'_, '_>) -> Result<Vec<u8>, Errno> {
            dispatch!(@arms code body cx () $($rows)*)
        }
    };
}
manager_operations!(dispatch);

fn run<O: Execute>(body: &[u8], cx: &mut Context<'_, '_>) -> Result<Vec<u8>, Errno> {
    let operation = O::from_bytes(body).map_err(|error| {
        tracing::debug!(operation = O::NAME, %error, "request not understood");
        Errno::EPROTO
    })?;
    Ok(apply(&operation, cx)?.to_bytes())
}

impl From<StoreError> for Errno {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed a request");
        if error.is_no_space() { Self::ENOSPC } else { Self::EIO }
    }
}
