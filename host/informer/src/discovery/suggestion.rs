//! What a person may have meant by a name that is not served.

use std::collections::BTreeSet;

use super::name::ResourceName;
use super::resources::ApiResource;

/// How many candidates a message lists.
const CANDIDATES_MAX: usize = 5;

/// How much a name must resemble another to be offered (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.84;

/// What resembles `name` among `served`, best first, each as the configuration writes it. The same name in another group or version comes first of all.
pub(super) fn candidates(name: &ResourceName, served: &[ApiResource]) -> Vec<String> {
    let wanted = name.last().to_ascii_lowercase();
    let mut ranked: Vec<(f64, usize, String)> = served
        .iter()
        .enumerate()
        .map(|(place, resource)| (likeness(&wanted, resource), place, resource.gvr().to_string()))
        .filter(|(likeness, _, _)| *likeness >= LIKENESS_MIN)
        .collect();
    ranked.sort_by(|(a, a_place, _), (b, b_place, _)| b.total_cmp(a).then(a_place.cmp(b_place)));
    let mut seen = BTreeSet::new();
    ranked
        .into_iter()
        .map(|(_, _, name)| name)
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
