//! The one TOML file that describes a cluster.
