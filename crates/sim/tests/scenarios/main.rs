//! Scenarios: what users may rely on (docs/semantics.md), while everything around them fails.

mod determinism;
mod names;
mod outcome;
