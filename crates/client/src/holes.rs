//! Whether writes through one open may have made holes in the file, or filled some: if so, its size does not tell what
//! it takes on disks, and who closes has to ask.
//!
//! ```text
//! end known        |=============|            nothing is said of what lies below it
//! write beyond     |=============|....|====|  a gap, until a later write fills it
//! ```
//!
//! Writes of a program that writes from the beginning to the end may be done in any order, and leave no gap.

use std::ops::Range;

use pvfs_wire::attr::{Attr, SizeState};

/// What one open knows of the holes of its file.
#[derive(Debug)]
pub(crate) struct Holes {
    /// The end of the file, as far as is known here.
    end: u64,
    /// What lies before that and was neither there nor written, ascending.
    gaps: Vec<Range<u64>>,
    /// There may be holes of which no gap tells: then none is kept.
    others: bool,
    /// The manager will have the iods asked: what they say before that does not count.
    left_to_iods: bool,
}

impl Holes {
    /// Of a file that has these attributes when it is opened.
    pub fn new(attr: &Attr) -> Self {
        Self {
            end: attr.size,
            gaps: Vec::new(),
            others: attr.disk_bytes.is_some(),
            left_to_iods: attr.size_state != SizeState::Settled,
        }
    }

    /// Whether its size may not tell what it takes on disks.
    pub fn may_be_there(&self) -> bool {
        self.others || !self.gaps.is_empty()
    }

    /// Whether the manager will have the iods asked, whatever is said now.
    pub fn are_left_to_iods(&self) -> bool {
        self.left_to_iods
    }

    /// Space was given back or set aside, or holes were copied.
    pub fn changed(&mut self) {
        self.others = true;
        self.gaps.clear();
    }

    /// Others write what lies below.
    pub fn end_is_at_least(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// A range was written.
    pub fn wrote(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if range.start > self.end {
            self.add_gap(self.end..range.start);
        } else if !self.gaps.is_empty() {
            let rest = self.gaps.drain(..).flat_map(|gap| without(gap, &range));
            self.gaps = rest.filter(|gap| !gap.is_empty()).collect();
            self.forget_many();
        }
        self.end = self.end.max(range.end);
    }

    /// The file was cut or extended, and has these attributes since.
    pub fn cut(&mut self, size: u64, attr: &Attr) {
        self.gaps.retain_mut(|gap| {
            gap.end = gap.end.min(size);
            !gap.is_empty()
        });
        if size > self.end {
            self.add_gap(self.end..size);
        }
        self.end = size;
        self.left_to_iods = attr.size_state != SizeState::Settled;
        self.others = attr.disk_bytes.is_some() || (self.others && size > 0);
    }

    fn add_gap(&mut self, gap: Range<u64>) {
        if !self.others {
            self.gaps.push(gap);
            self.forget_many();
        }
    }

    fn forget_many(&mut self) {
        if self.gaps.len() > GAPS_MAX {
            self.changed();
        }
    }
}

/// What is left of a gap on both sides of a range.
fn without(gap: Range<u64>, range: &Range<u64>) -> [Range<u64>; 2] {
    let before = gap.start..gap.end.min(range.start);
    let after = gap.start.max(range.end)..gap.end;
    [before, after]
}

/// As many as writes that are under way at once can leave; with more the file is taken to have holes.
const GAPS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests;

    fn attr(size: u64, disk_bytes: Option<u64>) -> Attr {
        Attr { size, disk_bytes, ..tests::attr(3, 7) }
    }

    fn after(writes: &[(u64, u64)]) -> Holes {
        let mut holes = Holes::new(&attr(10, None));
        writes.iter().for_each(|(start, end)| holes.wrote(*start..*end));
        holes
    }

    #[test]
    fn writes_that_leave_nothing_out_make_no_holes_in_any_order() {
        let pieces = [(8, 12), (12, 20), (20, 21), (21, 30)];
        for first in 0..4 {
            for second in 0..4 {
                for third in 0..4 {
                    let some = [first, second, third, 0, 1, 2, 3].map(|at| pieces[at]);
                    assert!(!after(&some).may_be_there(), "{some:?}");
                    let backwards: Vec<_> = some.into_iter().rev().collect();
                    assert!(!after(&backwards).may_be_there(), "{backwards:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_left_out_is_a_hole_to_the_byte() {
        assert!(after(&[(11, 12)]).may_be_there());
        assert!(!after(&[(11, 12), (10, 11)]).may_be_there());
        assert!(after(&[(20, 30), (10, 14), (15, 20)]).may_be_there());
        assert!(!after(&[(20, 30), (10, 14), (15, 20), (14, 15)]).may_be_there());
        assert!(!after(&[(40, 40)]).may_be_there(), "nothing was written");
    }

    #[test]
    fn a_file_with_more_gaps_than_are_kept_has_holes() {
        let spread: Vec<_> = (10..110u64).map(|at| (at * 10, at * 10 + 5)).collect();
        let mut holes = after(&spread);
        holes.wrote(0..5000);
        assert!(holes.may_be_there());
    }

    #[test]
    fn a_file_that_had_holes_may_have_others_now() {
        assert!(Holes::new(&attr(10, Some(0))).may_be_there());
        let mut holes = after(&[]);
        holes.changed();
        holes.wrote(0..10);
        assert!(holes.may_be_there());
    }

    #[test]
    fn a_cut_takes_holes_away_and_growth_makes_one() {
        let mut holes = after(&[(20, 30)]);
        holes.cut(10, &attr(10, None));
        assert!(!holes.may_be_there());
        holes.cut(15, &attr(15, None));
        assert!(holes.may_be_there());
        holes.wrote(10..15);
        assert!(!holes.may_be_there());
        holes.changed();
        holes.cut(5, &attr(5, None));
        assert!(holes.may_be_there(), "nobody knows where they are");
        holes.cut(0, &attr(0, None));
        assert!(!holes.may_be_there());
    }

    #[test]
    fn what_other_appenders_write_is_no_hole() {
        let mut holes = after(&[]);
        holes.end_is_at_least(50);
        holes.wrote(50..60);
        assert!(!holes.may_be_there());
    }
}
