//! [`Layout`]: into how many shards the work of a group is divided.

use std::fmt;

use informant_cache::Division;

/// The highest generation that is believed: a billion. Somebody may write any number into a Lease; there is always a
/// next one.
const GENERATION_MAX: u32 = 1_000_000_000;

/// The division that a group works by. Each change has the next generation, so that what somebody has seen of an
/// earlier one is never taken for the present one, although both divide alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Zero: the Lease lacks a layout, as that of a group that has never had several shards.
    pub generation: u32,
    pub division: Division,
}

impl Layout {
    /// The work is not divided, and the Lease says nothing about it.
    pub const WHOLE: Layout = Layout {
        generation: 0,
        division: Division::WHOLE,
    };

    /// The layout of a group that begins, with a first member that is configured for `division`.
    #[must_use]
    pub fn first(division: Division) -> Layout {
        match division == Division::WHOLE {
            true => Layout::WHOLE,
            false => Layout {
                generation: 1,
                division,
            },
        }
    }

    /// The one that follows.
    #[must_use]
    pub fn next(self, division: Division) -> Layout {
        Layout {
            generation: self.generation.saturating_add(1),
            division,
        }
    }

    /// The layout of a text as [`Display`](fmt::Display) writes it; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Layout> {
        let (generation, division) = text.split_once(':')?;
        let generation = generation.parse().ok();
        Some(Layout {
            generation: generation.filter(|generation| (1..=GENERATION_MAX).contains(generation))?,
            division: Division::parse(division)?,
        })
    }

    /// Whether the Lease of `shard` is one of its own. That of a layout with more shards stays when there are fewer.
    #[must_use]
    pub fn has(self, shard: u8) -> bool {
        shard < self.division.shards
    }
}

/// `GENERATION:DIVISION`
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation, self.division)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_return_and_others_are_refused() {
        for text in ["1:1", "3:8-raw", "1000000000:64"] {
            assert_eq!(
                Layout::parse(text).map(|layout| layout.to_string()).as_deref(),
                Some(text)
            );
        }
        for text in [
            "",
            "8",
            "0:8",
            "1:0",
            "1:65",
            "1:8-",
            "1:8-mixed",
            "-1:8",
            "1000000001:8",
            "1:8:8",
            "1:256",
        ] {
            assert_eq!(Layout::parse(text), None, "{text}");
        }
    }
}
