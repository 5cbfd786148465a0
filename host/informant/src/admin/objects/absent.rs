//! What an informer removes from its objects, or keeps as a hash only, so that a client can tell a field that is absent
//! here from one that is not set in the cluster.

use std::collections::BTreeSet;

use informant_config::InformerSection;
use informant_object::Pointer;
use serde::{Deserialize, Serialize};

use crate::daemon::InformerStatuses;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AbsentFields {
    /// Everything but `apiVersion`, `kind` and `metadata`.
    pub(crate) metadata_only: bool,
    /// JSON pointers to what is removed, as in `drop`.
    pub(crate) drop: BTreeSet<String>,
    /// JSON pointers to what is a hash, as in `digest`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) digest: BTreeSet<String>,
}

impl AbsentFields {
    /// What is removed or a hash in any cluster of the informer; `None` if nothing is.
    pub(super) fn of(statuses: &InformerStatuses) -> Option<Self> {
        let sections = || statuses.values().map(|status| &status.section);
        let texts = |read: fn(&InformerSection) -> &[Pointer]| {
            let pointers = sections().flat_map(|section| read(section));
            pointers.map(ToString::to_string).collect()
        };
        let absent = Self {
            metadata_only: sections().any(|section| section.metadata_only),
            drop: texts(|section| &section.drop),
            digest: texts(|section| &section.digest),
        };
        (absent != Self::default()).then_some(absent)
    }

    /// Whether all or a part of what `pointer` points to may be removed or a hash. `*` in it stands for each item of a
    /// list.
    pub(crate) fn affects(&self, pointer: &str) -> bool {
        let is_metadata = ["/metadata", "/apiVersion", "/kind"]
            .iter()
            .any(|kept| overlap(kept, pointer));
        let mut cut = self.drop.iter().chain(&self.digest);
        (self.metadata_only && !is_metadata) || cut.any(|cut| overlap(cut, pointer))
    }
}

/// Whether one of two pointers leads to the other. A part `*` stands for each item of a list.
fn overlap(dropped: &str, pointer: &str) -> bool {
    let mut parts = dropped.split('/').zip(pointer.split('/'));
    parts.all(|(one, other)| one == other || one == "*" || other == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_above_and_below_a_dropped_one_are_affected() {
        let absent = AbsentFields {
            metadata_only: false,
            drop: BTreeSet::from(["/data/big".to_owned()]),
            digest: BTreeSet::from(["/binaryData".to_owned()]),
        };
        for (pointer, affected) in [
            ("/data", true),
            ("/data/big/x", true),
            ("/data/small", false),
            ("/binaryData/a", true),
            ("/dat", false),
        ] {
            assert_eq!(absent.affects(pointer), affected, "{pointer}");
        }
        let absent = AbsentFields {
            metadata_only: true,
            ..AbsentFields::default()
        };
        for (pointer, affected) in [
            ("/spec/replicas", true),
            ("/metadata/labels", false),
            ("/metadata", false),
        ] {
            assert_eq!(absent.affects(pointer), affected, "{pointer}");
        }
    }
}
