//! A whole cluster inside one test: seeded network, disks and crashes.
