//! `resource = …` and `exclude = […]`: one resource, or all that match a pattern.

use std::fmt;

use informant_spec::{Exclude, GroupVersionResource, ResourceName, ResourcePattern};

use crate::source::Located;
use crate::table::Table;

/// What an informer watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resources {
    /// `v1/pods`, `Pod`, `deployments.apps`.
    One(ResourceName),
    /// `*`, `apps/v1/*`: every matching resource that is served.
    Several(ResourcePattern),
}

impl Resources {
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::One(name) => name.text(),
            Self::Several(pattern) => pattern.to_string(),
        }
    }

    /// Whether these are namespaces, as far as that can be known without discovery.
    #[must_use]
    pub fn is_namespaces(&self) -> bool {
        match self {
            Self::One(ResourceName::Exact(resource)) => *resource == GroupVersionResource::new("", "v1", "namespaces"),
            Self::One(ResourceName::Loose { name, rest }) => {
                let mut names = ["namespaces", "namespace", "ns"].into_iter();
                let is_core = rest.is_empty() || rest == "v1";
                is_core && names.any(|known| name.eq_ignore_ascii_case(known))
            }
            Self::Several(_) => false,
        }
    }
}

impl fmt::Display for Resources {
    /// As quoted in messages.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(name) => name.fmt(out),
            Self::Several(pattern) => write!(out, "`{pattern}`"),
        }
    }
}

pub(crate) fn read(table: &Table<'_>, resource: &Located<String>) -> Option<Located<Resources>> {
    let text = resource.value.as_str();
    let read = match ResourcePattern::looks_like_pattern(text) {
        true => ResourcePattern::parse(text)
            .map(Resources::Several)
            .map_err(|error| error.to_string()),
        false => ResourceName::parse(text)
            .map(Resources::One)
            .map_err(|error| error.to_string()),
    };
    match read {
        Ok(value) => {
            check_keys(table, &value);
            let position = resource.position;
            Some(Located { value, position })
        }
        Err(error) => {
            table.report(resource.position, format!("`resource`: {error}"));
            None
        }
    }
}

/// Reports keys that do not fit: some need a single resource, others a pattern.
fn check_keys(table: &Table<'_>, resources: &Resources) {
    let misplaced: &[(&str, &str)] = match resources {
        Resources::One(_) => &[("exclude", "it excludes resources from a pattern such as `*`: remove it")],
        Resources::Several(_) => &[
            (
                "field-selector",
                "every kind has different fields: remove it, or add an informer for each resource",
            ),
            (
                "durable",
                "durable resources are listed one by one: add an informer for each",
            ),
        ],
    };
    for (key, help) in misplaced.iter().filter(|(key, _)| table.has(key)) {
        let message = format!("`{key}` cannot be combined with resource = \"{}\"", resources.text());
        table.refuse(table.value_position(key), message, *help);
    }
}

/// `exclude = ["v1/secrets", "metrics.k8s.io/v1beta1/*"]`
pub(crate) fn read_exclude(table: &Table<'_>, entries: &[Located<String>]) -> Exclude {
    let mut exclude = Exclude::default();
    for text in entries {
        let refused = match ResourcePattern::looks_like_pattern(&text.value) {
            true => ResourcePattern::parse(&text.value)
                .map(|pattern| exclude.versions.push(pattern))
                .err()
                .map(|error| error.to_string()),
            false => match ResourceName::parse(&text.value) {
                Ok(ResourceName::Exact(resource)) => {
                    exclude.resources.push(resource);
                    None
                }
                Ok(ResourceName::Loose { .. }) => Some(format!(
                    "`{}` has no version: write it like `v1/secrets` or `apps/v1/deployments`",
                    text.value
                )),
                Err(error) => Some(error.to_string()),
            },
        };
        if let Some(why) = refused {
            table.report(text.position, format!("`exclude`: {why}"));
        }
    }
    exclude
}

#[cfg(test)]
mod tests {
    use crate::{Config, SourceFile};

    #[test]
    fn namespaces_are_known_by_each_of_their_names() {
        let is_namespaces = |resource: &str| {
            let text = format!("[informer.a]\nresource = \"{resource}\"\n");
            let config = Config::parse(&SourceFile::new("config.toml", text)).unwrap();
            config.informers["a"].resource.value.is_namespaces()
        };
        for resource in ["v1/namespaces", "namespaces", "Namespace", "ns"] {
            assert!(is_namespaces(resource), "{resource}");
        }
        for resource in [
            "v1/pods",
            "example.com/v1/namespaces",
            "namespaces.example.com",
            "v1/*",
            "*",
        ] {
            assert!(!is_namespaces(resource), "{resource}");
        }
    }
}
