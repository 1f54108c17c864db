//! Ranges of user ids, as an agent vouches for them: `1000-60000` or `1000`.

use serde::de::{self, Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// User ids from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UidRange {
    first: u32,
    last: u32,
}

/// The text is not a range of user ids.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("\"{0}\" is not a range of user ids; write FIRST-LAST such as \"1000-60000\", or one id")]
pub struct UidRangeError(String);

impl UidRange {
    /// Whether `uid` is one of them.
    pub fn contains(self, uid: u32) -> bool {
        (self.first..=self.last).contains(&uid)
    }
}

impl FromStr for UidRange {
    type Err = UidRangeError;

    fn from_str(text: &str) -> Result<Self, UidRangeError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (parse_uid(first), parse_uid(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(UidRangeError(text.to_owned())),
        }
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl<'de> Deserialize<'de> for UidRange {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// The largest id is refused: the kernel reads it as "unchanged" in chown.
fn parse_uid(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|uid| digits && *uid != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_both_ends_and_survives_being_written() {
        let range: UidRange = "1000-1002".parse().unwrap();
        let held: Vec<u32> = (998..1005).filter(|uid| range.contains(*uid)).collect();
        assert_eq!(held, [1000, 1001, 1002]);
        for text in ["1000-1002", "7", "0-4294967294"] {
            assert_eq!(text.parse::<UidRange>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refusals_say_what_to_write() {
        for text in ["", "-", "5-", "-5", "9-1", "x", "+1", "1-4294967295", "1-2-3"] {
            let said = text.parse::<UidRange>().unwrap_err().to_string();
            assert!(said.ends_with("or one id"), "{said}");
        }
    }
}
