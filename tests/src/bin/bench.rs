//! The benchmark; `cargo xtask bench` builds what it measures and starts it.

use std::process::ExitCode;

use clap::Parser;
use informant_tests::bench::{self, Args};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    bench::run(&Args::parse()).await
}
