//! What a person may have meant by a name that is not served.

use std::collections::BTreeSet;

use super::group_version;
use super::name::ResourceName;
use super::resources::ApiResource;

/// How many candidates a message lists.
const CANDIDATES_MAX: usize = 5;

/// How much a name must resemble another to be offered (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.84;

/// What resembles `name` among `served`, best first, each as the configuration writes it. The same name in another
/// group or version comes first of all.
pub(super) fn candidates(name: &ResourceName, served: &[ApiResource]) -> Vec<String> {
    let wanted = name.last().to_ascii_lowercase();
    let rated = served
        .iter()
        .map(|resource| (likeness(&wanted, resource), resource.gvr().to_string()));
    best(rated)
}

/// Which versions of groups resemble `wanted` (`apps/v1`) of `group` among those of `served`, best first, each with all
/// it has, as the configuration writes it. Other versions of the same group come first of all.
pub(super) fn version_candidates(wanted: &str, group: &str, served: &[ApiResource]) -> Vec<String> {
    let rated = served.iter().map(|resource| {
        let version = group_version(&resource.group, &resource.version);
        let likeness = match resource.group == group {
            true => 1.0,
            false => strsim::jaro_winkler(wanted, &version),
        };
        (likeness, format!("{version}/*"))
    });
    best(rated)
}

/// Those that resemble enough, best first, each once; of two as good the one that came first.
fn best(rated: impl Iterator<Item = (f64, String)>) -> Vec<String> {
    let mut ranked: Vec<(f64, String)> = rated.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut seen = BTreeSet::new();
    ranked
        .into_iter()
        .map(|(_, name)| name)
        .filter(|name| seen.insert(name.clone()))
        .take(CANDIDATES_MAX)
        .collect()
}

fn likeness(wanted: &str, resource: &ApiResource) -> f64 {
    if resource.is_called(wanted) {
        return 1.0;
    }
    let plural = strsim::jaro_winkler(wanted, &resource.plural.to_ascii_lowercase());
    let kind = strsim::jaro_winkler(wanted, &resource.kind.to_ascii_lowercase());
    plural.max(kind)
}
