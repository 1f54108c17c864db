//! Project chores. The tidy rules are tests: `cargo test -p xtask`.

fn main() {
    println!("the tidy rules are tests: run `cargo test -p xtask`");
}
