//! `pvfs bench` as users and programs run it: real daemons, few and short turns.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_pvfs");
    Command::new(program).arg("bench").args(arguments).output().expect("the program runs")
}

fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

fn left_behind(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn rows_of_io_have_figures_and_limits_and_nothing_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let wanted =
        ["--quick", "--runs", "1", "--rows", "tcp* 4 KiB 1 client", "--json", "--dir", place];
    let output = bench(&[&["io"], &wanted[..]].concat());
    let rows = rows(&output);
    assert_eq!(names(&rows), ["tcp read 4 KiB 1 client", "tcp write 4 KiB 1 client"]);
    for row in &rows {
        let [value, limit, ratio] =
            ["value", "limit", "ratio"].map(|key| row[key].as_f64().unwrap());
        assert!(value > 0.0 && limit > 0.0 && (ratio - value / limit).abs() < 1e-9, "{row}");
        assert!(row["unit"] == "MiB/s" && row["cpu_s_per_gib"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(left_behind(directory.path()), 0);
}

#[test]
fn rows_of_meta_have_figures_and_are_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("place");
    let record = directory.path().join("record.json");
    std::fs::create_dir(&place).unwrap();
    let (place_text, record_text) = (place.to_str().unwrap(), record.to_str().unwrap());
    let output = bench(&[
        "meta",
        "--quick",
        "--runs",
        "1",
        "--rows",
        "create 1 client",
        "--json",
        "--dir",
        place_text,
        "--record",
        record_text,
    ]);
    assert_eq!(names(&rows(&output)), ["create 1 client"]);
    let recorded: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    assert_eq!(recorded["rows"][0]["values"].as_array().unwrap().len(), 1);
    assert!(recorded["command"].as_str().unwrap().starts_with("pvfs bench meta"));
    assert_eq!(left_behind(&place), 0);
}

/// One row of each kind.
#[test]
fn rows_of_parallel_compare_a_call_with_the_loop_it_stands_for() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    for name in [
        "readx 64 B column of 1024 rows",
        "writex 16 regions of 256 KiB",
        "openg 90 clients create depth 8",
        "getdents_plus_lite of 5000 files",
        "read 4 KiB 16 outstanding",
    ] {
        let wanted = ["--quick", "--runs", "1", "--rows", name, "--json", "--dir", place];
        let output = bench(&[&["parallel"], &wanted[..]].concat());
        let rows = rows(&output);
        assert_eq!(names(&rows), [name]);
        let [value, limit, ratio] =
            ["value", "limit", "ratio"].map(|key| rows[0][key].as_f64().unwrap());
        assert!(value > 0.0 && limit > 0.0 && (ratio - limit / value).abs() < 1e-9, "{rows:?}");
    }
    assert_eq!(left_behind(directory.path()), 0);
}

/// MPICH and the driver are not everywhere, and only root mounts.
#[test]
fn rows_of_mpi_compare_the_driver_with_the_library_and_with_data_sieving() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let output = bench(&["mpi", "--quick", "--runs", "1", "--json", "--dir", place]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && WAYS_TO_MPI.iter().any(|way| complaint.contains(way)) {
        return eprintln!("skipped: {}", complaint.trim());
    }
    let rows = rows(&output);
    let listed = bench(&["mpi", "--quick", "--list"]).stdout;
    let listed = String::from_utf8(listed).unwrap();
    assert_eq!(names(&rows), listed.lines().collect::<Vec<_>>());
    for row in &rows {
        let [value, limit, ratio] =
            ["value", "limit", "ratio"].map(|key| row[key].as_f64().unwrap());
        assert!(value > 0.0 && limit > 0.0 && ratio > 0.0, "{row}");
        match row["unit"].as_str().unwrap() {
            "requests" => assert!(value == limit, "more ranks take more requests: {row}"),
            _ => assert!(row["cpu_s_per_gib"].as_f64().unwrap() > 0.0, "{row}"),
        }
    }
    assert_eq!(left_behind(directory.path()), 0);
}

#[test]
fn a_pattern_without_rows_is_wrong_usage() {
    let output = bench(&["io", "--rows", "carrier pigeon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("carrier pigeon"));
}

#[test]
fn the_list_names_rows_and_measures_nothing() {
    let output = bench(&["meta", "--list"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "create 8 clients"), "{text}");
}

/// What those are told to do who lack something of it.
const WAYS_TO_MPI: [&str; 2] = ["apt-get install", "make -C bindings/mpiio"];
