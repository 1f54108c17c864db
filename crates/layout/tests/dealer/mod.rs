//! The model: deals bytes one at a time, as a child would deal cards, and walks accesses byte by
//! byte. Slow and obviously right.

#![allow(dead_code)] // Each test file uses its own part.

use proptest::prelude::*;
use pvfs_layout::{Dist, Distribution, Level, Region, Regions, Scheme, Strip};

/// Whose each byte of the file is, from the first byte on, without end.
pub fn deal(dist: &Dist) -> Box<dyn Iterator<Item = u32>> {
    let strips = one_round(&dist.scheme(), dist.slots());
    Box::new(strips.into_iter().cycle().flat_map(|strip| (0..strip.size).map(move |_| strip.slot)))
}

/// Bytes after which dealing repeats.
pub fn round_bytes(dist: &Dist) -> u64 {
    one_round(&dist.scheme(), dist.slots()).iter().map(|strip| strip.size).sum()
}

/// The strips of one round in the order of dealing.
fn one_round(scheme: &Scheme, slots: u32) -> Vec<Strip> {
    match scheme {
        Scheme::Basic => vec![Strip { slot: 0, size: 1 }],
        Scheme::Varstrip { strips } => strips.clone(),
        Scheme::SimpleStripe { ssize } => {
            (0..slots).map(|slot| Strip { slot, size: *ssize }).collect()
        }
        Scheme::TwoD { groups, factor, ssize } => {
            let mut strips = Vec::new();
            for group in groups_of(*groups, slots) {
                for _ in 0..*factor {
                    strips.extend(group.iter().map(|slot| Strip { slot: *slot, size: *ssize }));
                }
            }
            strips
        }
    }
}

/// All groups alike; the last one takes who is left over.
fn groups_of(groups: u32, slots: u32) -> Vec<Vec<u32>> {
    let size = (slots / groups) as usize;
    let all: Vec<u32> = (0..slots).collect();
    let mut dealt: Vec<Vec<u32>> =
        (0..groups as usize - 1).map(|group| all[group * size..][..size].to_vec()).collect();
    dealt.push(all[(groups as usize - 1) * size..].to_vec());
    dealt
}

/// An access as its user describes it.
#[derive(Clone, Debug)]
pub enum Access {
    Contiguous(u64, u64),
    Strided(u64, u64, Vec<(u64, u64)>),
    List(Vec<(u64, u64)>),
}

impl Access {
    pub fn regions(&self) -> Regions {
        match self {
            Self::Contiguous(offset, len) => Regions::contiguous(*offset, *len),
            Self::Strided(offset, block, levels) => {
                Regions::strided(*offset, *block, &levels_of(levels))
            }
            Self::List(list) => Regions::list(
                list.iter().map(|(offset, len)| Region { offset: *offset, len: *len }),
            ),
        }
        .unwrap()
    }

    /// The same, `by` bytes further on in the file.
    pub fn moved(&self, by: u64) -> Self {
        match self.clone() {
            Self::Contiguous(offset, len) => Self::Contiguous(offset + by, len),
            Self::Strided(offset, block, levels) => Self::Strided(offset + by, block, levels),
            Self::List(list) => {
                Self::List(list.into_iter().map(|(offset, len)| (offset + by, len)).collect())
            }
        }
    }

    /// Where the access ends, regions without bytes and all.
    pub fn end(&self) -> u64 {
        let named = match self {
            Self::Contiguous(offset, len) => offset + len,
            Self::Strided(offset, ..) => *offset,
            Self::List(list) => list.iter().map(|(offset, len)| offset + len).max().unwrap_or(0),
        };
        self.offsets().into_iter().max().map_or(0, |last| last + 1).max(named)
    }

    /// The offset of every byte, in the order of the stream.
    pub fn offsets(&self) -> Vec<u64> {
        match self {
            Self::Contiguous(offset, len) => (*offset..offset + len).collect(),
            Self::Strided(offset, block, levels) => walk(*offset, *block, levels),
            Self::List(list) => {
                list.iter().flat_map(|(offset, len)| *offset..offset + len).collect()
            }
        }
    }
}

pub fn levels_of(levels: &[(u64, u64)]) -> Vec<Level> {
    levels.iter().map(|(stride, count)| Level { stride: *stride, count: *count }).collect()
}

/// The outermost level is the outermost loop.
fn walk(offset: u64, block: u64, levels: &[(u64, u64)]) -> Vec<u64> {
    match levels.split_last() {
        None => (offset..offset + block).collect(),
        Some(((stride, count), inner)) => {
            (0..*count).flat_map(|i| walk(offset + i * stride, block, inner)).collect()
        }
    }
}

/// Distributions small enough to deal many rounds by hand.
pub fn small_dist() -> impl Strategy<Value = Dist> {
    let varstrip = prop::collection::vec((0u32..4, 1u64..6), 1..7)
        .prop_filter_map("a slot without a strip", |strips| {
            Dist::varstrip(strips.into_iter().map(|(slot, size)| Strip { slot, size })).ok()
        });
    prop_oneof![
        (1u64..6, 1u32..6).prop_map(|(ssize, slots)| Dist::simple_stripe(ssize, slots).unwrap()),
        varstrip,
        (1u32..4, 1u32..4, 1u64..5, 0u32..4).prop_map(|(groups, factor, ssize, more)| {
            Dist::two_d(groups, factor, ssize, groups + more).unwrap()
        }),
        Just(Dist::basic()),
    ]
}

/// Numbers of every magnitude, those at the edges most of all.
pub fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift),
        (0u32..64, 0u64..5).prop_map(|(shift, more)| (1u64 << shift).saturating_add(more)),
        (0u64..100).prop_map(|less| i64::MAX as u64 - less),
        (0u64..100).prop_map(|less| u64::MAX - less),
    ]
}

/// Distributions of every size that is allowed.
pub fn any_dist() -> impl Strategy<Value = Dist> {
    let slots = prop_oneof![1u32..9, 1u32..65536];
    let numbers = prop_oneof![1u32..9, any::<u32>()];
    let strips = prop::collection::vec((0u32..6, any_size()), 1..9);
    let huge = prop_oneof![
        (any_size(), slots.clone())
            .prop_map(|(ssize, slots)| Dist::simple_stripe(ssize, slots).ok()),
        strips.prop_map(|strips| {
            Dist::varstrip(strips.into_iter().map(|(slot, size)| Strip { slot, size })).ok()
        }),
        (numbers.clone(), numbers, any_size(), slots).prop_map(|(groups, factor, ssize, slots)| {
            Dist::two_d(groups % slots + 1, factor, ssize, slots).ok()
        }),
    ];
    prop_oneof![small_dist(), huge.prop_filter_map("out of range", |dist| dist)]
}

/// Accesses small enough to walk byte by byte.
pub fn small_access() -> impl Strategy<Value = Access> {
    let level = (0u64..20, 0u64..5);
    prop_oneof![
        (0u64..60, 0u64..60).prop_map(|(offset, len)| Access::Contiguous(offset, len)),
        (0u64..30, 0u64..7, prop::collection::vec(level, 0..4))
            .prop_map(|(offset, block, levels)| Access::Strided(offset, block, levels)),
        // Long rows of blocks far apart or close together: what skipping is for.
        (0u64..30, 1u64..4, 1u64..40, 1u64..60).prop_map(|(offset, block, stride, count)| {
            Access::Strided(offset, block, vec![(stride, count)])
        }),
        prop::collection::vec((0u64..60, 0u64..9), 0..9).prop_map(Access::List),
    ]
}
