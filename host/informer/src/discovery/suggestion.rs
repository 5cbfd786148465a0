//! Suggestions for a name that is not served.

use std::collections::BTreeSet;

use informant_spec::ResourceName;

use super::group_version;
use super::resources::ApiResource;

/// How many suggestions a message lists.
const CANDIDATES_MAX: usize = 5;

/// The least similarity of a suggestion (Jaro-Winkler, 0 to 1).
const SIMILARITY_MIN: f64 = 0.84;

/// Names among `served` that are similar to `name`, best first, in the form of the configuration. The same name in
/// another group or version comes first.
pub(super) fn candidates(name: &ResourceName, served: &[ApiResource]) -> Vec<String> {
    let last = match name {
        ResourceName::Exact(resource) => &resource.plural,
        ResourceName::Loose { name, .. } => name,
    };
    let wanted = last.to_ascii_lowercase();
    let rated = served
        .iter()
        .map(|resource| (similarity(&wanted, resource), resource.gvr().to_string()));
    best(rated)
}

/// Versions of groups among those of `served` that are similar to `wanted` (`apps/v1`) of `group`, best first, as
/// patterns of the configuration. Other versions of the same group come first.
pub(super) fn version_candidates(wanted: &str, group: &str, served: &[ApiResource]) -> Vec<String> {
    let rated = served.iter().map(|resource| {
        let version = group_version(&resource.group, &resource.version);
        let similarity = match resource.group == group {
            true => 1.0,
            false => strsim::jaro_winkler(wanted, &version),
        };
        (similarity, format!("{version}/*"))
    });
    best(rated)
}

/// The most similar ones, best first, without duplicates; ties stay in order.
fn best(rated: impl Iterator<Item = (f64, String)>) -> Vec<String> {
    let mut ranked: Vec<(f64, String)> = rated.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut seen = BTreeSet::new();
    ranked
        .into_iter()
        .map(|(_, name)| name)
        .filter(|name| seen.insert(name.clone()))
        .take(CANDIDATES_MAX)
        .collect()
}

fn similarity(wanted: &str, resource: &ApiResource) -> f64 {
    if resource.is_called(wanted) {
        return 1.0;
    }
    let plural = strsim::jaro_winkler(wanted, &resource.plural.to_ascii_lowercase());
    let kind = strsim::jaro_winkler(wanted, &resource.kind.to_ascii_lowercase());
    plural.max(kind)
}
