//! Waiting for a condition, with a deadline and a message that names the condition.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition on another process is polled.
const POLL_MS: u64 = 10;

/// Polls `condition` until it yields a value.
///
/// # Errors
/// After `deadline`, with `what` and the last reason that `condition` gave.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        let refusal = match condition().await {
            Ok(value) => return Ok(value),
            Err(refusal) => refusal,
        };
        if begin.elapsed() > deadline {
            bail!("waited {deadline:?} for {what}; last result: {refusal}");
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
}
