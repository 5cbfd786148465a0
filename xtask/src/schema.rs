//! Checks the generated file in git whose generator needs the network: the layout of Kubernetes' protocol buffers.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Generates `schema.txt` again and compares it with the one in git.
///
/// # Errors
/// If they differ, or the generator cannot be run.
pub(crate) fn check() -> Result<()> {
    let root = workspace::root()?;
    let folder = root.join("host/apiserver/src/protobuf");
    let mut generator = Command::new("go");
    // The modules there select the version of k8s.io/api, and are checked against go.sum.
    generator.current_dir(root.join("tests")).env("GOTOOLCHAIN", "local");
    generator.args(["run", "-mod=readonly"]).arg(folder.join("generate.go"));
    let output = generator.output().context("failed to start go")?;
    ensure!(
        output.status.success(),
        "generate.go failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file = folder.join("schema.txt");
    let present = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
    ensure!(
        present == output.stdout,
        "{} differs from what generate.go writes; its first lines say how to write it again",
        file.display()
    );
    Ok(())
}
