//! A value that is written and read by many at once: which reads no order of events explains.

use std::fmt::Debug;

use pvfs_net::runtime::Instant;

/// All writes of one value, as their writers saw them.
pub struct Register<T> {
    writes: Vec<Write<T>>,
}

#[derive(Debug)]
struct Write<T> {
    value: T,
    begun: Instant,
    /// When it was certainly done: answered, or seen by a reader.
    done: Option<Instant>,
    cancelled: bool,
}

impl<T: Copy + Debug + Eq> Register<T> {
    /// A register that holds this from the beginning.
    pub fn new(value: T) -> Self {
        let write = Write { value, begun: Instant(0), done: Some(Instant(0)), cancelled: false };
        Self { writes: vec![write] }
    }

    /// A write begins; returns its number.
    pub fn begin(&mut self, now: Instant, value: T) -> usize {
        self.writes.push(Write { value, begun: now, done: None, cancelled: false });
        self.writes.len() - 1
    }

    /// It was answered.
    pub fn end(&mut self, write: usize, now: Instant) {
        let done = &mut self.writes[write].done;
        *done = Some(done.map_or(now, |seen| seen.min(now)));
    }

    /// It was refused: it has not happened.
    pub fn cancel(&mut self, write: usize) {
        self.writes[write].cancelled = true;
    }

    /// Somebody was told this; panics when it was certainly overwritten before the question.
    pub fn read(&mut self, begun: Instant, ended: Instant, value: T, what: &str) {
        let possible: Vec<usize> = (0..self.writes.len())
            .filter(|at| self.writes[*at].value == value && !self.writes[*at].cancelled)
            .filter(|at| self.writes[*at].begun <= ended && !self.is_overwritten(*at, begun))
            .collect();
        assert!(
            !possible.is_empty(),
            "{what} was told to be {value:?} at {begun:?}..{ended:?}, after these: {:#?}",
            self.writes
        );
        // Whoever asks from now on must not be told anything older.
        if let [only] = possible[..] {
            self.end(only, ended);
        }
    }

    fn is_overwritten(&self, at: usize, by: Instant) -> bool {
        let Some(done) = self.writes[at].done else { return false };
        let others = self.writes.iter().filter(|other| !other.cancelled);
        others.into_iter().any(|other| {
            other.begun >= done
                && other.value != self.writes[at].value
                && other.done.is_some_and(|done| done < by)
        })
    }
}

#[test]
#[should_panic(expected = "was told to be 1")]
fn an_overwritten_value_is_noticed() {
    let mut register = Register::new(0);
    for (value, begun) in [(1, 10), (2, 20)] {
        let write = register.begin(Instant(begun), value);
        register.end(write, Instant(begun + 5));
    }
    register.read(Instant(26), Instant(30), 1, "x");
}

#[test]
#[should_panic(expected = "was told to be 1")]
fn an_older_value_after_a_newer_one_is_noticed() {
    let mut register = Register::new(0);
    let write = register.begin(Instant(10), 1);
    register.end(write, Instant(15));
    register.begin(Instant(20), 2);
    register.read(Instant(21), Instant(22), 2, "x");
    register.read(Instant(23), Instant(24), 1, "x");
}

#[test]
fn what_is_being_written_may_be_told_or_not() {
    let mut register = Register::new(0);
    let write = register.begin(Instant(10), 1);
    register.read(Instant(11), Instant(12), 0, "x");
    register.read(Instant(11), Instant(12), 1, "x");
    register.end(write, Instant(20));
    register.read(Instant(12), Instant(30), 1, "x");
}
