//! Every refusal of a file is one sentence that names the line and says what to write instead.

use pvfs_config::Cluster;
use std::path::Path;

/// Line 1 is the version; the lines of each table follow as written here.
const GOOD: &str = r#"version = 1
[filesystem]
name = "scratch"
id = 1
[security]
mode = "psk"
[defaults]
ssize = "64K"
[[manager]]
name = "mgr0"
listen = ["tcp://node0:7000"]
store = "mgr0"
[[iod]]
name = "io0"
listen = ["tcp://node1:7000"]
store = "io0"
[[iod]]
name = "io1"
listen = ["tcp://node2:7000"]
store = "io1"
[agent]
uids = ["1000"]
"#;

fn said(text: &str) -> String {
    match Cluster::parse(text, Path::new("/etc/pvfs/cluster.toml")) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn refuses(from: &str, to: &str, sentence: &str) {
    assert!(GOOD.contains(from), "{from} is not in the good text");
    let said = said(&GOOD.replacen(from, to, 1));
    assert_eq!(said, format!("/etc/pvfs/cluster.toml:{sentence}"), "{from} -> {to}");
}

#[test]
fn the_text_they_start_from_is_accepted() {
    Cluster::parse(GOOD, Path::new("/etc/pvfs/cluster.toml")).unwrap();
}

#[test]
fn keys() {
    refuses("ssize =", "ssise =", "8: unknown key ssise in [defaults]; did you mean ssize?");
    refuses(
        "store =",
        "directory =",
        "12: unknown key directory in [[manager]]; write one of name, listen, store",
    );
    refuses("[agent]", "[agend]", "21: unknown table [agend]; did you mean agent?");
    refuses("id = 1", "", "2: the key id is missing in [filesystem]; add it");
    refuses("name = \"io0\"", "", "13: the key name is missing in [[iod]]; add it");
    refuses("version = 1", "", "1: the key version is missing; write version = 1 at the head");
    refuses(
        "[filesystem]\nname = \"scratch\"\nid = 1",
        "",
        "1: there is no [filesystem]; write one with a name and an id",
    );
    refuses("id = 1", "id = 1\nid = 2", "5: duplicate key");
}

#[test]
fn tables() {
    refuses(
        "[filesystem]",
        "[[filesystem]]",
        "2: filesystem is written once; write [filesystem] in single brackets",
    );
    refuses(
        "[security]",
        "[[security]]",
        "5: security is written once; write [security] in single brackets",
    );
    refuses(
        "[[manager]]",
        "[manager]",
        "9: manager may be repeated; write [[manager]] in double brackets",
    );
    refuses(
        "[security]\nmode = \"psk\"",
        "[agent.x]",
        "5: unknown key x in [agent.x]; write one of socket, uids",
    );
}

#[test]
fn types() {
    refuses(
        "id = 1",
        "id = \"1\"",
        "4: found string \"1\"; write a whole number from 0 to 4294967295",
    );
    refuses(
        "id = 1",
        "id = -1",
        "4: found integer `-1`; write a whole number from 0 to 4294967295",
    );
    refuses("mode = \"psk\"", "mode = 5", "6: found integer `5`; write it in double quotes");
    refuses(
        "mode = \"psk\"",
        "root_squash = \"no\"",
        "6: found string \"no\"; write true or false",
    );
    refuses(
        "uids = [\"1000\"]",
        "uids = \"1000\"",
        "22: found string \"1000\"; write a list, as in [\"...\"]",
    );
    refuses(
        "listen = [\"tcp://node0:7000\"]",
        "listen = \"tcp://node0:7000\"",
        "11: found string \"tcp://node0:7000\"; write a list, as in [\"...\"]",
    );
    refuses(
        "ssize = \"64K\"",
        "ssize = true",
        "8: found boolean `true`; write a size such as \"64K\"",
    );
    refuses(
        "ssize = \"64K\"",
        "lease_s = true",
        "8: found boolean `true`; write a time such as 30 or \"500ms\"",
    );
}

#[test]
fn values() {
    refuses(
        "version = 1",
        "version = 2",
        "1: version 2 is unknown here; write version = 1 or update pvfs",
    );
    refuses(
        "id = 1",
        "id = 0",
        "4: id = 0 means no file system; write a number from 1 to 4294967295",
    );
    refuses("id = 1", "id = 1\nuuid = \"1\"", "5: \"1\" is not a uuid; write what uuidgen prints");
    for prefix in ["pvfs", "/", "/a/../b", ""] {
        let sentence = "cannot be the prefix; write an absolute path such as \"/pvfs\"";
        let line = format!("id = 1\nprefix = \"{prefix}\"");
        refuses("id = 1", &line, &format!("5: \"{prefix}\" {sentence}"));
    }
    refuses(
        "\"scratch\"",
        "\"my files\"",
        "3: \"my files\" is not a name; use up to 64 letters, digits, dots, dashes and underscores, a letter or digit first",
    );
    refuses(
        "\"64K\"",
        "\"64KB\"",
        "8: the unit of \"64KB\" is ambiguous; sizes are binary, write K, M, G or T (64K is 65536 bytes)",
    );
    refuses("\"64K\"", "0", "8: ssize = 0 holds no byte; write a size such as \"64K\"");
    refuses(
        "\"64K\"",
        "\"4194304T\"",
        "8: a stripe of 2 strips of 4194304T is longer than a file can be; write a smaller ssize",
    );
    refuses(
        "ssize = \"64K\"",
        "pcount = 3",
        "8: 3 does not fit this cluster; write 1 to 2, or -1 to leave the choice to pvfs",
    );
    refuses(
        "ssize = \"64K\"",
        "pcount = 0",
        "8: 0 does not fit this cluster; write 1 to 2, or -1 to leave the choice to pvfs",
    );
    refuses(
        "ssize = \"64K\"",
        "base = 2",
        "8: 2 does not fit this cluster; write 0 to 1, or -1 to leave the choice to pvfs",
    );
    let distributions =
        "write simple_stripe, basic, two_d:groups=2,factor=256 or varstrip:0=32K,1=64K";
    for (distribution, reason) in [
        ("raid", "unknown distribution `raid`; there are simple_stripe, varstrip, two_d and basic"),
        ("varstrip:0=1,1=1,2=1", "varstrip needs 3 iods, not 2"),
    ] {
        let sentence = format!("8: {reason}; {distributions}");
        refuses("ssize = \"64K\"", &format!("distribution = \"{distribution}\""), &sentence);
    }
    refuses(
        "ssize = \"64K\"",
        "distribution = \"simple_stripe:ssize=1M\"",
        "8: the distribution names a strip size; write it once, in the key ssize",
    );
    refuses(
        "ssize = \"64K\"",
        "durability = \"none\"",
        "8: \"none\" is not a durability; write local or strict",
    );
    refuses("ssize = \"64K\"", "lease_s = 0", "8: 0ms is out of range; write 100ms to 1h");
    refuses(
        "ssize = \"64K\"",
        "lease_s = -3",
        "8: \"-3\" is not a time; write a number with ms, s, m, h or d, such as 30s",
    );
    refuses(
        "ssize = \"64K\"",
        "data_deadline_s = \"2h\"",
        "8: 2h is out of range; write 100ms to 1h",
    );
    refuses(
        "[agent]",
        "[log]\nlevel = \"loud\"\n[agent]",
        "22: \"loud\" is not a log level; write error or warn or info or debug or trace",
    );
    refuses(
        "\"1000\"",
        "\"all\"",
        "22: \"all\" is not a range of user ids; write FIRST-LAST such as \"1000-60000\", or one id",
    );
    refuses(
        "[agent]",
        &format!("[agent]\nsocket = \"{}\"", "x".repeat(100)),
        &format!(
            "22: the socket path /etc/pvfs/{} is longer than 107 bytes; choose a shorter directory",
            "x".repeat(100)
        ),
    );
}

#[test]
fn security() {
    refuses("\"psk\"", "\"ssh\"", "6: \"ssh\" is not a security mode; write none or psk or tls");
    refuses(
        "\"psk\"",
        "\"none\"",
        "11: mode = \"none\" trusts everybody who can reach tcp://node0:7000; write mode = \"psk\" or \"tls\", or addresses of this machine only",
    );
    refuses(
        "mode = \"psk\"",
        "networks = [\"ten\"]",
        "6: \"ten\" is not a network; write ADDRESS/BITS, such as \"10.0.0.0/8\"",
    );
    refuses("mode = \"psk\"", "session_hours = 0", "6: 0ms is out of range; write 1m to 30d");
    refuses(
        "mode = \"psk\"",
        "capability_minutes = 721",
        "6: 721m is out of range; write 1s to 12h",
    );
}

#[test]
fn daemons() {
    let iods = &GOOD[GOOD.find("[[iod]]").unwrap()..GOOD.find("[agent]").unwrap()];
    refuses(iods, "", "14: there is no I/O daemon; add at least one [[iod]]");
    let manager = &GOOD[GOOD.find("[[manager]]").unwrap()..GOOD.find("[[iod]]").unwrap()];
    refuses(manager, "", "18: there is no manager; add one [[manager]]");
    let second = manager.replace("mgr0", "mgr1").replace("node0", "node9");
    refuses(
        manager,
        &format!("{manager}{second}"),
        "14: several managers are not built yet; keep one [[manager]]",
    );
    refuses("\"io1\"", "\"io0\"", "18: the name io0 is used twice; give each daemon its own");
    refuses("\"io1\"", "\"mgr0\"", "18: the name mgr0 is used twice; give each daemon its own");
    refuses(
        "node2:7000",
        "node1:7000",
        "19: the address tcp://node1:7000 is used twice; give each daemon its own",
    );
    refuses(
        "store = \"io1\"",
        "store = \"/etc/pvfs/io0\"",
        "20: the store /etc/pvfs/io0 is used twice; give each daemon its own",
    );
    refuses("store = \"io1\"", "store = \"\"", "20: io1 has an empty store; name a directory");
    refuses(
        "[\"tcp://node1:7000\"]",
        "[]",
        "15: io0 listens nowhere; write listen = [\"tcp://HOST:PORT\"]",
    );
    refuses(
        "tcp://node1:7000",
        "node1:7000",
        "15: \"node1:7000\" is not an address; write tcp://HOST:PORT or unix:///PATH",
    );
    refuses(
        "node1:7000",
        "node1:0",
        "15: port 0 is no address to connect to; write the port clients will use",
    );
    refuses(
        "node1:7000",
        "0.0.0.0:7000",
        "15: 0.0.0.0 is no address to connect to; write the name or address clients reach this host by",
    );
    refuses(
        "node1:7000",
        "[::]:7000",
        "15: :: is no address to connect to; write the name or address clients reach this host by",
    );
}

#[test]
fn text_that_is_no_toml() {
    for text in
        ["", "version", "version = 1\n[filesystem", "\u{0}", "version = = 1", "[[", "a.b.c=[[["]
    {
        let said = said(text);
        assert!(said.starts_with("/etc/pvfs/cluster.toml:") && !said.contains('\n'), "{said}");
    }
}

#[test]
fn names_that_are_not_there_are_answered_with_those_that_are() {
    let cluster = Cluster::parse(GOOD, Path::new("c.toml")).unwrap();
    assert_eq!(cluster.iod("io1").unwrap().0, 1);
    assert_eq!(
        cluster.iod("io9").unwrap_err().to_string(),
        "there is no [[iod]] named \"io9\" in c.toml; its names are io0, io1"
    );
    assert_eq!(
        cluster.manager("io0").unwrap_err().to_string(),
        "there is no [[manager]] named \"io0\" in c.toml; its names are mgr0"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let said = Cluster::load(Path::new("/nowhere/cluster.toml")).unwrap_err().to_string();
    assert!(said.starts_with("cannot read the configuration /nowhere/cluster.toml: "), "{said}");
}
