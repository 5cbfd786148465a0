//! The browser that tests of the dashboard open: Chromium and its driver, as Debian has them.

use std::process::Command;

use anyhow::Result;

use crate::cargo;

/// The packages of Debian and of what is derived from it, with a font.
const PACKAGES: [&str; 3] = ["chromium", "chromium-driver", "fonts-dejavu-core"];

/// Why the dashboard cannot be tested, if the browser is missing. In CI it is installed.
pub(crate) fn missing() -> Option<&'static str> {
    (!is_there() && !can_install())
        .then_some("chromedriver is not installed (apt-get install chromium chromium-driver)")
}

pub(crate) fn is_there() -> bool {
    cargo::is_there("chromedriver", "--version") && cargo::is_there("chromium", "--version")
}

/// A developer's machine is left as it is.
fn can_install() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true") && cargo::is_there("apt-get", "--version")
}

pub(crate) fn install_if_missing() -> Result<()> {
    if is_there() {
        return Ok(());
    }
    apt_get(&["update"])?;
    apt_get(&[&["install", "--yes", "--no-install-recommends"], &PACKAGES[..]].concat())
}

fn apt_get(args: &[&str]) -> Result<()> {
    // As root in a container; otherwise as a user who may become root without a password.
    let mut command = match cargo::is_there("sudo", "--version") {
        true => Command::new("sudo"),
        false => Command::new("env"),
    };
    command.args([
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "--quiet",
        "--option",
        "Acquire::Retries=3",
    ]);
    cargo::run(command.args(args))
}
