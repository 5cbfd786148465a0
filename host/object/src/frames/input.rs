//! What has arrived of a list and is not used up, without copying what need not be copied.
//!
//! Most of a frame is read where it lies. Only what begins in one frame and ends in a later one is put together, in a
//! buffer of its own.

use bytes::Bytes;

use super::empty;

/// The text that is at hand, from the position on.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// What was left of earlier frames, and what follows it in the newest. Comes before `frame`.
    carry: Vec<u8>,
    /// How much of `carry` is used up. All of it: then it is empty.
    carry_at: usize,
    frame: Bytes,
    /// How much of `frame` is used up, or stands in `carry`.
    frame_at: usize,
    /// How many bytes were used up.
    passed: usize,
}

impl Input {
    /// What is at hand in one piece.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        if self.carry.is_empty() {
            &self.frame[self.frame_at..]
        } else {
            &self.carry[self.carry_at..]
        }
    }

    /// Where in all that ever arrived the position is.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// How many bytes wait.
    pub(super) fn waiting(&self) -> usize {
        self.carry.len() - self.carry_at + self.frame.len() - self.frame_at
    }

    /// Uses up `bytes` of [`rest`](Self::rest).
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

    /// Takes the next frame. If anything waits, `joined` bytes of the frame belong to it: until that is used up, the
    /// remainder of the frame is not shown.
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
