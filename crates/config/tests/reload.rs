//! What SIGHUP may change, what waits for a restart, and what is refused.

use pvfs_config::{Cluster, Effect, Recipe, Reload};
use std::path::Path;

fn cluster(change: impl Fn(String) -> String) -> Cluster {
    let path = Path::new("/etc/pvfs/cluster.toml");
    let text = Recipe::default().cluster(path).unwrap().to_toml();
    let changed = change(text.clone());
    Cluster::parse(&changed, path).unwrap_or_else(|error| panic!("{error}\n{changed}"))
}

fn reload(from: &str, to: &str) -> Vec<(String, Effect)> {
    let old = cluster(|text| text);
    let new = cluster(|text| {
        assert!(text.contains(from), "{from} is not in\n{text}");
        text.replacen(from, to, 1)
    });
    let reload = Reload::between(&old, &new);
    reload.changes.into_iter().map(|change| (change.key, change.effect)).collect()
}

#[test]
fn an_unchanged_file_changes_nothing() {
    let (old, new) = (cluster(|text| text), cluster(|text| text + "# a comment\n"));
    let reload = Reload::between(&old, &new);
    assert_eq!(reload.effect(), None);
    assert_eq!(reload.apply(&old, &new), old);
}

#[test]
fn each_change_has_its_effect() {
    use Effect::{Live, Refused, Restart};
    for (from, to, key, effect) in [
        ("ssize = \"64K\"", "ssize = \"1M\"", "defaults.ssize", Live),
        ("pcount = -1", "pcount = 2", "defaults.pcount", Live),
        ("base = -1", "base = 2", "defaults.base", Live),
        ("\"simple_stripe\"", "\"basic\"", "defaults.distribution", Live),
        ("durability = \"local\"", "durability = \"strict\"", "defaults.durability", Live),
        ("commit_interval_s = 5", "commit_interval_s = 6", "defaults.commit_interval_s", Live),
        ("data_deadline_s = 30", "data_deadline_s = 60", "defaults.data_deadline_s", Live),
        (
            "metadata_deadline_s = 10",
            "metadata_deadline_s = 12",
            "defaults.metadata_deadline_s",
            Live,
        ),
        ("status_deadline_s = 3", "status_deadline_s = 2", "defaults.status_deadline_s", Live),
        ("lease_s = 30", "lease_s = 10", "defaults.lease_s", Live),
        ("checksums = true", "checksums = false", "defaults.checksums", Live),
        ("level = \"info\"", "level = \"debug\"", "log.level", Live),
        ("root_squash = false", "root_squash = true", "security.root_squash", Live),
        ("networks = []", "networks = [\"10.0.0.0/8\"]", "security.networks", Live),
        ("session_hours = 12", "session_hours = 1", "security.session_hours", Live),
        ("capability_minutes = 10", "capability_minutes = 5", "security.capability_minutes", Live),
        ("1000-60000", "1000-2000", "agent.uids", Live),
        ("agent.sock", "other.sock", "agent.socket", Restart),
        ("\"psk\"", "\"none\"", "security.mode", Restart),
        ("cluster.key", "new.key", "security.key_file", Restart),
        ("\"psk\"", "\"tls\"", "security.mode", Restart),
        ("cluster.ca.pem", "new.pem", "security.ca_file", Restart),
        ("node.pem", "new.pem", "security.certificate_file", Restart),
        ("node.key", "new.key", "security.certificate_key_file", Restart),
        ("user.pem", "new.pem", "security.user_certificate_file", Restart),
        ("user.key", "new.key", "security.user_certificate_key_file", Restart),
        ("name = \"pvfs\"", "name = \"other\"", "filesystem.name", Restart),
        ("localhost:7003", "localhost:8003", "iod[2].listen", Restart),
        ("/io2\"", "/moved\"", "iod[2].store", Restart),
        ("localhost:7000", "localhost:8000", "manager[0].listen", Restart),
        ("id = 1", "id = 1\nprefix = \"/scratch\"", "filesystem.prefix", Live),
        ("id = 1", "id = 2", "filesystem.id", Refused),
        ("\"io2\"", "\"io9\"", "iod[2].name", Refused),
        ("\"mgr0\"", "\"mgr9\"", "manager[0].name", Refused),
    ] {
        assert_eq!(reload(from, to), [(key.to_owned(), effect)], "{from} -> {to}");
    }
}

#[test]
fn appended_iods_wait_for_a_restart_and_defaults_wait_with_them() {
    let old = cluster(|text| text);
    let new = cluster(|text| {
        text.replace("pcount = -1", "pcount = 5")
            + "[[iod]]\nname = \"io4\"\nlisten = [\"tcp://n5:7001\"]\nstore = \"io4\"\n"
    });
    let reload = Reload::between(&old, &new);
    let keys: Vec<&str> = reload.changes.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(keys, ["defaults.pcount", "iod[4]"]);
    assert_eq!(reload.effect(), Some(Effect::Restart));
    assert_eq!(reload.apply(&old, &new), old, "a pcount of 5 would not fit four iods");
    assert_ne!(old.map_version(), new.map_version());
}

#[test]
fn removed_and_swapped_iods_are_refused_and_nothing_else_is_taken() {
    let old = cluster(|text| text);
    let new = cluster(|text| {
        let iod = text.find("[[iod]]\nname = \"io3\"").unwrap();
        let agent = text.find("[agent]").unwrap();
        format!("{}{}", &text[..iod], &text[agent..]).replace("\"info\"", "\"debug\"")
    });
    let reload = Reload::between(&old, &new);
    assert_eq!(reload.effect(), Some(Effect::Refused));
    assert_eq!(reload.apply(&old, &new), old);
    let said = reload.changes.last().unwrap().to_string();
    assert_eq!(said, "iod[3] must not change: files lie there; restore the entry");
}

#[test]
fn live_changes_apply_while_others_wait() {
    let old = cluster(|text| text);
    let new = cluster(|text| {
        text.replace("lease_s = 30", "lease_s = 10").replace("localhost:7002", "localhost:9002")
    });
    let applied = Reload::between(&old, &new).apply(&old, &new);
    assert_eq!(applied.defaults, new.defaults);
    assert_eq!(applied.iods, old.iods);
    // What still differs is just what waits for the restart.
    let rest = Reload::between(&applied, &new);
    assert!(rest.changes.iter().all(|change| change.effect == Effect::Restart));
}

#[test]
fn the_map_version_follows_iods_their_order_and_addresses_and_nothing_else() {
    let version = |from: &str, to: &str| cluster(|text| text.replace(from, to)).map_version();
    let base = version("", "");
    assert_eq!(base, 0x4cf0_a7fa, "nodes of different releases must agree");
    for (from, to) in [("localhost:7001", "n1:7001"), ("\"io1\"", "\"io9\""), ("7001", "9001")] {
        assert_ne!(version(from, to), base, "{from}");
    }
    for (from, to) in [("64K", "1M"), ("localhost:7000", "n0:7000"), ("/var/lib", "/srv")] {
        assert_eq!(version(from, to), base, "{from}");
    }
}

#[test]
fn swapping_two_iods_changes_the_map_version() {
    let old = cluster(|text| text);
    let new = cluster(|text| {
        let mut tables: Vec<&str> = text.split("\n[[iod]]").collect();
        tables.swap(1, 2);
        tables.join("\n[[iod]]")
    });
    assert_eq!(new.iod("io0").unwrap().0, 1);
    assert_ne!(old.map_version(), new.map_version());
    assert_eq!(Reload::between(&old, &new).effect(), Some(Effect::Refused));
}

#[test]
fn a_mount_believes_what_it_caches_for_half_of_what_others_wait_at_most() {
    let lease = |deadline: &str| {
        let deadline = format!("metadata_deadline_s = {deadline}");
        let cluster = cluster(|text| text.replace("metadata_deadline_s = 10", &deadline));
        cluster.defaults.cache_lease.as_millis()
    };
    assert_eq!((lease("10"), lease("60"), lease("3")), (5000, 5000, 1500));
}
