//! From the user's {base, pcount, ssize} to an explicit list of iods.

use pvfs_layout::{
    DistError, Distribution, IodId, IodList, IodListError, Placement, PlacementError, Scheme,
};

fn cluster(ids: impl IntoIterator<Item = u32>) -> Vec<IodId> {
    ids.into_iter().map(IodId).collect()
}

fn ids(list: &IodList) -> Vec<u32> {
    list.iter().map(|iod| iod.0).collect()
}

/// Table 1 of paper 000: base 2, pcount 3, ssize 65536, of six iods.
#[test]
fn table_1_of_the_pvfs_paper() {
    let placement = Placement::from_pvfs1(2, 3, 65536).unwrap();
    let (dist, list) = placement.place(&Scheme::default(), &cluster(0..6), 0).unwrap();
    assert_eq!(ids(&list), [2, 3, 4]);
    assert_eq!(dist.to_string(), "simple_stripe:ssize=65536");
    assert_eq!(dist.slots(), 3);
}

/// Every base and pcount of small clusters: slots follow the cluster's order and wrap around.
#[test]
fn slots_follow_the_order_of_the_cluster() {
    for order in [vec![0, 1, 2, 3, 4], vec![7, 3, 9, 1, 2], vec![42]] {
        let count = order.len();
        for (base, pcount) in (0..count).flat_map(|base| (1..=count).map(move |n| (base, n))) {
            let placement =
                Placement { base: Some(base as u32), pcount: Some(pcount as u32), ssize: None };
            let list = placement.resolve(&cluster(order.clone()), 99).unwrap();
            let expected: Vec<u32> = (base..base + pcount).map(|at| order[at % count]).collect();
            assert_eq!(ids(&list), expected);
        }
    }
}

#[test]
fn minus_one_means_the_default() {
    let placement = Placement::from_pvfs1(-1, -1, -1).unwrap();
    assert_eq!(placement, Placement::default());
    let (dist, list) = placement.place(&Scheme::default(), &cluster(0..4), 3).unwrap();
    assert_eq!(ids(&list), [3, 0, 1, 2]);
    assert_eq!(dist.to_string(), "simple_stripe:ssize=65536");
}

#[test]
fn the_file_keeps_only_the_iods_its_distribution_needs() {
    let place = |text: &str| {
        let scheme: Scheme = text.parse().unwrap();
        Placement { base: Some(3), pcount: None, ssize: Some(4096) }
            .place(&scheme, &cluster(0..5), 0)
            .map(|(dist, list)| (dist.to_string(), ids(&list)))
    };
    assert_eq!(place("basic").unwrap(), ("basic".to_owned(), vec![3]));
    let (text, list) = place("varstrip:0=1,1=2,2=3").unwrap();
    assert_eq!((text.as_str(), list), ("varstrip:0=1,1=2,2=3", vec![3, 4, 0]));
    let (text, list) = place("two_d:groups=9").unwrap();
    assert_eq!(text, "two_d:groups=5,factor=256,ssize=4096");
    assert_eq!(list, [3, 4, 0, 1, 2]);
}

#[test]
fn refuses_what_the_cluster_does_not_have() {
    let resolve = |base, pcount, iods: &[IodId]| {
        Placement { base, pcount, ssize: None }.resolve(iods, 0).map(|_| ())
    };
    let four = cluster(0..4);
    let no_such_base = PlacementError::NoSuchBase { base: 4, iods: 4 };
    assert_eq!(resolve(Some(4), None, &four), Err(no_such_base));
    let too_many = PlacementError::TooManyIods { pcount: 5, iods: 4 };
    assert_eq!(resolve(None, Some(5), &four), Err(too_many));
    assert_eq!(resolve(None, Some(0), &four), Err(PlacementError::NoIods));
    assert_eq!(resolve(None, None, &[]), Err(PlacementError::NoIods));
    let repeated = PlacementError::IodList(IodListError::Repeated(IodId(1)));
    assert_eq!(resolve(None, None, &cluster([1, 2, 1])), Err(repeated));
    for (base, pcount, ssize, name) in
        [(-2, -1, -1, "base"), (0, 1 << 40, -1, "pcount"), (0, 0, i64::MIN, "ssize")]
    {
        match Placement::from_pvfs1(base, pcount, ssize) {
            Err(PlacementError::OutOfRange { name: named, .. }) => assert_eq!(named, name),
            other => panic!("{other:?}"),
        }
    }
    let empty_strip = Placement { base: None, pcount: None, ssize: Some(0) };
    assert_eq!(
        empty_strip.place(&Scheme::default(), &four, 0).map(|_| ()),
        Err(PlacementError::Dist(DistError::EmptyStrip))
    );
}
