//! The library comes first: what other libraries do when they begin is to find it at work, as the streams of C++ that
//! are tied to standard output. What it asks of its own functions stays within it: a program or a library that stands in
//! front of them (for the hooks of memory allocation, say) and asks by number again would be asked again.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
