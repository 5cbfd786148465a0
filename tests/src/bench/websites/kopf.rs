//! The same work with Kopf (`tests/peers/kopf/website.py`), to compare with.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::process::Command;

use super::{Made, count_writes, create, define, settled, usage_of, wait_until_ready};
use crate::bench::cores::Cores;
use crate::bench::rig::Rig;
use crate::guests;
use crate::process::Process;

/// Measures it with `count` Websites. `packages`: where Kopf is installed.
pub(super) async fn measure(cores: &Cores, count: u32, packages: &Path) -> Result<Made> {
    let rig = Rig::empty(cores, false).await?;
    let client = rig.cluster.client().await?;
    define(&client).await?;
    create(&client, count).await?;
    count_writes(&rig).await?;
    let handler = guests::workspace_folder().join("tests/peers/kopf/website.py");
    let under = cores.subject();
    let mut words = under.iter().map(String::as_str).chain(["python3", "-m", "kopf", "run"]);
    let mut command = Command::new(words.next().context("a program")?);
    command
        .args(words)
        .args(["--standalone", "--namespace", "default", "--quiet"])
        .arg(handler);
    command
        .env("KUBECONFIG", rig.cluster.kubeconfig())
        .env("API_SERVER", format!("http://{}", rig.cluster.address()))
        .env("PYTHONPATH", packages);
    let began = Instant::now();
    let kopf = Process::start_command(command)?;
    let ready = wait_until_ready(&client, count).await;
    ready.with_context(|| kopf.tail())?;
    let took = began.elapsed();
    let writes = settled(&client).await?;
    let usage = usage_of(kopf.id().context("Kopf has ended")?)?;
    Ok(Made { took, writes, usage })
}
