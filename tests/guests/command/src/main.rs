//! Test guest: a program (a component that exports `wasi:cli/run`), which is no plugin.

#[expect(clippy::print_stdout, reason = "it is what such programs do")]
fn main() {
    println!("I am a program, not a plugin.");
}
