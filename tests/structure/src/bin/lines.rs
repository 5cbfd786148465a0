//! Prints how many lines of Rust each host crate consists of, without tests.

use std::io::Write as _;

use informant_structure::{lines, sources};

fn main() -> anyhow::Result<()> {
    let crates = sources::host_crates(&sources::repository())?;
    std::io::stdout().write_all(lines::table(&crates).as_bytes())?;
    Ok(())
}
