//! Which library this is.

#![allow(unsafe_code)]

use std::ffi::c_int;

/// The library's version as major * 10000 + minor * 100 + patch.
#[unsafe(no_mangle)]
pub extern "C" fn pvfs_version() -> c_int {
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
        + number(env!("CARGO_PKG_VERSION_PATCH"))
}

fn number(text: &str) -> c_int {
    text.parse().expect("cargo says numbers")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_header_has_the_version_of_the_library() {
        let header = include_str!("../../include/pvfs.h");
        let of = |name: &str| -> i32 {
            let define = format!("#define PVFS_VERSION_{name} ");
            let rest = &header[header.find(&define).unwrap() + define.len()..];
            rest.lines().next().unwrap().parse().unwrap()
        };
        let version = of("MAJOR") * 10_000 + of("MINOR") * 100 + of("PATCH");
        assert_eq!(version, super::pvfs_version());
    }
}
