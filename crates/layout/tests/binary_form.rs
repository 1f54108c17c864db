//! The binary and textual forms: fixed vectors, round trips, and bytes from nowhere.

mod dealer;

use dealer::{any_dist, any_size, small_access, small_dist};
use proptest::prelude::*;
use pvfs_layout::{
    DecodeError, Dist, DistError, Distribution, IodId, IodList, IodListError, Level, ParseError,
    Region, RegionError, Regions, Scheme, Strip, parse_bytes,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded_dist(dist: &Dist) -> Vec<u8> {
    let mut bytes = Vec::new();
    dist.encode(&mut bytes);
    bytes
}

fn encoded_list(list: &IodList) -> Vec<u8> {
    let mut bytes = Vec::new();
    list.encode(&mut bytes);
    bytes
}

fn encoded_regions(regions: &Regions) -> Vec<u8> {
    let mut bytes = Vec::new();
    regions.encode(&mut bytes);
    bytes
}

fn iods(ids: impl IntoIterator<Item = u32>) -> Result<IodList, IodListError> {
    IodList::new(ids.into_iter().map(IodId))
}

fn two_strips() -> Dist {
    Dist::varstrip([Strip { slot: 0, size: 32768 }, Strip { slot: 1, size: 65536 }]).unwrap()
}

/// These bytes are on disks. A change here is a change of the format.
#[test]
fn fixed_vectors_of_distributions() {
    let simple = Dist::simple_stripe(65536, 4).unwrap();
    assert_eq!(hex(&encoded_dist(&simple)), "01040000000000010000000000");
    let varstrip = "02020000000000008000000000000001000000000001000000 0000".replace(' ', "");
    assert_eq!(hex(&encoded_dist(&two_strips())), varstrip);
    let two_d = Dist::two_d(2, 4, 65536, 8).unwrap();
    assert_eq!(hex(&encoded_dist(&two_d)), "030800000002000000040000000000010000000000");
    assert_eq!(hex(&encoded_dist(&Dist::basic())), "04");
}

/// These bytes are on disks. A change here is a change of the format.
#[test]
fn fixed_vectors_of_iod_lists() {
    assert_eq!(hex(&encoded_list(&iods(0..1000).unwrap())), "010000000000e8030000");
    let wrapped = iods([4, 5, 0]).unwrap();
    assert_eq!(hex(&encoded_list(&wrapped)), "020004000000020000000000000001000000");
}

/// These bytes are in requests of clients of every version.
#[test]
fn fixed_vectors_of_accesses() {
    let contiguous = Regions::contiguous(1, 2).unwrap();
    assert_eq!(hex(&encoded_regions(&contiguous)), "0101000000000000000200000000000000");
    let strided = Regions::strided(1, 2, &[Level { stride: 3, count: 4 }]).unwrap().slice(1..7);
    let expected = "02\
        0100000000000000 0200000000000000 0100000000000000 0700000000000000\
        01 0300000000000000 0400000000000000";
    assert_eq!(hex(&encoded_regions(&strided)), expected.replace(' ', ""));
    let list = Regions::list([Region { offset: 9, len: 1 }, Region { offset: 3, len: 2 }]).unwrap();
    let expected = "0302000000\
        0900000000000000 0100000000000000 0300000000000000 0200000000000000";
    assert_eq!(hex(&encoded_regions(&list)), expected.replace(' ', ""));
}

#[test]
fn fixed_texts_of_distributions() {
    for (dist, text) in [
        (Dist::simple_stripe(65536, 4).unwrap(), "simple_stripe:ssize=65536"),
        (two_strips(), "varstrip:0=32768,1=65536"),
        (Dist::two_d(2, 4, 65536, 8).unwrap(), "two_d:groups=2,factor=4,ssize=65536"),
        (Dist::basic(), "basic"),
    ] {
        assert_eq!(dist.to_string(), text);
        assert_eq!(text.parse::<Scheme>().unwrap().over(dist.slots()), Ok(dist));
    }
}

#[test]
fn texts_are_read_as_people_write_them() {
    let parse = |text: &str| text.parse::<Scheme>().unwrap().to_string();
    assert_eq!(parse("simple_stripe"), "simple_stripe:ssize=65536");
    assert_eq!(parse(" simple_stripe: ssize = 1M "), "simple_stripe:ssize=1048576");
    assert_eq!(parse("varstrip:0:32K;1:64K"), "varstrip:0=32768,1=65536");
    assert_eq!(parse("two_d:ssize=4k,groups=3"), "two_d:groups=3,factor=256,ssize=4096");
    assert_eq!(parse_bytes("2G"), Ok(2 << 30));
    assert_eq!(Scheme::default().to_string(), "simple_stripe:ssize=65536");
}

#[test]
fn texts_that_mean_nothing_are_refused() {
    use ParseError::*;
    let refused = |text: &str| text.parse::<Scheme>().unwrap_err();
    assert_eq!(refused("raid0"), UnknownName("raid0".into()));
    assert_eq!(refused(""), UnknownName("".into()));
    assert_eq!(refused("basic:ssize=1"), UnknownParameter("ssize".into()));
    assert_eq!(refused("simple_stripe:ssize=1,ssize=2"), UnknownParameter("ssize".into()));
    assert_eq!(refused("simple_stripe:64K"), NotAPair("64K".into()));
    for number in ["", "K", "64KB", "-1", "+1", "1.5M", "99999999999G", "٣"] {
        let text = format!("simple_stripe:ssize={number}");
        assert_eq!(refused(&text), NotANumber(number.into()));
    }
    assert_eq!(refused("two_d:groups=4294967296"), NotANumber("4294967296".into()));
    assert_eq!(refused("simple_stripe:ssize=0"), Dist(DistError::EmptyStrip));
    assert_eq!(refused("varstrip:"), Dist(DistError::NoSlots));
    assert_eq!(refused("varstrip:1=4"), Dist(DistError::SlotUnused(0)));
}

#[test]
fn a_scheme_takes_the_iods_it_needs() {
    let over = |text: &str, iods| text.parse::<Scheme>().unwrap().over(iods);
    assert_eq!(over("basic", 9).unwrap().slots(), 1);
    assert_eq!(over("basic", 0), Err(DistError::NoSlots));
    assert_eq!(over("varstrip:0=1,1=1", 9).unwrap().slots(), 2);
    assert_eq!(over("varstrip:0=1,1=1", 1), Err(DistError::TooFewSlots { needed: 2, slots: 1 }));
    assert_eq!(over("two_d:groups=4", 3), Dist::two_d(3, 256, 65536, 3));
    assert_eq!(over("simple_stripe", 0), Err(DistError::NoSlots));
}

#[test]
fn caps_hold_before_anything_is_allocated() {
    let bytes = encoded_list(&iods([9, 7, 5]).unwrap());
    let too_many = DecodeError::TooMany { what: "runs of iods", count: 3, max: 2 };
    assert_eq!(IodList::decode(&bytes, 2), Err(too_many));
    let bytes = encoded_list(&iods(0..1000).unwrap());
    let too_many = IodListError::TooMany { count: 1000, max: 999 };
    assert_eq!(IodList::decode(&bytes, 999), Err(DecodeError::IodList(too_many)));

    let billion = Regions::strided(0, 1, &[Level { stride: 2, count: 1 << 30 }]).unwrap();
    let too_many = DecodeError::TooMany { what: "regions", count: 1 << 30, max: 1 << 29 };
    assert_eq!(Regions::decode(&encoded_regions(&billion), 1 << 29), Err(too_many));
    assert!(Regions::decode(&encoded_regions(&billion), 1 << 30).is_ok());
    let announces_much = [3, 255, 255, 255, 255, 0, 0];
    assert_eq!(Regions::decode(&announces_much, u64::MAX), Err(DecodeError::Truncated));
}

#[test]
fn what_is_not_in_its_one_right_form_is_refused() {
    let list = |runs: &[(u32, u32)]| {
        let mut bytes = (runs.len() as u16).to_le_bytes().to_vec();
        for (start, count) in runs {
            bytes.extend(start.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        IodList::decode(&bytes, 1000).map(|(list, _)| list.len())
    };
    let refused = |error| Err(DecodeError::IodList(error));
    assert_eq!(list(&[(4, 2), (0, 1)]), Ok(3));
    assert_eq!(list(&[]), refused(IodListError::Empty));
    assert_eq!(list(&[(4, 0)]), refused(IodListError::NotCanonical));
    assert_eq!(list(&[(4, 1), (5, 1)]), refused(IodListError::NotCanonical));
    assert_eq!(list(&[(u32::MAX, 1)]), Ok(1));
    assert_eq!(list(&[(u32::MAX, 2)]), refused(IodListError::NotCanonical));
    assert_eq!(list(&[(4, 3), (0, 1), (6, 2)]), refused(IodListError::Repeated(IodId(6))));
    assert_eq!(
        Dist::decode(&[77]),
        Err(DecodeError::UnknownKind { what: "distribution", kind: 77 })
    );
    let deep = [&[2][..], &[0; 32], &[5]].concat();
    assert_eq!(Regions::decode(&deep, 9), Err(DecodeError::Regions(RegionError::TooDeep(5))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn distributions_survive_both_forms(dist in any_dist(), tail in any::<[u8; 3]>()) {
        let bytes = [&encoded_dist(&dist)[..], &tail].concat();
        prop_assert_eq!(Dist::decode(&bytes), Ok((dist.clone(), &tail[..])));
        for len in 0..bytes.len() - tail.len() {
            prop_assert_eq!(Dist::decode(&bytes[..len]), Err(DecodeError::Truncated));
        }
        let scheme: Scheme = dist.to_string().parse().unwrap();
        prop_assert_eq!(scheme.over(dist.slots()), Ok(dist));
    }

    #[test]
    fn iod_lists_survive(ids in prop::collection::hash_set(0u32..60, 1..60), shift in any::<bool>()) {
        let lift = if shift { u32::MAX - 59 } else { 0 };
        let ids: Vec<IodId> = ids.into_iter().map(|id| IodId(id + lift)).collect();
        let list = IodList::new(ids.iter().copied()).unwrap();
        let bytes = encoded_list(&list);
        prop_assert_eq!(IodList::decode(&bytes, 60), Ok((list.clone(), &[][..])));
        for len in 0..bytes.len() {
            prop_assert_eq!(IodList::decode(&bytes[..len], 60), Err(DecodeError::Truncated));
        }
        prop_assert_eq!(list.iter().collect::<Vec<IodId>>(), ids.clone());
        prop_assert_eq!(list.len() as usize, ids.len());
        for (slot, id) in (0..).zip(&ids) {
            prop_assert_eq!(list.get(slot), Some(*id));
            prop_assert_eq!(list.slot_of(*id), Some(slot));
        }
        prop_assert_eq!(list.get(list.len()), None);
        prop_assert_eq!(list.slot_of(IodId(100)), None);
    }

    #[test]
    fn accesses_survive(access in small_access(), start in 0u64..40, len in 0u64..90) {
        let regions = access.regions().slice(start..start + len);
        let bytes = encoded_regions(&regions);
        prop_assert_eq!(Regions::decode(&bytes, 1 << 20), Ok((regions, &[][..])));
        for len in 0..bytes.len() {
            prop_assert_eq!(Regions::decode(&bytes[..len], 1 << 20), Err(DecodeError::Truncated));
        }
    }

    /// Random bytes hardly ever get past the kind, so half of them begin with a right one.
    #[test]
    fn bytes_from_nowhere_never_panic(
        kind in prop_oneof![0u8..5, any::<u8>()],
        bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..4, any::<u8>()], 0..120),
    ) {
        let bytes = [&[kind][..], &bytes].concat();
        if let Ok((dist, rest)) = Dist::decode(&bytes) {
            prop_assert_eq!(&encoded_dist(&dist)[..], &bytes[..bytes.len() - rest.len()]);
        }
        if let Ok((list, rest)) = IodList::decode(&bytes, 1 << 16) {
            prop_assert_eq!(&encoded_list(&list)[..], &bytes[..bytes.len() - rest.len()]);
        }
        if let Ok((regions, _)) = Regions::decode(&bytes, 1 << 20) {
            prop_assert!(regions.iter().take(50).map(|region| region.len).sum::<u64>() <= regions.total_bytes());
        }
    }

    /// One bit of a right record wrong: another record or a refusal.
    #[test]
    fn flipped_bits_never_panic(
        dist in small_dist(),
        access in small_access(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        size in any_size(),
    ) {
        let mut bytes = encoded_dist(&dist);
        let at_dist = at.index(bytes.len());
        bytes[at_dist] ^= 1 << bit;
        let dist = Dist::decode(&bytes).map(|(dist, _)| dist).unwrap_or(dist);
        let mut bytes = encoded_regions(&access.regions());
        let at_access = at.index(bytes.len());
        bytes[at_access] ^= 1 << bit;
        if let Ok((regions, _)) = Regions::decode(&bytes, 1 << 10) {
            let slot = size as u32 % dist.slots();
            let held: u64 = pvfs_layout::StreamPieces::new(&dist, slot, &regions)
                .take(1000)
                .map(|piece| piece.len)
                .sum();
            prop_assert!(held <= regions.total_bytes());
        }
    }

    #[test]
    fn texts_from_nowhere_never_panic(text in "(simple_stripe|varstrip|two_d|basic|):?[a-z0-9=,:;KMGT٣ ]{0,40}") {
        if let Ok(scheme) = text.parse::<Scheme>() {
            prop_assert_eq!(scheme.to_string().parse::<Scheme>(), Ok(scheme));
        }
    }
}
