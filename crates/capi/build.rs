//! The shared library says which programs it is for, and stays once it is loaded: a process's handlers of fork and
//! exit are in it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpvfs.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
