//! Product and limit in turns: A B A B ..., and what their medians say.

use super::Effort;
use super::cpu::{Processes, Used};
use super::crew::Crew;
use super::error::Result;
use super::row::{Bar, Detail, Row};
use std::time::Duration;

/// One side of a comparison.
pub trait Contender {
    /// Takes one turn.
    fn turn(&mut self) -> Result<Turn>;
}

/// What one turn gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// The figure, in the unit of the row.
    pub value: f64,
    /// Operations done.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Processor time used.
    pub cpu: Used,
}

/// What a row says beside its figures.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Whether less is better.
    pub is_time: bool,
    /// What is to be reached.
    pub bar: Bar,
}

/// Clients at work as a contender.
pub struct Working {
    /// The clients.
    pub crew: Crew,
    /// How long a turn is.
    pub turn: Duration,
    /// This process and the daemons at the other end.
    pub processes: Processes,
    /// Bytes that one operation moves.
    pub operation_bytes: u64,
}

impl Contender for Working {
    fn turn(&mut self) -> Result<Turn> {
        let before = self.processes.used();
        let tally = self.crew.work(self.turn)?;
        let cpu = self.processes.used().since(before);
        let bytes = tally.operations * self.operation_bytes;
        let per_operation =
            if self.operation_bytes == 0 { 1.0 } else { self.operation_bytes as f64 / MIB };
        Ok(Turn { value: tally.rate * per_operation, operations: tally.operations, bytes, cpu })
    }
}

/// Measures both sides in turns, after one unmeasured turn each.
pub fn compare(
    subject: Subject,
    effort: &Effort,
    product: &mut dyn Contender,
    mut limit: Option<&mut dyn Contender>,
) -> Result<Row> {
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for run in 0..=effort.runs {
        effort.check()?;
        let turn = product.turn()?;
        let against = limit.as_deref_mut().map(Contender::turn).transpose()?;
        // The first turn opens connections and fills caches.
        if run > 0 {
            own.push(turn);
            bare.extend(against);
        }
    }
    Ok(summed_up(subject, &own, &bare))
}

/// The row that these turns make.
pub fn summed_up(subject: Subject, own: &[Turn], bare: &[Turn]) -> Row {
    let value = median(own.iter().map(|turn| turn.value));
    let limit = (!bare.is_empty()).then(|| median(bare.iter().map(|turn| turn.value)));
    let share = |limit: f64| if subject.is_time { limit / value } else { value / limit };
    let detail = Detail {
        bar: subject.bar,
        server_cpu_s_per_gib: cpu_s_per_gib(own, |cpu| cpu.servers),
        limit_cpu_s_per_gib: cpu_s_per_gib(bare, Used::total),
        limit_server_cpu_s_per_gib: cpu_s_per_gib(bare, |cpu| cpu.servers),
        cpu_us_per_operation: cpu_us_per_operation(own),
        values: own.iter().map(|turn| turn.value).collect(),
        limits: bare.iter().map(|turn| turn.value).collect(),
    };
    Row {
        name: subject.name,
        value,
        unit: subject.unit,
        limit,
        ratio: limit.map(share),
        cpu_s_per_gib: cpu_s_per_gib(own, Used::total),
        detail,
    }
}

fn cpu_s_per_gib(turns: &[Turn], of: fn(Used) -> Duration) -> Option<f64> {
    let moved = turns.iter().filter(|turn| turn.bytes > 0);
    let costs: Vec<f64> =
        moved.map(|turn| of(turn.cpu).as_secs_f64() / (turn.bytes as f64 / GIB)).collect();
    (!costs.is_empty()).then(|| median(costs.into_iter()))
}

fn cpu_us_per_operation(turns: &[Turn]) -> Option<f64> {
    let done = turns.iter().filter(|turn| turn.operations > 0);
    let costs: Vec<f64> =
        done.map(|turn| turn.cpu.total().as_secs_f64() * 1e6 / turn.operations as f64).collect();
    (!costs.is_empty()).then(|| median(costs.into_iter()))
}

/// The middle one, or the mean of the two in the middle; zero of none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    struct Noted<'a>(&'a RefCell<String>, char, Vec<f64>);

    impl Contender for Noted<'_> {
        fn turn(&mut self) -> Result<Turn> {
            self.0.borrow_mut().push(self.1);
            let cpu = Used { clients: Duration::from_secs(2), ..Used::default() };
            Ok(Turn { value: self.2.remove(0), bytes: 1 << 30, operations: 1, cpu })
        }
    }

    fn effort(runs: u32) -> Effort {
        Effort { runs, turn: Duration::ZERO, quick: true, rows: None, interrupted: Arc::default() }
    }

    fn subject(is_time: bool) -> Subject {
        Subject { name: "x".into(), unit: "s", is_time, bar: Bar::None }
    }

    #[test]
    fn sides_take_turns_and_the_first_is_not_counted() {
        let order = RefCell::new(String::new());
        let mut product = Noted(&order, 'A', vec![1000.0, 3.0, 1.0, 2.0]);
        let mut limit = Noted(&order, 'B', vec![1000.0, 4.0, 9.0, 4.0]);
        let row = compare(subject(false), &effort(3), &mut product, Some(&mut limit)).unwrap();
        assert_eq!(*order.borrow(), "ABABABAB");
        assert_eq!((row.value, row.limit, row.ratio), (2.0, Some(4.0), Some(0.5)));
        assert_eq!(row.cpu_s_per_gib, Some(2.0));
    }

    #[test]
    fn an_interrupted_run_takes_no_further_turn() {
        let order = RefCell::new(String::new());
        let mut product = Noted(&order, 'A', vec![1.0; 9]);
        let effort = effort(5);
        effort.interrupted.store(true, Ordering::Relaxed);
        assert!(compare(subject(false), &effort, &mut product, None).is_err());
        assert_eq!(*order.borrow(), "");
    }

    #[test]
    fn a_time_twice_as_long_reaches_half_of_the_limit() {
        let turn = |value| Turn { value, ..Turn::default() };
        let row = summed_up(subject(true), &[turn(4.0)], &[turn(2.0)]);
        assert_eq!((row.ratio, row.cpu_s_per_gib), (Some(0.5), None));
    }

    #[test]
    fn medians_of_few() {
        assert_eq!(median([].into_iter()), 0.0);
        assert_eq!(median([5.0].into_iter()), 5.0);
        assert_eq!(median([5.0, 1.0].into_iter()), 3.0);
        assert_eq!(median([5.0, 1.0, 2.0].into_iter()), 2.0);
    }
}
