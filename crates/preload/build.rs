//! The library comes first: what other libraries do when they begin is to find it at work, as the streams of C++ that
//! are tied to standard output.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rerun-if-changed=build.rs");
}
