//! The kept corpus.
