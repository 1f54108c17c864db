//! What the TOML parser found wrong, in words a person who wrote the file can act on.

use crate::error::ConfigError;
use crate::file::WRITTEN_ONCE;
use std::ops::Range;
use std::path::Path;

/// A refusal at a place in the text.
pub(crate) fn refusal(text: &str, path: &Path, at: usize, reason: String) -> ConfigError {
    ConfigError::Invalid { path: path.to_owned(), line: line(text, at), reason }
}

/// A parser's error as a refusal.
pub(crate) fn explain(text: &str, path: &Path, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or(text.len()..text.len());
    refusal(text, path, span.start, reason(text, &span, error.message()))
}

fn reason(text: &str, span: &Range<usize>, message: &str) -> String {
    let table = table_at(text, span.start);
    let message = message.trim().lines().collect::<Vec<_>>().join("; ");
    if let Some(rest) = message.strip_prefix("unknown field ") {
        unknown_key(&table, &quoted(rest))
    } else if let Some(rest) = message.strip_prefix("missing field ") {
        missing_key(&table, &quoted(rest))
    } else if let Some((found, expected)) = mismatch(&message) {
        wrong_type(&table, found, expected)
    } else if message == WRITTEN_ONCE && table.starts_with("[[") {
        let name = name_of(&table);
        format!("{name} is written once; write [{name}] in single brackets")
    } else {
        message
    }
}

fn unknown_key(table: &str, words: &[&str]) -> String {
    let (unknown, known) = words.split_first().expect("serde names the unknown field");
    let what = match name_of(table) == *unknown {
        true => format!("unknown table [{unknown}]"),
        false => format!("unknown key {unknown} in {table}"),
    };
    let likeness = |key: &str| strsim::jaro_winkler(unknown, key);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|near| likeness(near) >= SIMILAR) {
        Some(near) => format!("{what}; did you mean {near}?"),
        None => format!("{what}; write one of {}", known.join(", ")),
    }
}

fn missing_key(table: &str, words: &[&str]) -> String {
    match words.first().copied().unwrap_or_default() {
        "version" => "the key version is missing; write version = 1 at the head".to_owned(),
        "filesystem" => "there is no [filesystem]; write one with a name and an id".to_owned(),
        key => format!("the key {key} is missing in {table}; add it"),
    }
}

/// What serde found and what it expected.
fn mismatch(message: &str) -> Option<(&str, &str)> {
    let rest = message.strip_prefix("invalid type: ");
    rest.or_else(|| message.strip_prefix("invalid value: "))?.rsplit_once(", expected ")
}

/// A value of the wrong type, and what to write instead.
fn wrong_type(table: &str, found: &str, expected: &str) -> String {
    let write = match expected {
        "a boolean" => "write true or false",
        "a sequence" if found == "map" && table.starts_with('[') => {
            let name = name_of(table);
            return format!("{name} may be repeated; write [[{name}]] in double brackets");
        }
        "a sequence" => "write a list, as in [\"...\"]",
        "a string" | "path string" => "write it in double quotes",
        "u32" => "write a whole number from 0 to 4294967295",
        "i64" => "write a whole number",
        other => return format!("found {found}; write {other}"),
    };
    format!("found {found}; {write}")
}

/// A heading without its brackets.
fn name_of(table: &str) -> &str {
    table.trim_matches(['[', ']'])
}

/// The words in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// The heading the place stands under.
fn table_at(text: &str, at: usize) -> String {
    let headings = text.lines().take(line(text, at)).map(str::trim).filter(|l| l.starts_with('['));
    let heading = headings.last().and_then(|l| l.split_inclusive(']').next().map(|h| (l, h)));
    match heading {
        Some((line, heading)) if line.starts_with("[[") => format!("{heading}]"),
        Some((_, heading)) => heading.to_owned(),
        None => "the head of the file".to_owned(),
    }
}

/// Above it two keys are likely one and a slip; below it a list of the keys helps more.
const SIMILAR: f64 = 0.8;
