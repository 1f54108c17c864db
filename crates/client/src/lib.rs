//! The client library: operations as straight-line code over any transport.
