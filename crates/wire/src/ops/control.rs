//! Asking a daemon how it is, and telling it to stop.

use crate::codec::Bytes;
use crate::{choice, record};

record! {
    /// Are you there?
    pub struct Ping {}
}

record! {
    /// Yes.
    pub struct Pong {
        /// The daemon's clock, nanoseconds since the epoch.
        pub time_ns: i64,
        /// How it is.
        pub state: DaemonState,
    }
}

choice! {
    /// One of the four states of contract.md.
    pub enum DaemonState {
        /// All is well.
        Ok = 0,
        /// Serves, but something needs a look.
        Degraded = 1,
        /// Serves reads only.
        ReadOnly = 2,
        /// Stopped: every request fails with EIO until resumed.
        Down = 3,
    }
}

record! {
    /// How are you?
    pub struct Status {}
}

record! {
    /// Everything worth knowing, self-describing so that newer daemons can say more.
    pub struct StatusReport {
        /// Name in the cluster file.
        pub name: String,
        /// `manager` or `iod`.
        pub role: String,
        /// Software version.
        pub version: String,
        /// State.
        pub state: DaemonState,
        /// Why the state is what it is; empty when all is well.
        pub reason: String,
        /// Seconds since it started.
        pub uptime_s: u64,
        /// Counters and gauges: (name with unit, value).
        pub figures: Vec<(String, u64)>,
    }
}

choice! {
    /// What an administrator can order.
    pub enum OrderKind {
        /// Finish what is under way, sync, exit.
        Stop = 1,
        /// Drop everything now; fail all with EIO.
        Estop = 2,
        /// Serve again after an estop.
        Resume = 3,
    }
}

record! {
    /// An order, signed with the cluster key so that every daemon can take it by itself.
    pub struct Order {
        /// What to do.
        pub kind: OrderKind,
        /// Unix seconds of issue; older than a minute is refused.
        pub issued: u64,
        /// Random; the same order is carried out once.
        pub nonce: u64,
    }
}

record! {
    /// Delivers a signed [`Order`]. Needs no session: the signature is its authority.
    pub struct Control {
        /// The order, signed.
        pub order: Bytes,
    }
}

record! {
    /// The order is being carried out.
    pub struct Controlled {
        /// State from now on.
        pub state: DaemonState,
    }
}
