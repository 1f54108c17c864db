//! How messages move: transports, the server's reactor, the client's lanes.
//!
//! ```text
//!   client                                             daemon
//!   runtime (poll, timers)                             reactor (epoll, one per thread)
//!     lane: frames on one stream  <--- stream --->       connection: frames on one stream
//!       call: deadline, resend, retry                      gate: hello, sessions, lockout
//!                                                            service: manager or iod
//! ```
//!
//! A [`stream::Stream`] moves bytes without ever blocking: TCP, AF_UNIX, or memory with a seed. Everything
//! above it is the same code for all of them, so a simulated cluster runs what a real one runs.

#![deny(unsafe_code)]

pub mod attendance;
pub mod blocking;
pub mod buffer;
pub mod call;
pub mod connection;
pub mod endpoint;
pub mod gate;
pub mod lane;
mod line;
pub mod listener;
pub mod loan;
pub mod mapping;
pub mod marked;
pub mod memory;
pub mod orders;
pub mod peer;
pub mod pipe;
pub mod queue;
pub mod reactor;
pub mod runtime;
pub mod service;
pub mod shared_buffers;
pub mod signals;
pub mod socket;
pub mod stream;
pub mod tls;
pub mod tray;
pub mod window;
pub mod words;
