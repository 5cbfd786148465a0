//! Reads a file that a writer may be changing at the same time.
//!
//! It is compared by hash, so that touching it is not a change.
//!
//! A notification says that a file changes, not that the write is complete. An editor that writes in place is seen half
//! way, and half a configuration may well parse, with half of its sections. So new text counts only once two reads,
//! [`SETTLE`] apart, return the same text.

use std::future::Future;

use informant_cache::Environment;
use informant_config::{SourceFile, TextHash};

use super::file_watch::SETTLE;
use crate::config_file::ReadError;

/// How many reads wait for a stable text. After that the reader gives up until the next tick.
pub(super) const READS_MAX: u32 = 50;

pub(super) type Read = Result<SourceFile, ReadError>;

#[derive(Debug)]
pub(super) enum StableRead {
    /// The text that is already known, or one that two reads in a row returned.
    Text(TextHash, Read),
    /// Each of [`READS_MAX`] reads returned another text.
    Unstable,
}

/// Reads until the text is `known` or equals the previous read.
pub(super) async fn read_stable<F: Future<Output = Read>>(
    environment: &dyn Environment,
    known: TextHash,
    mut read: impl FnMut() -> F,
) -> StableRead {
    let mut before = None;
    for _ in 0..READS_MAX {
        let text = read().await;
        let now = text_hash(&text);
        if now == known || before.replace(now) == Some(now) {
            return StableRead::Text(now, text);
        }
        environment.sleep(SETTLE).await;
    }
    StableRead::Unstable
}

/// Identifies a text or a read error.
fn text_hash(read: &Read) -> TextHash {
    match read {
        Ok(file) => file.hash(),
        Err(error) => TextHash::of(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use informant_informer::TokioEnvironment;
    use tokio::time::Instant;

    use super::*;

    /// Reads a file that returns `texts` one after the other, and the last one from then on.
    async fn reading(known: &str, texts: &[&str]) -> (StableRead, u32) {
        let mut reads = 0;
        let environment = TokioEnvironment::current(1);
        let stable = read_stable(&environment, TextHash::of(known), || {
            let text = texts[(reads as usize).min(texts.len() - 1)];
            reads += 1;
            std::future::ready(match text {
                "gone" => Err(ReadError::Io(std::io::ErrorKind::NotFound.into())),
                text => Ok(SourceFile::new("config.toml", text)),
            })
        });
        let stable = stable.await;
        (stable, reads)
    }

    fn text(stable: &StableRead) -> &str {
        match stable {
            StableRead::Text(_, Ok(file)) => file.text(),
            StableRead::Text(_, Err(_)) => "gone",
            StableRead::Unstable => "unstable",
        }
    }

    #[tokio::test(start_paused = true)]
    async fn partial_write_is_not_returned() {
        let (stable, reads) = reading("[a]", &["[a]\n[b", "[a]\n[b]"]).await;
        assert_eq!((text(&stable), reads), ("[a]\n[b]", 3));
    }

    #[tokio::test(start_paused = true)]
    async fn file_that_is_truncated_and_rewritten_is_not_empty() {
        let (stable, _) = reading("[a]", &["", "gone", "[a]\n[b]"]).await;
        assert_eq!(text(&stable), "[a]\n[b]");
    }

    #[tokio::test(start_paused = true)]
    async fn known_text_is_read_once() {
        let started = Instant::now();
        let (stable, reads) = reading("[a]", &["[a]"]).await;
        assert_eq!((text(&stable), reads), ("[a]", 1));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn missing_file_is_reported() {
        assert_eq!(text(&reading("[a]", &["gone"]).await.0), "gone");
    }

    #[tokio::test(start_paused = true)]
    async fn unstable_file_is_given_up_after_the_limit() {
        let texts: Vec<_> = (0..READS_MAX + 1).map(|edit| format!("# {edit}")).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let (stable, reads) = reading("[a]", &texts).await;
        assert_eq!((text(&stable), reads), ("unstable", READS_MAX));
    }
}
