//! Data sieving: small ranges that lie close together are moved at once, with what is between them.
//!
//! ```text
//!   ranges   ##  ###  ##                ######################      ##
//!   runs     [--------]                [----------------------]     []
//! ```
//!
//! A system call costs about as much as copying four kilobytes. So a range joins the one before it when it and the
//! gap before it are not longer than that together.

use std::iter::Peekable;
use std::ops::Range;

/// Ranges, in the order in which they are given, a run at a time.
pub struct Runs<I: Iterator<Item = Range<u64>>> {
    ranges: Peekable<I>,
}

impl<I: Iterator<Item = Range<u64>>> Runs<I> {
    /// Of these ranges, none of which ends before it begins.
    pub fn new(ranges: I) -> Self {
        Self { ranges: ranges.peekable() }
    }

    /// Puts the next run into `run`: one range, or several that go upwards without touching the same byte twice. Returns
    /// what they span, from the first byte to the last; nothing when there are no more.
    pub fn next_into(&mut self, run: &mut Vec<Range<u64>>) -> Option<Range<u64>> {
        run.clear();
        let first = self.ranges.next()?;
        run.push(first.clone());
        let mut span = first;
        if span.end - span.start > JOINED_BYTES_MAX {
            return Some(span);
        }
        while let Some(next) = self.ranges.next_if(|next| joins(&span, next)) {
            span.end = next.end;
            run.push(next);
        }
        Some(span)
    }
}

fn joins(span: &Range<u64>, next: &Range<u64>) -> bool {
    next.start >= span.end
        && next.end - span.end <= JOINED_BYTES_MAX
        && next.end - span.start <= SPAN_BYTES_MAX
}

/// A range and the gap before it, to be moved with others. Shorter than a page, so that a gap never holds one of which
/// nothing is wanted.
const JOINED_BYTES_MAX: u64 = 4095;

/// A run and what is between its ranges: it stays in the processor's cache until it is picked apart.
const SPAN_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each run and what it spans.
    fn runs(ranges: &[Range<u64>]) -> Vec<(Vec<Range<u64>>, Range<u64>)> {
        let (mut runs, mut run, mut all) =
            (Runs::new(ranges.iter().cloned()), Vec::new(), Vec::new());
        while let Some(span) = runs.next_into(&mut run) {
            all.push((run.clone(), span));
        }
        all
    }

    proptest! {
        #[test]
        fn runs_are_the_ranges_in_their_order(
            steps in prop::collection::vec((0u64..9000, 0u64..9000, any::<bool>()), 0..60),
        ) {
            let mut at = 1 << 20;
            let ranges: Vec<Range<u64>> = steps.iter().map(|(gap, bytes, back)| {
                let start = if *back { at - gap } else { at + gap };
                at = start + bytes;
                start..at
            }).collect();
            let runs = runs(&ranges);
            let joined: Vec<Range<u64>> = runs.iter().flat_map(|(run, _)| run.clone()).collect();
            prop_assert_eq!(joined, ranges);
            for (run, span) in runs {
                prop_assert_eq!(&span, &(run[0].start..run[run.len() - 1].end));
                prop_assert!(run.len() == 1 || span.end - span.start <= SPAN_BYTES_MAX);
                prop_assert!(run.is_sorted_by(|one, next| one.end <= next.start));
                prop_assert!(run.windows(2).all(|two| two[1].start - two[0].end < 4096));
            }
        }
    }

    #[test]
    fn a_column_of_a_matrix_is_few_runs_and_large_blocks_are_alone() {
        let column: Vec<Range<u64>> = (0..1000).map(|row| row * 2048..row * 2048 + 64).collect();
        assert_eq!(runs(&column).len(), 1000usize.div_ceil(32));
        let blocks: Vec<Range<u64>> = (0..10).map(|at| at * 10_000..at * 10_000 + 9000).collect();
        assert_eq!(runs(&blocks).len(), 10);
    }
}
