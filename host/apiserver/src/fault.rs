//! Faults as data, so that a simulation's schedule can be recorded and replayed.
//!
//! A fault either applies at once to open connections and watches ([`Fault::DropWatches`], [`Fault::Restart`] …) or is
//! a [`Rule`] for future requests.

mod body;
mod filter;
mod rule;

use serde::{Deserialize, Serialize};

pub(crate) use self::body::FaultyBody;
pub use self::filter::Filter;
pub use self::rule::{Action, Answer, Rule};
pub(crate) use self::rule::{RuleEffects, Rules};

/// A fault to inject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Ends open watches.
    DropWatches {
        #[serde(default)]
        filter: Filter,
        #[serde(default)]
        ending: Ending,
    },
    /// Makes open watches silent; after [`Fault::ThawWatches`] they continue with everything that they missed.
    FreezeWatches {
        #[serde(default)]
        filter: Filter,
    },
    /// Ends the silence of frozen watches.
    ThawWatches {
        #[serde(default)]
        filter: Filter,
    },
    /// Injects a line between the events of open watches.
    Inject {
        #[serde(default)]
        filter: Filter,
        /// The line to inject.
        injection: Injection,
    },
    /// Compacts the history: watches and lists from versions before `revision` (absent: before the newest one) get 410.
    /// Open watches that have read everything continue.
    Compact {
        /// The oldest version from which a watch can start.
        #[serde(default)]
        revision: Option<u64>,
    },
    /// A fault for future requests.
    Rule(Rule),
    /// Resets all connections and refuses new ones for a time. Data stays.
    Restart {
        /// How long the server is away, in milliseconds.
        #[serde(default)]
        down_ms: u64,
        /// Whether the history is empty afterwards, like a newly filled watch cache: watches from older versions get
        /// 410.
        #[serde(default)]
        empty_history: bool,
    },
    /// Makes all replicas but the first lag: they answer watches, and reads that need not be consistent, from an old
    /// state.
    FreezeReplicas {},
    /// Lets frozen replicas catch up.
    ThawReplicas {},
    /// Removes all rules, releases held requests, and thaws all watches and replicas.
    Clear,
}

/// How a watch ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// An orderly end of the body between two lines.
    #[default]
    Clean,
    /// A connection reset between two lines.
    Reset,
    /// Half of the next event's line, then a reset. Waits for that event.
    MidLine,
    /// Half of the next event's line, then an orderly end of the body. Waits for that event.
    MidLineClean,
    /// An ERROR event with 410 `Expired`, then an orderly end.
    Expired,
}

/// An invalid or unusual line in a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Injection {
    /// An ADDED event whose object has no metadata.
    Garbage,
    /// A line that is not JSON.
    NotJson,
    /// An event of a type that does not exist.
    UnknownType,
    /// A MODIFIED event of an existing object (or, if nothing is selected, of an invented one), padded to this many
    /// bytes.
    HugeLineBytes(usize),
    /// These bytes, a newline added.
    Raw(String),
    /// The same, in watches that have sent their initial events; the others ignore it.
    RawAfterInitialEvents(String),
}
