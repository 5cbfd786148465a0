//! Test guest: a program (a component that exports `wasi:cli/run`), which is not a plugin.

#[expect(clippy::print_stdout, reason = "such programs print")]
fn main() {
    println!("I am a program, not a plugin.");
}
