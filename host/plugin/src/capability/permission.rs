//! The table of calls and capabilities.

use super::Permissions;

/// Whether a call may use a capability. Otherwise, why not, as the guest receives it with `not-here`.
pub(crate) type MayUse = Result<(), &'static str>;

/// The kinds of calls into a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Start functions, which run before any other call.
    Start,
    Describe,
    /// `init` of an instance that handles events.
    Init,
    /// `init` of an instance that computes index values.
    IndexInit,
    /// `on-add`, `on-update`, `on-delete`, `reconcile`, `on-timer`, `on-synced`.
    Event,
    Index,
    /// `save` and `restore`: the swap may still be refused.
    Swap,
}

impl CallKind {
    /// The capabilities that the call may use: a line for each kind, a column for each capability, in the order of the
    /// list.
    #[rustfmt::skip]
    pub(crate) const fn permissions(self) -> Permissions {
        match self {
            //                                     store     kube      kv        metrics   http      recorder  log
            CallKind::Start     => Permissions::row(START,    START,    KV,       METRICS,  START,    START,    YES),
            CallKind::Describe  => Permissions::row(DESCRIBE, DESCRIBE, DESCRIBE, DESCRIBE, DESCRIBE, DESCRIBE, YES),
            CallKind::Init      => Permissions::row(INIT,     INIT,     YES,      METRICS,  INIT,     INIT,     YES),
            CallKind::IndexInit => Permissions::row(INIT,     INIT,     INDEX,    INDEX,    INDEX,    INDEX,    YES),
            CallKind::Event     => Permissions::row(YES,      YES,      YES,      YES,      YES,      YES,      YES),
            CallKind::Index     => Permissions::row(INDEX,    INDEX,    INDEX,    INDEX,    INDEX,    INDEX,    YES),
            CallKind::Swap      => Permissions::row(YES,      SWAP,     KV,       METRICS,  SWAP,     SWAP,     YES),
        }
    }
}

const YES: MayUse = Ok(());

const START: MayUse =
    Err("before init, only log can be called: read the cache from on-synced on, and act in a handler");

const DESCRIBE: MayUse =
    Err("describe must depend on the plugin and its `config` alone: in describe, only log can be called");

const INIT: MayUse = Err(
    "in init, only log and kv can be called: read the cache from on-synced on, and act on the cluster in a handler",
);

const INDEX: MayUse =
    Err("an index function must depend on its arguments alone: in the role index, only log can be called");

const SWAP: MayUse = Err("in save and restore, only log and store can be called: act in a handler");

/// No success commits the changes.
const KV: MayUse = Err("kv can be used in init and in handler calls only");

/// No success commits the changes.
const METRICS: MayUse = Err("metrics can be changed in handler calls only");

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn calls_other_than_handlers_may_use_little() {
        let mut text = String::new();
        for kind in [
            CallKind::Start,
            CallKind::Describe,
            CallKind::Init,
            CallKind::IndexInit,
            CallKind::Event,
            CallKind::Index,
            CallKind::Swap,
        ] {
            let of = kind.permissions();
            let each = [of.store, of.kube, of.kv, of.metrics, of.http, of.recorder, of.log];
            let names = ["store", "kube", "kv", "metrics", "http", "recorder", "log"];
            let may_use = names
                .iter()
                .zip(each)
                .filter_map(|(name, may)| may.is_ok().then_some(*name));
            writeln!(text, "{kind:?}: {}", may_use.collect::<Vec<_>>().join(" ")).unwrap();
        }
        insta::assert_snapshot!(text, @r"
        Start: log
        Describe: log
        Init: kv log
        IndexInit: log
        Event: store kube kv metrics http recorder log
        Index: log
        Swap: store log
        ");
    }
}
