//! Replaces the pictures of the documentation: the terminal of the demo, the dashboard, the chart of the benchmark.
//!
//! The tests that check them make them.

use anyhow::{Result, bail, ensure};

use crate::{browser, cargo, dashboard, demo, npm, report, zig};

/// Makes tests replace pictures that are old.
const REPLACE: (&str, &str) = ("INFORMANT_TESTS_REPLACE_PICTURES", "1");

/// The tests, with the arguments that choose them.
const TESTS: [&[&str]; 2] = [
    &["--lib", "bench::chart"],
    &["--test", "end_to_end", "dashboard::pictures"],
];

/// Builds what the pictures show, and runs the tests.
pub(crate) fn replace() -> Result<()> {
    if let Some(why) = zig::missing().or_else(npm::missing).or_else(browser::missing) {
        bail!("cannot make all pictures: {why}");
    }
    report::step("building the dashboard");
    dashboard::build()?;
    browser::install_if_missing()?;
    demo::build()?;
    report::step("demo");
    let mut command = demo::program()?;
    command.args(["--once", "--check-picture"]).env(REPLACE.0, REPLACE.1);
    ensure!(cargo::status(&mut command)?.success(), "the demo failed");
    for test in TESTS {
        let mut command = cargo::cargo()?;
        command
            .args(["test", "--locked", "--package", "informant-tests"])
            .args(test);
        cargo::run(command.env(REPLACE.0, REPLACE.1))?;
    }
    Ok(())
}
