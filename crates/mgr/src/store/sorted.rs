//! Keys of tables in memory, laid out for comparing: two of them are mostly told apart by numbers that lie in the
//! table itself, where bytes elsewhere would have to be fetched for each comparison on the way down a tree.

/// A key; ordered as its bytes are.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct SortedKey {
    /// The first bytes, big-endian, zeros where there are no more.
    words: (u64, u64, u64),
    /// How many of them are bytes of the key: of two keys that differ in zeros at the end, the shorter comes first.
    length: u8,
    /// The others.
    rest: Box<[u8]>,
}

impl SortedKey {
    /// The key of these bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let (head, rest) = key.split_at(key.len().min(HEAD_BYTES));
        let mut words = [0; HEAD_BYTES];
        words[..head.len()].copy_from_slice(head);
        let word = |at: usize| {
            let bytes = words[at * WORD_BYTES..][..WORD_BYTES].try_into();
            u64::from_be_bytes(bytes.expect("a word has eight bytes"))
        };
        Self { words: (word(0), word(1), word(2)), length: head.len() as u8, rest: rest.into() }
    }

    /// Its bytes.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let (first, second, third) = self.words;
        let mut key = Vec::with_capacity(HEAD_BYTES + self.rest.len());
        [first, second, third].iter().for_each(|word| key.extend(word.to_be_bytes()));
        key.truncate(usize::from(self.length));
        key.extend_from_slice(&self.rest);
        key
    }
}

const WORD_BYTES: usize = 8;

/// Bytes that a key holds in itself, without memory elsewhere: all keys of names, objects and opens.
const HEAD_BYTES: usize = 3 * WORD_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_their_bytes_are() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        let filled = [vec![0; 40], vec![0xff; 40], (0..40).collect()];
        for filled in &filled {
            for length in [1, 7, 8, 9, 17, 23, 24, 25, 40] {
                keys.push(filled[..length].to_vec());
                for last in [0, 1, 0x7f, 0x80, 0xff] {
                    keys.push([&filled[..length - 1], &[last]].concat());
                }
            }
        }
        for one in &keys {
            assert_eq!(SortedKey::new(one).to_vec(), *one);
            for other in &keys {
                let (sorted, told) = (SortedKey::new(one), SortedKey::new(other));
                assert_eq!(sorted.cmp(&told), one.cmp(other), "{one:?} and {other:?}");
            }
        }
    }
}
