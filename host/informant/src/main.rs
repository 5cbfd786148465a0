//! The `informant` program: parses and runs its command line. Everything else is in the library.

use std::process::ExitCode;

use informant::Cli;

// The store consists of millions of small, long-lived blocks while whole lists are allocated and freed: glibc's
// allocator fragments with that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse_and_run()
}
