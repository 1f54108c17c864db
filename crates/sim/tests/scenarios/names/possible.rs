//! All the states a directory may be in, as far as its only user can know.
//!
//! An operation without an answer splits each state in two. A loss of power under a store that is not
//! strict brings back the states of the last second. What a later answer contradicts is struck out;
//! when nothing is left, a promise was broken.

use std::collections::BTreeSet;
use std::time::Duration;

use pvfs_net::runtime::Instant;
use pvfs_wire::Errno;

use super::model::{Act, Model, Told};

/// The states possible now, and those of the past.
pub struct Possible {
    states: BTreeSet<Model>,
    /// The states before each answer, losses before it included, and when it came.
    past: Vec<(Instant, BTreeSet<Model>)>,
    acts: u32,
    /// What was done and told, to be shown with a contradiction.
    story: Vec<String>,
}

/// When an operation was under way, and which losses of power may have taken something.
pub struct Span {
    pub begun: Instant,
    pub ended: Instant,
    pub losses: Vec<Instant>,
}

impl Possible {
    /// An empty directory.
    pub fn new() -> Self {
        let states = BTreeSet::from([Model::default()]);
        Self { states, past: Vec::new(), acts: 0, story: Vec::new() }
    }

    /// Notes what was told of an act; panics when that cannot be.
    pub fn note(&mut self, act: Act, told: &Option<Result<Told, Errno>>, span: &Span) {
        self.acts += 1;
        self.story.push(format!(
            "{:?}..{:?} {act:?} -> {told:?} {:?}",
            span.begun, span.ended, span.losses
        ));
        let before = self.with_lost(&span.losses);
        let mut after = BTreeSet::new();
        for state in &before {
            let mut done = state.clone();
            let result = done.apply(act, self.acts);
            if told.as_ref().is_none_or(|told| *told == result) {
                after.insert(done);
            }
        }
        let possible = !after.is_empty();
        // Without an answer it may not have happened; with a loss of power it may have and be gone again.
        if told.is_none() || span.losses.iter().any(|loss| *loss >= span.begun) {
            after.extend(before.iter().cloned());
        }
        assert!(possible, "no order of events allows this:\n{}", self.story.join("\n"));
        self.past.push((span.ended, before));
        self.states = after;
    }

    fn with_lost(&self, losses: &[Instant]) -> BTreeSet<Model> {
        let mut states = self.states.clone();
        for loss in losses {
            let is_late = |answered: &Instant| answered.after(LOST_AT_MOST) >= *loss;
            let lost = self.past.iter().filter(|(answered, _)| is_late(answered));
            states.extend(lost.flat_map(|(_, states)| states.iter().cloned()));
        }
        states
    }
}

/// A store that is not strict loses no more.
const LOST_AT_MOST: Duration = Duration::from_secs(1);
