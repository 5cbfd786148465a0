//! What a manifest says of objects of one type, read as Informant reads it. For native tests only.

use super::{Events, Manifest, Objects, PayloadKind};

/// Matches every apiVersion or kind.
const ANY: &str = "*";

impl Manifest {
    /// How the plugin wants to be told about objects of this type; none: not at all.
    pub(crate) fn events_of(&self, api_version: &str, kind: &str) -> Option<Events> {
        if self.events.is_empty() {
            return Some(Events::all());
        }
        closest(&self.events, |rule| (&rule.api_version, &rule.kind), api_version, kind).cloned()
    }

    /// What the plugin's index functions want of objects of this type; none: not to be asked.
    pub(crate) fn indexed_of(&self, api_version: &str, kind: &str) -> Option<Objects> {
        let indexes = self.indexes.as_ref()?;
        if indexes.objects.is_empty() {
            return Some(Objects::of(ANY, ANY));
        }
        closest(
            &indexes.objects,
            |rule| (&rule.api_version, &rule.kind),
            api_version,
            kind,
        )
        .cloned()
    }

    /// Whether the plugin offers an index of that name.
    pub(crate) fn offers_index(&self, name: &str) -> bool {
        self.indexes
            .as_ref()
            .is_some_and(|indexes| indexes.names.iter().any(|offered| offered == name))
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
}

impl Objects {
    pub(crate) fn payload(&self) -> &PayloadKind {
        &self.payload
    }
}

/// Of the rules that fit a type, the one that names most of it.
fn closest<'a, R>(
    rules: &'a [R],
    names: impl Fn(&R) -> (&String, &String),
    api_version: &str,
    kind: &str,
) -> Option<&'a R> {
    let fits = |pattern: &str, text: &str| pattern == ANY || pattern == text;
    let fitting = rules.iter().filter(|rule| {
        let (wanted_version, wanted_kind) = names(rule);
        fits(wanted_version, api_version) && fits(wanted_kind, kind)
    });
    fitting.max_by_key(|rule| {
        let (wanted_version, wanted_kind) = names(rule);
        (wanted_version != ANY, wanted_kind != ANY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_that_names_most_of_a_type_counts() {
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
    fn without_indexed_objects_all_are_indexed() {
        assert_eq!(Manifest::new().indexed_of("v1", "Pod"), None);
        assert_eq!(
            Manifest::new().index("a").indexed_of("v1", "Pod"),
            Some(Objects::of("*", "*"))
        );
    }
}
