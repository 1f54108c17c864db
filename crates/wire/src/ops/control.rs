//! Asking a daemon how it is, and telling it to stop.

use crate::codec::Bytes;
use crate::token::Session;
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
        /// Random, new with each start of the daemon: what orders name.
        pub start: u64,
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
        /// Believe some sessions no longer.
        Deny = 4,
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
        /// The start of the daemon it is for ([`Pong::start`]), so that it is worth nothing after the next.
        pub start: u64,
        /// Who is denied, by an order to.
        pub denial: Option<Denial>,
    }
}

record! {
    /// Sessions that are not believed any more, although they are signed and in time.
    pub struct Denial {
        /// The one of this number; absent for any.
        pub session: Option<u64>,
        /// Those of this user; absent for any.
        pub uid: Option<u32>,
        /// Only those issued until then, in Unix seconds.
        pub issued_until: u64,
        /// When all of them have expired, in Unix seconds: it may be forgotten then.
        pub expiry: u64,
    }
}

impl Denial {
    /// Whether this session is denied. A denial of nobody in particular is one of nobody.
    pub fn covers(&self, session: &Session) -> bool {
        let named = self.session.is_some() || self.uid.is_some();
        let same_session = self.session.is_none_or(|id| id == session.id);
        let same_user = self.uid.is_none_or(|uid| uid == session.uid);
        named && same_session && same_user && session.issued <= self.issued_until
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
