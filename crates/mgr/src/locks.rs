//! Advisory locks: who holds which bytes of which file, who waits, and who would wait for ever.
//!
//! ```text
//! file 7, ranges   held   | r: client 1 | w: client 2 |  r: client 1  |
//!                  queue  w: client 3 over all of it, then r: client 4 at its end
//! file 7, flock    held   | w: client 2                                  the two do not see each other
//! ```
//!
//! Pure: no store, clock or connection. A change of what is held is told as an [`Edit`], so that the
//! caller can put it into the store with the rest of the round, and take it back if that fails.
//! A request that has to wait gets a number; when its turn comes the number is told as granted.

mod held;
mod queue;
mod table;

pub use held::{Edit, Held, Holder};
pub use table::{Changes, Limits, LockTable, Place, Refusal, Verdict, WaiterId};

#[cfg(test)]
mod tests;
