//! [`Kept`]: answers that are kept for a time, in bounded memory.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use informant_cache::Moment;
use sha2::{Digest as _, Sha256};

use super::rights::Right;

/// Stands for a token, which is not kept itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenHash([u8; 32]);

/// Stands for the question whether a token's user has a right: of the same size, however long the names in it are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct QuestionHash([u8; 32]);

impl QuestionHash {
    pub(super) fn of(token: TokenHash, right: &Right) -> Self {
        // `Debug` separates the fields, which `Display` does not.
        let digest = Sha256::new_with_prefix(token.0).chain_update(format!("{right:?}"));
        Self(digest.finalize().into())
    }
}

impl TokenHash {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

/// The newest answers by question. At the limit the oldest is dropped.
pub(super) struct Kept<Q, A> {
    answers: HashMap<Q, (Moment, A)>,
    /// Each answer since it was added, oldest first.
    order: VecDeque<(Moment, Q)>,
    kept: Duration,
    max: usize,
}

impl<Q: Clone + Eq + Hash, A: Clone> Kept<Q, A> {
    pub(super) fn new(kept: Duration, max: usize) -> Self {
        Self {
            answers: HashMap::new(),
            order: VecDeque::new(),
            kept,
            max,
        }
    }

    /// The answer, unless it is too old.
    pub(super) fn get(&self, question: &Q, now: Moment) -> Option<A> {
        let (since, answer) = self.answers.get(question)?;
        (now.since(*since) < self.kept).then(|| answer.clone())
    }

    pub(super) fn insert(&mut self, question: Q, answer: A, now: Moment) {
        self.order.push_back((now, question.clone()));
        self.answers.insert(question, (now, answer));
        while let Some((since, question)) = self.order.front()
            && (self.order.len() > self.max || now.since(*since) >= self.kept)
        {
            // It may have been answered again since.
            if self.answers.get(question).is_some_and(|(newest, _)| newest == since) {
                self.answers.remove(question);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn kept() -> Kept<u32, &'static str> {
        Kept::new(Duration::from_secs(10), 2)
    }

    #[test]
    fn answers_end_after_their_time() {
        let mut kept = kept();
        kept.insert(1, "yes", at(0));
        assert_eq!(kept.get(&1, at(9)), Some("yes"));
        assert_eq!(kept.get(&1, at(10)), None);
        kept.insert(2, "no", at(11));
        assert_eq!((kept.answers.len(), kept.order.len()), (1, 1));
    }

    #[test]
    fn oldest_answer_is_dropped_at_the_limit() {
        let mut kept = kept();
        for question in 1..=3 {
            kept.insert(question, "yes", at(0));
        }
        let found = [1, 2, 3].map(|question| kept.get(&question, at(1)));
        assert_eq!(found, [None, Some("yes"), Some("yes")]);
    }

    #[test]
    fn newer_answer_to_a_question_outlives_the_older() {
        let mut kept = kept();
        kept.insert(1, "yes", at(0));
        kept.insert(1, "no", at(5));
        kept.insert(2, "yes", at(12));
        assert_eq!(kept.get(&1, at(12)), Some("no"));
        assert_eq!(kept.answers.len(), kept.order.len());
    }
}
