//! Scenarios: what users may rely on (docs/semantics.md), while everything around them fails.

mod caching;
mod data;
mod deadlines;
mod determinism;
mod groups;
mod leases;
mod messages;
mod names;
mod outcome;
mod power;
