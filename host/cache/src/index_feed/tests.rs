//! Tests of the index feed.
