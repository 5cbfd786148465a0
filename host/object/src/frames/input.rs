//! The received, unconsumed bytes of a list, with as little copying as possible.
//!
//! Most of a frame is read in place. Only an item that spans frames is joined, in a separate buffer.

use bytes::Bytes;

use super::empty;

/// The available text, from the position on.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// The rest of earlier frames, and what follows it in the newest one. Precedes `frame`.
    carry: Vec<u8>,
    /// How much of `carry` is consumed. When all of it is, `carry` is emptied.
    carry_at: usize,
    frame: Bytes,
    /// How much of `frame` is consumed or copied to `carry`.
    frame_at: usize,
    /// Number of consumed bytes.
    passed: usize,
}

impl Input {
    /// The available contiguous text.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        if self.carry.is_empty() {
            &self.frame[self.frame_at..]
        } else {
            &self.carry[self.carry_at..]
        }
    }

    /// Offset of the position in everything received.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Number of unconsumed bytes.
    pub(super) fn waiting(&self) -> usize {
        self.carry.len() - self.carry_at + self.frame.len() - self.frame_at
    }

    /// Consumes `bytes` of [`rest`](Self::rest).
    #[inline]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.passed += bytes;
        if self.carry.is_empty() {
            self.frame_at += bytes;
            return;
        }
        self.carry_at += bytes;
        if self.carry_at == self.carry.len() {
            empty(&mut self.carry);
            self.carry_at = 0;
        }
    }

    /// Adds the next frame. If bytes are unconsumed, `joined` bytes of the frame belong to them: until those are
    /// consumed, the rest of the frame is not shown.
    pub(super) fn push(&mut self, frame: Bytes, joined: usize) {
        if self.waiting() > 0 {
            self.carry.drain(..self.carry_at);
            self.carry_at = 0;
            self.carry.extend_from_slice(&self.frame[self.frame_at..]);
            self.carry.extend_from_slice(&frame[..joined]);
            self.frame_at = joined;
        } else {
            self.frame_at = 0;
        }
        self.frame = frame;
    }
}
