//! The `informant` program: reads its command line and does what it says. Everything is in the library.

use std::process::ExitCode;

use clap::Parser;
use informant::cli::Cli;

// The store is millions of small blocks that live long, and whole lists come and go: glibc's allocator fragments there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
