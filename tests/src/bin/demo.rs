//! The demo; `cargo xtask demo` builds what it shows and starts it.

use std::process::ExitCode;

use clap::Parser;
use informant_tests::demo::{self, Args};

#[tokio::main]
async fn main() -> ExitCode {
    demo::run(&Args::parse()).await
}
