//! Reads a text that somebody may be writing.
//!
//! Notifications tell that a file changes, not that it is whole: an editor that writes in place is seen half way, and
//! half a configuration may well parse, with half of its sections. So what is new is believed once it reads the same
//! twice, [`SETTLE`] apart.

use std::future::Future;

use informant_cache::Environment;

use super::file_watch::SETTLE;
use crate::config::{ReadError, SourceFile, TextHash};

/// How often a file is read for a text that rests. One that never does is left, and looked at again at the next tick.
pub(super) const READS_MAX: u32 = 50;

/// A file as it was read once.
pub(super) type Read = Result<SourceFile, ReadError>;

/// What reading came to.
#[derive(Debug)]
pub(super) enum AtRest {
    /// The text that is known already, or one that was read twice.
    Text(TextHash, Read),
    /// Each of [`READS_MAX`] times another text.
    Never,
}

/// Reads until the text is `known` or the one before.
pub(super) async fn read_at_rest<F: Future<Output = Read>>(
    environment: &dyn Environment,
    known: TextHash,
    mut read: impl FnMut() -> F,
) -> AtRest {
    let mut before = None;
    for _ in 0..READS_MAX {
        let text = read().await;
        let now = hash(&text);
        if now == known || before.replace(now) == Some(now) {
            return AtRest::Text(now, text);
        }
        environment.sleep(SETTLE).await;
    }
    AtRest::Never
}

/// Tells texts, and what keeps a file from having one, from others.
fn hash(read: &Read) -> TextHash {
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

    /// What a file holds, read by read; the last one stays.
    async fn reading(known: &str, texts: &[&str]) -> (AtRest, u32) {
        let mut reads = 0;
        let environment = TokioEnvironment::current(1);
        let at_rest = read_at_rest(&environment, TextHash::of(known), || {
            let text = texts[(reads as usize).min(texts.len() - 1)];
            reads += 1;
            std::future::ready(match text {
                "gone" => Err(ReadError::Io(std::io::ErrorKind::NotFound.into())),
                text => Ok(SourceFile::new("config.toml", text)),
            })
        });
        let at_rest = at_rest.await;
        (at_rest, reads)
    }

    fn text(at_rest: &AtRest) -> &str {
        match at_rest {
            AtRest::Text(_, Ok(file)) => file.text(),
            AtRest::Text(_, Err(_)) => "gone",
            AtRest::Never => "never",
        }
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_text_is_not_believed() {
        let (at_rest, reads) = reading("[a]", &["[a]\n[b", "[a]\n[b]"]).await;
        assert_eq!((text(&at_rest), reads), ("[a]\n[b]", 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_emptied_and_written_is_not_empty() {
        let (at_rest, _) = reading("[a]", &["", "gone", "[a]\n[b]"]).await;
        assert_eq!(text(&at_rest), "[a]\n[b]");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_is_read_once() {
        let begun = Instant::now();
        let (at_rest, reads) = reading("[a]", &["[a]"]).await;
        assert_eq!((text(&at_rest), reads), ("[a]", 1));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_stays_away_is_away() {
        assert_eq!(text(&reading("[a]", &["gone"]).await.0), "gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_that_never_rests_is_left_after_so_many_reads() {
        let texts: Vec<_> = (0..READS_MAX + 1).map(|edit| format!("# {edit}")).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let (at_rest, reads) = reading("[a]", &texts).await;
        assert_eq!((text(&at_rest), reads), ("never", READS_MAX));
    }
}
