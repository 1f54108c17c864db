//! What C says and is told: memory, error numbers and structures as C has them, and to whom a call goes.
//!
//! Both libraries for C stand on it: the preload library, which answers the C library's own names, and libpvfs.
//!
//! ```text
//!   a call of C ── route: is the path or the descriptor ours? ── no: the C library
//!                     │ yes
//!                  state: this process, its forks, nobody inside twice, no panic gets out
//!                     │
//!                  Process
//! ```

pub mod answer;
pub mod control;
pub mod data;
pub mod entries;
pub mod memory;
pub mod route;
pub mod space;
pub mod stat;
pub mod state;
pub mod times;
