//! mmap(2), msync(2).

use crate::sys::*;
use crate::wants::*;

cases! { "map"
    any [
        a_map_shows_the_file,
        changes_through_a_shared_map_are_read,
        writes_are_seen_in_a_map,
        two_maps_of_one_file_are_one,
        a_private_map_changes_nothing,
        children_share_a_map,
        changes_survive_the_end_of_the_map,
        bytes_behind_the_end_are_zeros_and_stay_out_of_the_file,
        the_descriptor_must_allow_it,
        a_map_over_strips_is_one_piece,
    ]
    root []
}

fn a_map_shows_the_file() {
    let data = pattern(300_000, 1);
    let open_file = file("f", &data);
    let reader = open("f", O_RDONLY, 0).unwrap();
    drop(open_file);
    let map = Map::new(&reader, 300_000, libc::PROT_READ, libc::MAP_SHARED).unwrap();
    assert!(map.get(0, 300_000) == data);
    let private = Map::new(&reader, 300_000, libc::PROT_READ, libc::MAP_PRIVATE).unwrap();
    assert!(private.get(123_456, 1000) == data[123_456..124_456]);
}

fn changes_through_a_shared_map_are_read() {
    let open_file = file("f", &[0; 100_000]);
    let map = Map::shared(&open_file, 100_000).unwrap();
    map.set(70_000, b"through the map");
    assert_eq!(pread(&open_file, 15, 70_000).unwrap(), b"through the map");
    map.sync().unwrap();
    assert_eq!(content("f")[70_000..70_015], *b"through the map");
}

fn writes_are_seen_in_a_map() {
    let open_file = file("f", &[0; 100_000]);
    let map = Map::shared(&open_file, 100_000).unwrap();
    assert_eq!(map.get(50_000, 3), [0; 3]);
    assert_eq!(pwrite(&open_file, b"new", 50_000), Ok(3));
    assert_eq!(map.get(50_000, 3), b"new");
    let other = open("f", O_WRONLY, 0).unwrap();
    assert_eq!(pwrite(&other, b"NEW", 50_000), Ok(3));
    assert_eq!(map.get(50_000, 3), b"NEW");
}

fn two_maps_of_one_file_are_one() {
    let open_file = file("f", &[0; 10_000]);
    let other = open("f", O_RDWR, 0).unwrap();
    let (first, second) =
        (Map::shared(&open_file, 10_000).unwrap(), Map::shared(&other, 10_000).unwrap());
    first.set(5000, b"here");
    assert_eq!(second.get(5000, 4), b"here");
}

fn a_private_map_changes_nothing() {
    let open_file = file("f", &[1; 10_000]);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let map = Map::new(&open_file, 10_000, protection, libc::MAP_PRIVATE).unwrap();
    map.set(0, &[2; 10_000]);
    drop(map);
    assert_eq!(content("f"), [1; 10_000]);
}

fn children_share_a_map() {
    let open_file = file("f", &[0; 4096]);
    let map = Map::shared(&open_file, 4096).unwrap();
    child(|| map.set(100, b"from the child")).succeeds();
    assert_eq!(map.get(100, 14), b"from the child");
}

fn changes_survive_the_end_of_the_map() {
    let open_file = file("f", &[0; 200_000]);
    let map = Map::shared(&open_file, 200_000).unwrap();
    drop(open_file);
    map.set(150_000, &[9; 10_000]);
    drop(map);
    let all = content("f");
    assert!(all[150_000..160_000].iter().all(|byte| *byte == 9));
    assert!(all[..150_000].iter().all(|byte| *byte == 0));
}

fn bytes_behind_the_end_are_zeros_and_stay_out_of_the_file() {
    let open_file = file("f", &[1; 5000]);
    let map = Map::shared(&open_file, 8192).unwrap();
    assert_eq!(map.get(5000, 100), [0; 100]);
    map.set(5000, &[7; 100]);
    map.sync().unwrap();
    drop(map);
    assert_eq!(size("f"), 5000);
    ftruncate(&open_file, 6000).unwrap();
    assert!(content("f")[5000..].iter().all(|byte| *byte == 0));
}

fn the_descriptor_must_allow_it() {
    drop(file("f", &[1; 100]));
    let reader = open("f", O_RDONLY, 0).unwrap();
    fails(Map::shared(&reader, 100), Errno::EACCES);
    let writer = open("f", O_WRONLY, 0).unwrap();
    fails(Map::new(&writer, 100, libc::PROT_READ, libc::MAP_SHARED), Errno::EACCES);
}

fn a_map_over_strips_is_one_piece() {
    let open_file = file("f", b"");
    ftruncate(&open_file, 2_000_000).unwrap();
    let data = pattern(2_000_000, 4);
    let map = Map::shared(&open_file, 2_000_000).unwrap();
    map.set(0, &data);
    map.sync().unwrap();
    assert!(content("f") == data);
}
