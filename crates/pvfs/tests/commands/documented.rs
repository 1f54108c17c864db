//! The command lines of the README, as they stand there.

use crate::support::{TestCluster, can_mount};

/// The lines of the README's shell block that begins with this one.
fn block(first: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let found = blocks.find(|block| block.starts_with(first));
    let lines = found.unwrap_or_else(|| panic!("no block of {first}")).lines();
    lines.map(|line| line.split(" # ").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn everyday_use_is_as_the_readme_says() {
    let cluster = TestCluster::nowhere();
    cluster
        .shell("mkdir data && head -c 5M /dev/urandom > data/big.h5 && cp data/big.h5 x")
        .succeeds();
    for line in block("export PATH=") {
        if line.starts_with("export PATH") {
            continue;
        }
        let port = crate::support::next_port();
        let line = match line.as_str() {
            "pvfs up" if can_mount() => format!("pvfs up --port {port}"),
            "pvfs up" => format!("pvfs up --port {port} --no-mount"),
            line => line.to_owned(),
        };
        cluster.shell(&format!("unset PVFS_CONFIG; {line}")).succeeds();
    }
}

#[test]
fn a_cluster_is_made_as_the_readme_says() {
    let cluster = TestCluster::nowhere();
    let lines = block("pvfs genconfig");
    let generate = lines.iter().find(|line| line.starts_with("pvfs genconfig")).unwrap();
    cluster.shell(generate).succeeds();
    let port = crate::support::next_port();
    // On this machine, each node is localhost and its disk a directory.
    let here = format!(
        "sed -i -e 's/node[0-9]:7000/localhost:{port}/; s|/data/pvfs|stores|' cluster.toml && for i in 0 1 2 3 4 5 6 7; \
         do sed -i \"s/node$((i + 1)):7001/localhost:$(({port} + 1 + i))/\" cluster.toml; done"
    );
    cluster.shell(&here).succeeds();
    let run = |line: &str| {
        let name = line.split(' ').nth(3).unwrap();
        let line = format!("PVFS_CONFIG=$PWD/cluster.toml {line} > {name}.log 2>&1 < /dev/null &");
        cluster.shell(&line).succeeds();
    };
    let daemons =
        lines.iter().filter(|line| line.starts_with("pvfs mgr") || line.starts_with("pvfs iod"));
    daemons.for_each(|line| run(line));
    (1..8).for_each(|iod| run(&format!("pvfs iod --name io{iod} --format")));
    cluster
        .shell("export PVFS_CONFIG=$PWD/cluster.toml; pvfs status --wait 20s")
        .succeeds()
        .prints("OK");
    let use_it = "export PVFS_CONFIG=$PWD/cluster.toml; echo hi > x && pvfs cp x pvfs:/ && pvfs cat pvfs:/x && pvfs stop";
    cluster.shell(use_it).succeeds().prints("hi");
}
