//! `resource = …` and `exclude = […]`: one resource, or all that a pattern means.

use std::fmt;

use informant_informer::{Exclude, ResourceName, ResourcePattern};

use super::source::Located;
use super::table::Table;

/// What an informer watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resources {
    /// `v1/pods`, `Pod`, `deployments.apps`.
    One(ResourceName),
    /// `*`, `apps/v1/*`: what is served of it at a time.
    Several(ResourcePattern),
}

impl Resources {
    /// As the configuration writes it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::One(name) => name.text(),
            Self::Several(pattern) => pattern.to_string(),
        }
    }
}

impl fmt::Display for Resources {
    /// As messages quote it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(name) => name.fmt(out),
            Self::Several(pattern) => write!(out, "`{pattern}`"),
        }
    }
}

pub(super) fn read(table: &Table<'_>, resource: &Located<String>) -> Option<Located<Resources>> {
    let text = resource.value.as_str();
    let read = if ResourcePattern::is_meant_by(text) {
        ResourcePattern::parse(text)
            .map(Resources::Several)
            .map_err(|error| error.to_string())
    } else {
        ResourceName::parse(text)
            .map(Resources::One)
            .map_err(|error| error.to_string())
    };
    match read {
        Ok(value) => {
            judge_keys_of_one(table, &value);
            let place = resource.place;
            Some(Located { value, place })
        }
        Err(error) => {
            let problem = table.error(resource.place, format!("`resource`: {error}"));
            table.reporter().report(problem);
            None
        }
    }
}

/// What only one resource can have, and what only several can.
fn judge_keys_of_one(table: &Table<'_>, resources: &Resources) {
    let out_of_place: &[(&str, &str)] = match resources {
        Resources::One(_) => &[("exclude", "it leaves resources out of `*` and the like: leave it out")],
        Resources::Several(_) => &[
            (
                "field-selector",
                "every kind has other fields: leave it out, or write an informer for each resource",
            ),
            (
                "durable",
                "what is kept on disk is named one by one: write an informer for each such resource",
            ),
        ],
    };
    for (key, help) in out_of_place.iter().filter(|(key, _)| table.has(key)) {
        let message = format!("`{key}` cannot be had with resource = \"{}\"", resources.text());
        let problem = table.error(table.value_place(key), message);
        table.reporter().report(problem.help(*help));
    }
}

/// `exclude = ["v1/secrets", "metrics.k8s.io/v1beta1/*"]`
pub(super) fn read_exclude(table: &Table<'_>, entries: &[Located<String>]) -> Exclude {
    let mut exclude = Exclude::default();
    for text in entries {
        let refused = match ResourcePattern::is_meant_by(&text.value) {
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
                    "`{}` has no version: write it as in `v1/secrets` and `apps/v1/deployments`",
                    text.value
                )),
                Err(error) => Some(error.to_string()),
            },
        };
        if let Some(why) = refused {
            let problem = table.error(text.place, format!("`exclude`: {why}"));
            table.reporter().report(problem);
        }
    }
    exclude
}
