//! Finds the rule of a manifest that applies to a type, as Informant does. Only for native tests.

use super::{Events, Manifest, Objects, PayloadKind};

/// Matches every apiVersion or kind.
const ANY: &str = "*";

impl Manifest {
    /// The apiVersion and the kind of each rule for events.
    pub(crate) fn event_types(&self) -> impl Iterator<Item = (&str, &str)> {
        self.events
            .iter()
            .map(|rule| (rule.api_version.as_str(), rule.kind.as_str()))
    }

    /// The rule for events of this type. `None` if the handler does not receive them.
    pub(crate) fn events_of(&self, api_version: &str, kind: &str) -> Option<Events> {
        if self.events.is_empty() {
            return Some(Events::all());
        }
        most_specific(&self.events, |rule| (&rule.api_version, &rule.kind), api_version, kind).cloned()
    }

    /// The rule for indexing objects of this type. `None` if the index functions do not receive them.
    pub(crate) fn indexed_of(&self, api_version: &str, kind: &str) -> Option<Objects> {
        let indexes = self.indexes.as_ref()?;
        if indexes.objects.is_empty() {
            return Some(Objects::of(ANY, ANY));
        }
        most_specific(
            &indexes.objects,
            |rule| (&rule.api_version, &rule.kind),
            api_version,
            kind,
        )
        .cloned()
    }
}

impl Events {
    pub(crate) fn payload(&self) -> &PayloadKind {
        &self.payload
    }

    pub(crate) fn wants_old(&self) -> bool {
        self.old
    }

    pub(crate) fn wants_changed_only(&self) -> bool {
        self.changed_only
    }

    /// Empty: all.
    pub(crate) fn wanted_namespaces(&self) -> &[String] {
        &self.namespaces
    }

    pub(crate) fn wanted_labels(&self) -> &str {
        &self.label_selector
    }
}

impl Objects {
    pub(crate) fn payload(&self) -> &PayloadKind {
        &self.payload
    }
}

/// The most specific of the rules that match a type.
fn most_specific<'a, R>(
    rules: &'a [R],
    names: impl Fn(&R) -> (&String, &String),
    api_version: &str,
    kind: &str,
) -> Option<&'a R> {
    let matches = |pattern: &str, text: &str| pattern == ANY || pattern == text;
    let matching = rules.iter().filter(|rule| {
        let (wanted_version, wanted_kind) = names(rule);
        matches(wanted_version, api_version) && matches(wanted_kind, kind)
    });
    matching.max_by_key(|rule| {
        let (wanted_version, wanted_kind) = names(rule);
        (wanted_version != ANY, wanted_kind != ANY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_rule_applies() {
        let manifest = Manifest::new()
            .events(Events::all().metadata())
            .events(Events::of("apps/v1", "*").with_old())
            .events(Events::of("apps/v1", "Deployment").changed_only());
        let of = |api_version, kind| manifest.events_of(api_version, kind);
        assert_eq!(
            of("apps/v1", "Deployment"),
            Some(Events::of("apps/v1", "Deployment").changed_only())
        );
        assert_eq!(of("apps/v1", "ReplicaSet"), Some(Events::of("apps/v1", "*").with_old()));
        assert_eq!(of("v1", "Pod"), Some(Events::all().metadata()));
        assert_eq!(
            Manifest::new().events(Events::of("v1", "Pod")).events_of("v1", "Node"),
            None
        );
    }

    #[test]
    fn an_index_without_rules_covers_every_object() {
        assert_eq!(Manifest::new().indexed_of("v1", "Pod"), None);
        assert_eq!(
            Manifest::new().index("a").indexed_of("v1", "Pod"),
            Some(Objects::of("*", "*"))
        );
    }
}
