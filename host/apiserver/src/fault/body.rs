//! Response bodies disturbed by faults and restarts: split, cut off, reset.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::body::{Body, BodyError, Frames};

/// A body as it arrives through a bad network.
pub(crate) struct FaultyBody {
    frames: Frames,
    /// Pieces of a frame that are still to be sent.
    pieces: VecDeque<Bytes>,
    split_bytes: usize,
    /// How many bytes may still pass before the reset.
    bytes_left: Option<usize>,
    restart: CancellationToken,
    broken: bool,
}

impl FaultyBody {
    /// Splits `body` into frames of `split_bytes`, and resets it after `cut_bytes` or when `restart` is canceled.
    pub(crate) fn body(
        body: Body,
        split_bytes: Option<usize>,
        cut_bytes: Option<usize>,
        restart: CancellationToken,
    ) -> Body {
        let faulty = Self {
            frames: body.into_frames(),
            pieces: VecDeque::new(),
            split_bytes: split_bytes.unwrap_or(usize::MAX),
            bytes_left: cut_bytes,
            restart,
            broken: false,
        };
        Body::frames(futures::stream::unfold(faulty, |mut faulty| async move {
            let frame = faulty.next().await?;
            Some((frame, faulty))
        }))
    }

    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        if self.broken {
            return None;
        }
        if self.bytes_left == Some(0) || self.restart.is_cancelled() {
            return Some(self.reset().await);
        }
        if self.pieces.is_empty() {
            match self.frames.next().await? {
                Ok(frame) => self.slice(frame),
                Err(BodyError) => return Some(self.reset().await),
            }
        }
        let mut piece = self.pieces.pop_front().unwrap_or_default();
        if let Some(left) = &mut self.bytes_left {
            piece.truncate(*left);
            *left -= piece.len();
        }
        Some(Ok(piece))
    }

    fn slice(&mut self, mut frame: Bytes) {
        while frame.len() > self.split_bytes {
            self.pieces.push_back(frame.split_to(self.split_bytes));
        }
        self.pieces.push_back(frame);
    }

    async fn reset(&mut self) -> Result<Bytes, BodyError> {
        self.broken = true;
        // Lets a listener flush what came before: hyper drops unsent bytes on an error.
        tokio::task::yield_now().await;
        Err(BodyError)
    }
}
