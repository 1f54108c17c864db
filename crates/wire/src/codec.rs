//! How values become bytes: little-endian, fixed-width, no tags, no padding.
//!
//! A record is its fields in order. A list is a `u32` count and its items; bytes and text are lists of
//! `u8`; an option is one byte and, when it is 1, the value. Nothing is ever allocated for a count
//! that the remaining bytes could not hold, so a hostile frame costs no more than its own length.

use crate::error::DecodeError;

/// The unread rest of a body.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        if count > self.rest.len() {
            return Err(DecodeError::Short);
        }
        let (head, tail) = self.rest.split_at(count);
        self.rest = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("take returned N bytes"))
    }

    /// A list length, refused when even one-byte items would not fit.
    pub fn count(&mut self) -> Result<usize, DecodeError> {
        let count = u32::get(self)? as usize;
        if count > self.rest.len() {
            return Err(DecodeError::Short);
        }
        Ok(count)
    }

    /// Everything not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Goes on at `rest`, which a foreign decoder left over.
    pub fn set_rest(&mut self, rest: &'a [u8]) {
        self.rest = rest;
    }

    /// Refuses bytes after the last field: a newer peer must say so by the version instead.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}

/// A value that travels in a frame's body.
pub trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes the value off the front.
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// The value alone, as bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// The value from bytes that hold nothing else.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::get(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Wire for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self::from_le_bytes(from.array()?))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, u128, i32, i64);

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::get(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Value),
        }
    }
}

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn get(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::get(from)?;
        }
        Ok(items)
    }
}

/// Bytes with no meaning here: names, paths, xattr values, tokens.
#[derive(Clone, Default, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).put(out);
        out.extend_from_slice(&self.0);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = from.count()?;
        Ok(Self(from.take(count)?.to_vec()))
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<T: AsRef<[u8]>> From<T> for Bytes {
    fn from(bytes: T) -> Self {
        Self(bytes.as_ref().to_vec())
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = from.count()?;
        String::from_utf8(from.take(count)?.to_vec()).map_err(|_| DecodeError::Value)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if bool::get(from)? { T::get(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|item| item.put(out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = from.count()?;
        // An item in memory may be far larger than its bytes, so the list grows as items arrive.
        let mut items = Vec::with_capacity(count.min(LIST_PREALLOCATED_MAX));
        for _ in 0..count {
            items.push(T::get(from)?);
        }
        Ok(items)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::get(from)?, B::get(from)?))
    }
}

/// Declares a struct that travels as its fields in order.
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }

        impl $crate::codec::Wire for $name {
            #[allow(unused_variables)]
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::codec::Wire::put(&self.$field, out);)*
            }
            #[allow(unused_variables)]
            fn get(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::error::DecodeError> {
                Ok(Self { $($field: $crate::codec::Wire::get(from)?,)* })
            }
        }
    };
}

/// Declares an enum without fields that travels as one byte.
#[macro_export]
macro_rules! choice {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Ord, PartialOrd)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_meta])* $variant = $code,)* }

        impl $crate::codec::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }
            fn get(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::error::DecodeError> {
                match <u8 as $crate::codec::Wire>::get(from)? {
                    $($code => Ok(Self::$variant),)*
                    _ => Err($crate::error::DecodeError::Value),
                }
            }
        }
    };
}

/// Declares a set of named bits that travels as a `u32`; unknown bits are refused.
#[macro_export]
macro_rules! bits {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$bit_meta:meta])* $bit:ident = $value:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Hash)]
        pub struct $name(u32);

        impl $name {
            $($(#[$bit_meta])* pub const $bit: Self = Self($value);)*

            /// No bit at all.
            pub const NONE: Self = Self(0);

            /// Whether every bit of `other` is set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            pub const fn any(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The bits of both.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// `other`'s bits set when `wanted`.
            #[must_use]
            pub const fn with_if(self, wanted: bool, other: Self) -> Self {
                if wanted { self.with(other) } else { self }
            }

            /// The number that travels.
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// The set of a number, or nothing when it has unknown bits.
            pub const fn from_bits(bits: u32) -> Option<Self> {
                let known = 0 $(| $value)*;
                if bits & !known == 0 { Some(Self(bits)) } else { None }
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl $crate::codec::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $crate::codec::Wire::put(&self.0, out);
            }
            fn get(
                from: &mut $crate::codec::Reader<'_>,
            ) -> ::core::result::Result<Self, $crate::error::DecodeError> {
                Self::from_bits($crate::codec::Wire::get(from)?).ok_or($crate::error::DecodeError::Value)
            }
        }
    };
}

/// Beyond this many items a list grows as it is read.
const LIST_PREALLOCATED_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    record! {
        /// A record of every shape.
        pub struct Sample {
            /// Number.
            pub number: u64,
            /// Name.
            pub name: Bytes,
            /// Maybe.
            pub maybe: Option<u16>,
            /// List.
            pub list: Vec<(u8, bool)>,
        }
    }

    fn sample() -> Sample {
        Sample { number: 7, name: b"ab".into(), maybe: Some(258), list: vec![(1, true)] }
    }

    #[test]
    fn a_record_is_its_fields_in_order_little_endian() {
        let bytes = sample().to_bytes();
        assert_eq!(
            bytes,
            [7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 1, 2, 1, 1, 0, 0, 0, 1, 1]
        );
        assert_eq!(Sample::from_bytes(&bytes), Ok(sample()));
    }

    #[test]
    fn every_shorter_or_longer_body_is_refused() {
        let mut bytes = sample().to_bytes();
        for length in 0..bytes.len() {
            assert!(Sample::from_bytes(&bytes[..length]).is_err(), "{length} bytes accepted");
        }
        bytes.push(0);
        assert_eq!(Sample::from_bytes(&bytes), Err(DecodeError::Trailing));
    }

    #[test]
    fn a_count_beyond_the_body_allocates_nothing() {
        let bytes = u32::MAX.to_bytes();
        assert_eq!(Vec::<()>::from_bytes(&bytes), Err(DecodeError::Short));
        assert_eq!(Bytes::from_bytes(&bytes), Err(DecodeError::Short));
    }
}
