//! The kernel mount.
