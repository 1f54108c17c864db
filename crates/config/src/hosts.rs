//! Host lists: `node{1-8,10}` stands for nine names, and back.
//!
//! ```text
//! list    = item , item ...              login,node{01-16}
//! item    = text and groups in any order rack{1-2}node{1-4}-ib
//! group   = { elements } or [ elements ] {1-8,10}
//! element = word, number or range        a  7  01-16
//! ```
//!
//! Several groups of one item expand like nested loops, the leftmost slowest. A range keeps the
//! width of its first number: `{01-16}` is 01, 02, ... 16. Order is kept both ways and repeated
//! names stay repeated, because order is what an iod's number is made of.

use crate::endpoint::is_host_name;
use std::net::Ipv6Addr;

/// The most names one list may stand for: a slip such as `{1-100000000}` must not fill the memory.
pub const HOSTS_MAX: usize = 65_536;

/// Why a host list was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HostListError {
    /// Nothing between two commas, or nothing at all.
    #[error("the host list \"{0}\" has an empty name; write names with single commas between them")]
    EmptyName(String),
    /// A brace or bracket without its partner, or one inside another.
    #[error(
        "a group in the host list \"{0}\" is not closed; \
         write it as in node{{1-8,10}}, one group never inside another"
    )]
    Unclosed(String),
    /// Not a word, number or ascending range.
    #[error("\"{0}\" is not a range; write ascending numbers of one width, such as 1-8 or 01-16")]
    BadElement(String),
    /// A name no resolver would take.
    #[error("\"{0}\" is not a host name; use letters, digits, dots and dashes")]
    BadName(String),
    /// More than [`HOSTS_MAX`] names.
    #[error("the host list \"{0}\" stands for more than {HOSTS_MAX} names; write a shorter one")]
    TooMany(String),
}

/// The names a host list stands for, in order.
pub fn expand(list: &str) -> Result<Vec<String>, HostListError> {
    let items = split_items(list)?;
    let parsed: Vec<Vec<Part>> = items.into_iter().map(parse_item).collect::<Result<_, _>>()?;
    let count: u64 = parsed.iter().map(|item| item_count(item)).fold(0, u64::saturating_add);
    if count > HOSTS_MAX as u64 {
        return Err(HostListError::TooMany(list.to_owned()));
    }
    let names: Vec<String> = parsed.iter().flat_map(|item| expand_item(item)).collect();
    match names.iter().find(|name| !is_host(name)) {
        Some(name) => Err(HostListError::BadName(name.clone())),
        None => Ok(names),
    }
}

/// A short list that [`expand`] turns back into these names, in this order.
pub fn compact<S: AsRef<str>>(names: &[S]) -> String {
    let mut patterns: Vec<Pattern> = names.iter().map(|name| tokens(name.as_ref())).collect();
    loop {
        let folded = fold(&patterns);
        if folded.len() == patterns.len() {
            break;
        }
        patterns = folded;
    }
    let item = |pattern: &Pattern| pattern.iter().map(render).collect();
    let items: Vec<String> = patterns.iter().map(item).collect();
    items.join(",")
}

// ---- expanding

enum Part<'a> {
    Text(&'a str),
    Group(Vec<Element<'a>>),
}

enum Element<'a> {
    Word(&'a str),
    Range { first: u64, last: u64, width: usize },
}

/// Cuts at the commas outside of groups.
fn split_items(list: &str) -> Result<Vec<&str>, HostListError> {
    let mut items = Vec::new();
    let (mut start, mut open) = (0, false);
    for (at, c) in list.char_indices() {
        match c {
            '{' | '[' if !open => open = true,
            '}' | ']' if open => open = false,
            '{' | '[' | '}' | ']' => return Err(HostListError::Unclosed(list.to_owned())),
            ',' if !open => {
                items.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(list[start..].trim());
    if open {
        Err(HostListError::Unclosed(list.to_owned()))
    } else if items.contains(&"") {
        Err(HostListError::EmptyName(list.to_owned()))
    } else {
        Ok(items)
    }
}

fn parse_item(item: &str) -> Result<Vec<Part<'_>>, HostListError> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some(open) = rest.find(['{', '[']) {
        let close = if rest[open..].starts_with('{') { '}' } else { ']' };
        let unclosed = || HostListError::Unclosed(item.to_owned());
        let end = open + rest[open..].find(['}', ']']).ok_or_else(unclosed)?;
        if !rest[end..].starts_with(close) {
            return Err(unclosed());
        }
        parts.push(Part::Text(&rest[..open]));
        let elements = rest[open + 1..end].split(',').map(|text| parse_element(text.trim()));
        parts.push(Part::Group(elements.collect::<Result<_, _>>()?));
        rest = &rest[end + 1..];
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn parse_element(text: &str) -> Result<Element<'_>, HostListError> {
    let refused = || HostListError::BadElement(text.to_owned());
    let Some((first_text, last_text)) = text.split_once('-') else {
        let word = !text.is_empty() && is_host_name(text);
        return word.then_some(Element::Word(text)).ok_or_else(refused);
    };
    let first = parse_number(first_text).ok_or_else(refused)?;
    let last = parse_number(last_text).ok_or_else(refused)?;
    let width = width(first_text);
    if first <= last && last_text == padded(last, width) {
        Ok(Element::Range { first, last, width })
    } else {
        Err(refused())
    }
}

fn parse_number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// How many digits every number of a range has at least: those of a first number written with
/// leading zeros, else one.
fn width(first: &str) -> usize {
    if first.starts_with('0') { first.len() } else { 1 }
}

fn padded(number: u64, width: usize) -> String {
    format!("{number:0width$}")
}

fn item_count(parts: &[Part]) -> u64 {
    let groups = parts.iter().filter_map(|part| match part {
        Part::Text(_) => None,
        Part::Group(elements) => Some(elements),
    });
    let sums = groups.map(|g| g.iter().map(element_count).fold(0, u64::saturating_add));
    sums.fold(1, u64::saturating_mul)
}

fn element_count(element: &Element) -> u64 {
    match element {
        Element::Word(_) => 1,
        Element::Range { first, last, .. } => (last - first).saturating_add(1),
    }
}

fn expand_item(parts: &[Part]) -> Vec<String> {
    parts.iter().fold(vec![String::new()], |heads, part| match part {
        Part::Text(text) => heads.into_iter().map(|head| head + text).collect(),
        Part::Group(elements) => {
            let words: Vec<String> = elements.iter().flat_map(element_words).collect();
            heads.iter().flat_map(|head| words.iter().map(move |w| format!("{head}{w}"))).collect()
        }
    })
}

fn element_words(element: &Element) -> Vec<String> {
    match element {
        Element::Word(word) => vec![(*word).to_owned()],
        Element::Range { first, last, width } => {
            (*first..=*last).map(|number| padded(number, *width)).collect()
        }
    }
}

fn is_host(name: &str) -> bool {
    is_host_name(name) || name.parse::<Ipv6Addr>().is_ok()
}

// ---- compacting

/// One item being folded, cut where digits begin and end.
type Pattern = Vec<Token>;

#[derive(Clone, PartialEq)]
enum Token {
    Text(String),
    Number(String),
    Group(Vec<String>),
}

fn tokens(name: &str) -> Pattern {
    let mut pattern: Pattern = Vec::new();
    for c in name.chars() {
        match (pattern.last_mut(), c.is_ascii_digit()) {
            (Some(Token::Number(text)), true) | (Some(Token::Text(text)), false) => text.push(c),
            (_, true) => pattern.push(Token::Number(c.into())),
            (_, false) => pattern.push(Token::Text(c.into())),
        }
    }
    pattern
}

/// Joins neighbours that differ in one number into one pattern with a group there. Names stay in
/// order because the group lies left of those made before, so it varies more slowly.
fn fold(patterns: &[Pattern]) -> Vec<Pattern> {
    let mut folded = Vec::new();
    let mut rest = patterns;
    while let Some((first, others)) = rest.split_first() {
        let field = others.first().and_then(|next| foldable_field(first, next));
        let alike = |other: &&Pattern| field.is_some() && foldable_field(first, other) == field;
        let run = 1 + others.iter().take_while(alike).count();
        folded.push(match field {
            Some(field) => join(&rest[..run], field),
            None => first.clone(),
        });
        rest = &rest[run..];
    }
    folded
}

/// The only place where two patterns differ, if both have a number there and no group before it.
fn foldable_field(one: &Pattern, other: &Pattern) -> Option<usize> {
    let field = one.iter().zip(other).position(|(a, b)| a != b)?;
    let same_rest = one.len() == other.len() && one[field + 1..] == other[field + 1..];
    let numbers = [one, other].iter().all(|p| matches!(p[field], Token::Number(_)));
    let group_before = one[..field].iter().any(|token| matches!(token, Token::Group(_)));
    (same_rest && numbers && !group_before).then_some(field)
}

fn join(patterns: &[Pattern], field: usize) -> Pattern {
    let number = |pattern: &Pattern| match &pattern[field] {
        Token::Number(digits) => digits.clone(),
        _ => unreachable!("foldable_field chose a number"),
    };
    let mut joined = patterns[0].clone();
    joined[field] = Token::Group(patterns.iter().map(number).collect());
    joined
}

fn render(token: &Token) -> String {
    match token {
        Token::Text(text) | Token::Number(text) => text.clone(),
        Token::Group(numbers) => format!("{{{}}}", render_ranges(numbers)),
    }
}

fn render_ranges(numbers: &[String]) -> String {
    let mut ranges: Vec<(&str, &str)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((first, last)) if follows(first, last, number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts: Vec<String> = ranges.iter().map(|range| render_range(*range)).collect();
    texts.join(",")
}

fn render_range((first, last): (&str, &str)) -> String {
    if first == last { first.to_owned() } else { format!("{first}-{last}") }
}

/// Whether `next` continues the range from `first` to `last` as [`expand`] would write it.
fn follows(first: &str, last: &str, next: &str) -> bool {
    let successor = parse_number(last).and_then(|number| number.checked_add(1));
    successor.is_some_and(|number| next == padded(number, width(first)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn expanding_what_was_compacted_gives_the_same_names(
            names in prop::collection::vec("[ab]{1,2}[0-2]{0,2}(-[a]?[0-2]{1,2}){0,2}", 1..40)
        ) {
            prop_assert_eq!(expand(&compact(&names)), Ok(names));
        }

        #[test]
        fn any_list_that_expands_survives_being_compacted(
            list in "n\\{0?[1-3]-0?[7-9](,1[0-2])?\\}(-[\\[]?[0-9]-?[0-9]?[\\]]?)?"
        ) {
            if let Ok(names) = expand(&list) {
                let short = compact(&names);
                prop_assert!(short.len() <= names.join(",").len());
                prop_assert_eq!(expand(&short), Ok(names));
            }
        }

        #[test]
        fn no_text_panics(list in "[\\[\\]{}0-9a,-]{0,30}") {
            let _ = expand(&list);
        }
    }

    #[test]
    fn lists_stand_for_the_names_people_expect() {
        for (list, names) in [
            ("node1", "node1"),
            ("node{1-3,10}", "node1 node2 node3 node10"),
            ("node[1-3,10]", "node1 node2 node3 node10"),
            ("n{08-11}", "n08 n09 n10 n11"),
            ("n{8-11}", "n8 n9 n10 n11"),
            ("r{1-2}n{1-2}-ib", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib"),
            ("login, n{a,b}", "login na nb"),
            ("n{3,1,1}", "n3 n1 n1"),
            ("10.0.0.{1-2}", "10.0.0.1 10.0.0.2"),
            ("fe80::{1-2}", "fe80::1 fe80::2"),
        ] {
            assert_eq!(expand(list).unwrap().join(" "), names, "{list}");
        }
    }

    #[test]
    fn compacting_finds_the_short_form() {
        for list in [
            "node{1-8,10}",
            "node{01-16}",
            "rack{1-2}node{1-4}-ib{0-1}",
            "login,node{1-2}",
            "10.0.0.{1-200}",
            "n{3-4,1}",
        ] {
            assert_eq!(compact(&expand(list).unwrap()), list);
        }
    }

    #[test]
    fn refusals_say_what_to_write() {
        for (list, sentence) in [
            ("", "has an empty name"),
            ("a,,b", "has an empty name"),
            ("a,", "has an empty name"),
            ("n{1-2", "is not closed"),
            ("n1-2}", "is not closed"),
            ("n{1-2]", "is not closed"),
            ("n{1{2}}", "is not closed"),
            ("n{8-1}", "is not a range"),
            ("n{01-2}", "is not a range"),
            ("n{1-02}", "is not a range"),
            ("n{}", "is not a range"),
            ("n{a-b}", "is not a range"),
            ("n{1-99999999999999999999}", "is not a range"),
            ("no de", "is not a host name"),
            ("n{1-65537}", "more than 65536 names"),
            ("n{0-18446744073709551615}{1-2}", "more than 65536 names"),
        ] {
            let said = expand(list).unwrap_err().to_string();
            assert!(said.contains(sentence) && said.contains("; "), "{list}: {said}");
        }
    }

    #[test]
    fn the_largest_list_allowed_expands() {
        assert_eq!(expand("n{1-65536}").unwrap().len(), HOSTS_MAX);
    }
}
