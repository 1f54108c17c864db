//! Sizes and times as people write them: `64K`, `500ms`.
//!
//! Sizes are binary, whatever the spelling: `K` and `KiB` are both 1024. `KB` is refused, because
//! half of its readers take it for 1000. Times are kept to the millisecond.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes, written `65536`, `64K` or `64KiB`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ByteSize(pub u64);

/// Why a size or a time was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AmountError {
    /// Not a whole number with one of the units known.
    #[error(
        "\"{0}\" is not a size; write a whole number of bytes or one with K, M, G or T, such as 64K"
    )]
    NotASize(String),
    /// A decimal unit.
    #[error(
        "the unit of \"{0}\" is ambiguous; \
         sizes are binary, write K, M, G or T (64K is 65536 bytes)"
    )]
    Decimal(String),
    /// More than 64 bits of bytes.
    #[error("\"{0}\" is larger than a file can be; write less than 8388608T")]
    TooLarge(String),
    /// Not a number with one of the units known.
    #[error("\"{0}\" is not a time; write a number with ms, s, m, h or d, such as 30s")]
    NotATime(String),
}

const SIZE_UNITS: [(&str, u32); 5] = [("", 0), ("K", 10), ("M", 20), ("G", 30), ("T", 40)];
const TIME_UNITS_MS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for ByteSize {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (digits, unit) = split_unit(text.trim());
        let unit = unit.to_ascii_uppercase();
        if unit.len() == 2 && unit.ends_with('B') {
            return Err(AmountError::Decimal(text.to_owned()));
        }
        let unit = if unit == "B" { "" } else { unit.strip_suffix("IB").unwrap_or(&unit) };
        let shift = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, shift)| *shift);
        let (Some(shift), true) = (shift, digits.bytes().all(|b| b.is_ascii_digit())) else {
            return Err(AmountError::NotASize(text.to_owned()));
        };
        if digits.is_empty() {
            return Err(AmountError::NotASize(text.to_owned()));
        }
        let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
        match bytes {
            Some(bytes) if bytes <= i64::MAX as u64 => Ok(Self(bytes)),
            _ => Err(AmountError::TooLarge(text.to_owned())),
        }
    }
}

impl fmt::Display for ByteSize {
    /// In the largest unit that says it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |shift: u32| self.0 != 0 && self.0.trailing_zeros() >= shift;
        let (unit, shift) = SIZE_UNITS.iter().rfind(|(_, shift)| exact(*shift)).unwrap_or(&("", 0));
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

/// A time such as `500ms`, `30s`, `1.5h`.
pub fn parse_duration(text: &str) -> Result<Duration, AmountError> {
    let refused = || AmountError::NotATime(text.to_owned());
    let (number, unit) = split_unit(text.trim());
    let (_, unit_ms) = TIME_UNITS_MS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    let number: f64 = number.parse().map_err(|_| refused())?;
    from_units(number, *unit_ms).ok_or_else(refused)
}

/// A time in the largest unit that says it exactly, to the millisecond: `30s`, `1500ms`.
pub fn format_duration(time: Duration) -> String {
    let ms = time.as_millis() as u64;
    let exact = |unit_ms: u64| ms != 0 && ms.is_multiple_of(unit_ms);
    let (unit, unit_ms) =
        TIME_UNITS_MS.iter().rfind(|(_, unit_ms)| exact(*unit_ms)).unwrap_or(&("ms", 1));
    format!("{}{unit}", ms / unit_ms)
}

/// The value of a key whose name ends in its unit: a number of that unit, or a text with its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time<const UNIT_MS: u64>(pub Duration);

pub(crate) const SECOND_MS: u64 = 1_000;
pub(crate) const MINUTE_MS: u64 = 60_000;
pub(crate) const HOUR_MS: u64 = 3_600_000;
/// The value of a `..._s` key.
pub(crate) type Seconds = Time<SECOND_MS>;
/// The value of a `..._minutes` key.
pub(crate) type Minutes = Time<MINUTE_MS>;
/// The value of a `..._hours` key.
pub(crate) type Hours = Time<HOUR_MS>;

impl<'de, const UNIT_MS: u64> Deserialize<'de> for Time<UNIT_MS> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TimeVisitor { unit_ms: UNIT_MS }).map(Self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"64K\"")
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
        self.visit_str(&bytes.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }
}

struct TimeVisitor {
    unit_ms: u64,
}

impl Visitor<'_> for TimeVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as 30 or \"500ms\"")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Duration, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Duration, E> {
        from_units(number, self.unit_ms)
            .ok_or_else(|| E::custom(AmountError::NotATime(number.to_string())))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).map_err(E::custom)
    }
}

/// Rounded to the millisecond; nothing negative, endless or longer than a century.
fn from_units(number: f64, unit_ms: u64) -> Option<Duration> {
    let ms = (number * unit_ms as f64).round();
    (0.0..=CENTURY_MS).contains(&ms).then(|| Duration::from_millis(ms as u64))
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..end].trim_end(), &text[end..])
}

/// Beyond it a time is a slip of the pen, and sums of times could overflow.
const CENTURY_MS: f64 = 100.0 * 366.0 * 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_size_survives_being_written(bytes in 0..=i64::MAX as u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn every_time_survives_being_written(ms in 0_u64..1 << 40) {
            let time = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(time)), Ok(time));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<ByteSize>();
            let _ = parse_duration(&text);
        }
    }

    #[test]
    fn sizes_are_binary_however_spelt() {
        for text in ["64K", "64k", "64KiB", "64 K", "65536", "65536B"] {
            assert_eq!(text.parse(), Ok(ByteSize(65536)), "{text}");
        }
        assert_eq!(ByteSize(3 << 30).to_string(), "3G");
        assert_eq!(ByteSize(1025).to_string(), "1025");
        assert_eq!(ByteSize(0).to_string(), "0");
    }

    #[test]
    fn refused_sizes_say_what_to_write() {
        for (text, sentence) in [
            ("64KB", "the unit of \"64KB\" is ambiguous"),
            ("K", "\"K\" is not a size"),
            ("1.5M", "\"1.5M\" is not a size"),
            ("-1", "\"-1\" is not a size"),
            ("8388608T", "\"8388608T\" is larger than a file can be"),
        ] {
            let said = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(said.starts_with(sentence) && said.contains("; "), "{said}");
        }
    }

    #[test]
    fn times_carry_their_unit() {
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(format_duration(Duration::from_millis(1500)), "1500ms");
        assert_eq!(format_duration(Duration::from_secs(120)), "2m");
        for text in ["5", "", "-5s", "infs", "5 weeks", "1e30d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
