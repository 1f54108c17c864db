//! The I/O daemon: objects on a local file system.
