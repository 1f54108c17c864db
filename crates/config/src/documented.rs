//! Tests that hold docs/configuration.md and the types of the file together.

use crate::cluster::{Cluster, Durability, LogLevel, SecurityMode};
use crate::file::{
    AgentTable, ClusterFile, DefaultsTable, FilesystemTable, LogTable, SecurityTable, ServerTable,
};
use serde::de::value::Error as NoValue;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../docs/configuration.md");

/// A deserializer that has no value to give and only listens to which keys a type asks for.
struct Keys<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for Keys<'_> {
    type Error = NoValue;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, NoValue> {
        self.0.extend(fields);
        Err(NoValue::custom("listening only"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, NoValue> {
        Err(NoValue::custom("not a structure"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn keys<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
    let mut keys = Vec::new();
    let _ = T::deserialize(Keys(&mut keys));
    assert!(!keys.is_empty());
    keys
}

/// The text below a heading, up to the next one.
fn section(heading: &str) -> &'static str {
    let start = DOCUMENT.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    let text = &DOCUMENT[start + 4..];
    &text[..text.find("\n## ").unwrap_or(text.len())]
}

#[test]
fn every_key_has_its_row_in_its_section() {
    for (heading, keys) in [
        ("`[filesystem]`", keys::<FilesystemTable>()),
        ("`[security]`", keys::<SecurityTable>()),
        ("`[defaults]`", keys::<DefaultsTable>()),
        ("`[log]`", keys::<LogTable>()),
        ("`[[manager]]`", keys::<ServerTable>()),
        ("`[agent]`", keys::<AgentTable>()),
    ] {
        let rows = section(heading).lines().filter(|line| line.starts_with("| `"));
        let documented: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
        assert_eq!(documented, keys, "{heading}");
    }
}

#[test]
fn every_table_has_its_section() {
    for table in keys::<ClusterFile>().into_iter().filter(|key| *key != "version") {
        let headings = [format!("\n## `[{table}]`\n"), format!("\n## `[[{table}]]`\n")];
        assert!(headings.iter().any(|heading| DOCUMENT.contains(heading)), "{table}");
    }
    assert!(section("The head").contains("| `version` |"));
}

#[test]
fn every_word_a_key_takes_is_documented() {
    let words = [SecurityMode::ALL.iter().map(ToString::to_string).collect::<Vec<_>>()]
        .into_iter()
        .chain([["simple_stripe", "basic"].map(ToString::to_string).to_vec()])
        .chain([Durability::ALL.iter().map(ToString::to_string).collect()])
        .chain([LogLevel::ALL.iter().map(ToString::to_string).collect()]);
    for word in words.flatten() {
        assert!(DOCUMENT.contains(&format!("`\"{word}\"`")), "{word}");
    }
}

fn examples() -> Vec<&'static str> {
    let blocks = DOCUMENT.split("```toml\n").skip(1);
    blocks.map(|block| &block[..block.find("```").unwrap()]).collect()
}

fn parse(text: &str) -> Cluster {
    let cluster = Cluster::parse(text, Path::new("/etc/pvfs/cluster.toml"));
    cluster.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The least that must be there.
const LEAST: &str = "version = 1\nfilesystem = { name = \"f\", id = 1 }\n\
     manager = [{ name = \"m\", listen = [\"tcp://n0:1\"], store = \"m\" }]\n\
     iod = [{ name = \"i\", listen = [\"tcp://n1:1\"], store = \"i\" }]\n";

#[test]
fn every_example_parses() {
    let examples = examples();
    assert!(examples.len() >= 3);
    for text in examples {
        match text.starts_with("version") {
            true => parse(text),
            false => parse(&format!("{LEAST}{text}")),
        };
    }
}

#[test]
fn the_whole_example_states_the_defaults() {
    let (whole, least) = (parse(examples()[0]), parse(LEAST));
    assert_eq!(whole.defaults, least.defaults);
    assert_eq!(whole.agent, least.agent);
    assert_eq!(whole.log_level, least.log_level);
    let mut security = whole.security;
    security.networks.clear();
    assert_eq!(security, least.security);
}

#[test]
fn the_whole_example_leaves_no_key_out() {
    let tables = [
        keys::<FilesystemTable>(),
        keys::<SecurityTable>(),
        keys::<DefaultsTable>(),
        keys::<LogTable>(),
        keys::<ServerTable>(),
        keys::<AgentTable>(),
    ];
    for key in tables.concat() {
        assert!(examples()[0].contains(&format!("\n{key} = ")), "{key}");
    }
}

#[test]
fn what_is_written_reads_back_the_same() {
    for text in examples().into_iter().filter(|text| text.starts_with("version")) {
        let cluster = parse(text);
        let written = cluster.to_toml();
        assert_eq!(parse(&written), cluster, "{written}");
        assert_eq!(parse(&written).to_toml(), written);
    }
}

#[test]
fn every_distribution_survives_being_written() {
    for distribution in ["simple_stripe", "basic", "two_d:groups=1,factor=7", "varstrip:0=3,0=5"] {
        let keys = format!("defaults = {{ ssize = \"1M\", distribution = \"{distribution}\" }}\n");
        let cluster = parse(&format!("{LEAST}{keys}"));
        assert_eq!(parse(&cluster.to_toml()), cluster, "{distribution}");
    }
}

#[test]
fn odd_values_survive_being_written() {
    let odd = "defaults = { lease_s = 0.25, ssize = 4097, base = 0, pcount = 1 }\n\
         security = { session_hours = \"90m\", capability_minutes = 0.5, key_file = \"a 'b\\\".key\" }\n\
         agent = { socket = \"/tmp/\\u00e9 \\\\.sock\", uids = [\"0\", \"5-6\"] }\n";
    let cluster = parse(&format!("{LEAST}{odd}"));
    assert_eq!(parse(&cluster.to_toml()), cluster);
}
