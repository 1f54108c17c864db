//! A row of the result, and the two ways to show rows: an aligned table and one JSON array.

use serde::Serialize;

/// What was measured under one name.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Such as `tcp read 1 MiB 4 clients shared`.
    pub name: String,
    /// What the file system reached, the median.
    pub value: f64,
    /// Of `value` and `limit`.
    pub unit: &'static str,
    /// What the machine allows, the median; absent where nothing bare compares.
    pub limit: Option<f64>,
    /// The share of the limit that was reached. More is better, for times as well.
    pub ratio: Option<f64>,
    /// Processor seconds of clients and daemons per GiB moved; absent where no data moves.
    pub cpu_s_per_gib: Option<f64>,
    /// More, for people and for the record.
    #[serde(skip)]
    pub detail: Detail,
}

/// What the JSON array leaves out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Detail {
    /// What was to be reached.
    pub bar: Bar,
    /// Of them, those of the daemons.
    pub server_cpu_s_per_gib: Option<f64>,
    /// Processor seconds of the bare programs per GiB moved.
    pub limit_cpu_s_per_gib: Option<f64>,
    /// Of them, those of the bare servers.
    pub limit_server_cpu_s_per_gib: Option<f64>,
    /// Processor microseconds per operation, where no data moves.
    pub cpu_us_per_operation: Option<f64>,
    /// The figures of the single turns.
    pub values: Vec<f64>,
    /// The figures of the limit's turns.
    pub limits: Vec<f64>,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// Nothing in particular.
    #[default]
    None,
    /// This share of the limit.
    Ratio(f64),
    /// So much.
    AtLeast(f64),
    /// No more than this.
    Below(f64),
}

/// A row with all its detail, as result files keep it.
#[derive(Clone, Debug, Serialize)]
pub struct Recorded<'a> {
    #[serde(flatten)]
    row: &'a Row,
    #[serde(flatten)]
    detail: &'a Detail,
}

impl Row {
    /// Whether the bar was reached; `None` without one.
    pub fn reached(&self) -> Option<bool> {
        match self.detail.bar {
            Bar::None => None,
            Bar::Ratio(share) => self.ratio.map(|ratio| ratio >= share),
            Bar::AtLeast(least) => Some(self.value >= least),
            Bar::Below(most) => Some(self.value < most),
        }
    }

    /// With all its detail.
    pub fn recorded(&self) -> Recorded<'_> {
        Recorded { row: self, detail: &self.detail }
    }

    fn cells(&self) -> [String; 7] {
        [
            self.name.clone(),
            figure(self.value),
            self.unit.to_owned(),
            self.limit.map_or_else(dash, figure),
            self.ratio.map_or_else(dash, |ratio| format!("{ratio:.2}")),
            self.bar(),
            self.processor(),
        ]
    }

    fn bar(&self) -> String {
        let bar = match self.detail.bar {
            Bar::None => return dash(),
            Bar::Ratio(share) => format!("x {share:.2}"),
            Bar::AtLeast(least) => format!(">= {}", figure(least)),
            Bar::Below(most) => format!("< {}", figure(most)),
        };
        match self.reached() {
            Some(false) => bar + " missed",
            _ => bar,
        }
    }

    fn processor(&self) -> String {
        match (self.cpu_s_per_gib, self.detail.limit_cpu_s_per_gib) {
            (Some(own), Some(limit)) => format!("{own:.2} / {limit:.2} s/GiB"),
            (Some(own), None) => format!("{own:.2} s/GiB"),
            _ => {
                self.detail.cpu_us_per_operation.map_or_else(dash, |cpu| format!("{cpu:.0} us/op"))
            }
        }
    }
}

/// The rows as an aligned table.
pub fn table(rows: &[Row]) -> String {
    let head = ["", "value", "unit", "limit", "ratio", "bar", "cpu / of limit"].map(str::to_owned);
    let lines: Vec<[String; 7]> = [head].into_iter().chain(rows.iter().map(Row::cells)).collect();
    let widths: Vec<usize> = (0..7)
        .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
        .collect();
    let text: Vec<String> = lines.iter().map(|line| aligned(line, &widths)).collect();
    text.join("\n")
}

/// Names, units and remarks to the left, figures to the right.
fn aligned(cells: &[String; 7], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(at, (cell, width))| match at {
        1 | 3 | 4 => format!("{cell:>width$}"),
        _ => format!("{cell:<width$}"),
    });
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// Three digits or so.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn dash() -> String {
    "-".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: f64, bar: Bar) -> Row {
        let detail = Detail { bar, limit_cpu_s_per_gib: Some(0.25), ..Detail::default() };
        Row {
            name: name.into(),
            value,
            unit: "MiB/s",
            limit: Some(2000.0),
            ratio: Some(value / 2000.0),
            cpu_s_per_gib: Some(0.5),
            detail,
        }
    }

    #[test]
    fn the_array_has_exactly_the_promised_keys() {
        let value = serde_json::to_value([row("tcp read", 1000.0, Bar::Ratio(0.9))]).unwrap();
        let keys: Vec<&str> = value[0].as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = ["name", "value", "unit", "limit", "ratio", "cpu_s_per_gib"];
        expected.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_missed_bar_is_said_so() {
        let rows = [row("a", 1000.0, Bar::Ratio(0.9)), row("longer name", 1900.0, Bar::Ratio(0.9))];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("missed") && !lines[2].contains("missed"), "{text}");
        let columns: Vec<usize> =
            lines.iter().map(|line| line.find("MiB/s").or(line.find("unit")).unwrap()).collect();
        assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }

    #[test]
    fn times_pass_below_their_bar_and_rates_above() {
        assert_eq!(row("a", 0.9, Bar::Below(1.0)).reached(), Some(true));
        assert_eq!(row("a", 0.9, Bar::AtLeast(1.0)).reached(), Some(false));
        assert_eq!(row("a", 0.9, Bar::None).reached(), None);
    }
}
