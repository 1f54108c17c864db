//! What must hold when processes die, hang, fill up, are refused or are told to stop: the fault matrix on real daemons.

#[path = "../support/mod.rs"]
mod support;

mod deaths;
mod disks;
mod floods;
mod hangs;
mod keys;
mod kills;
mod networks;
mod power;
mod refusals;
mod secured;
mod stops;
mod versions;
mod writer;
