//! What an answer is the state of, in words.

use crate::admin::Freshness;
use crate::cli::table;

/// Above so many sources only the one that has been silent longest is named.
const NAMED_MAX: usize = 8;

/// Whether what is shown is of one cluster, or of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HowMany {
    One,
    Several,
}

pub(super) fn clusters(sources: &[Freshness]) -> HowMany {
    how_many(sources, |source| &source.cluster)
}

pub(super) fn resources(sources: &[Freshness]) -> HowMany {
    how_many(sources, |source| &source.resource)
}

fn how_many(sources: &[Freshness], what: impl Fn(&Freshness) -> &str) -> HowMany {
    let mut all = sources.iter().map(what);
    let first = all.next();
    if all.any(|other| Some(other) != first) {
        HowMany::Several
    } else {
        HowMany::One
    }
}

/// `fresh as of version 104, 2s ago`; with several sources where each is from.
pub(super) fn said(sources: &[Freshness]) -> String {
    let kinds = resources(sources);
    match sources {
        [] => "fresh as of nothing: there is no source".to_owned(),
        [only] => format!("fresh as of version {}, {}", version(only), age(only)),
        several if several.len() <= NAMED_MAX => {
            let each: Vec<_> = several.iter().map(|source| in_short(source, kinds)).collect();
            format!("fresh as of {}", each.join("; "))
        }
        many => {
            // One that has not been heard of since its first list counts as the oldest.
            let oldest = many.iter().max_by_key(|source| source.age_ms.unwrap_or(u64::MAX));
            let oldest = oldest.map_or_else(String::new, |source| in_short(source, kinds));
            format!("fresh as of {} sources, silent longest: {oldest}", many.len())
        }
    }
}

/// What to say of sources that are not live, a line each.
pub(super) fn warnings(sources: &[Freshness]) -> Vec<String> {
    let kinds = resources(sources);
    let not_live = sources.iter().filter(|source| source.state != "Live");
    not_live.map(|source| warning(source, kinds)).collect()
}

fn warning(source: &Freshness, kinds: HowMany) -> String {
    let place = place(source, kinds);
    let of = if place.is_empty() {
        String::new()
    } else {
        format!(" of {place}")
    };
    let (state, version) = (&source.state, version(source));
    format!("warning: the watch{of} is {state}: this is the state of version {version} and may be old")
}

fn in_short(source: &Freshness, kinds: HowMany) -> String {
    format!("{} {} ({})", place(source, kinds), version(source), age(source))
}

/// `east`, `east/default`, `default`, of several kinds `v1/pods in east/default`, or nothing where there is only one.
fn place(source: &Freshness, kinds: HowMany) -> String {
    let within = [source.cluster.as_str(), source.namespace.as_deref().unwrap_or_default()];
    let within: Vec<_> = within.into_iter().filter(|part| !part.is_empty()).collect();
    let within = within.join("/");
    match kinds {
        HowMany::One => within,
        HowMany::Several if within.is_empty() => source.resource.clone(),
        HowMany::Several => format!("{} in {within}", source.resource),
    }
}

fn version(source: &Freshness) -> &str {
    source.version.as_deref().unwrap_or("none")
}

fn age(source: &Freshness) -> String {
    match source.age_ms {
        Some(age_ms) => format!("{} ago", table::ago(age_ms)),
        None => "no event since".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(cluster: &str, namespace: Option<&str>, age_ms: Option<u64>) -> Freshness {
        Freshness {
            id: 1,
            cluster: cluster.into(),
            resource: "v1/pods".into(),
            namespace: namespace.map(str::to_owned),
            state: "Live".into(),
            version: Some("104".into()),
            age_ms,
        }
    }

    #[test]
    fn an_answer_says_what_it_is_the_state_of() {
        let (east, west) = (source("east", None, Some(2_000)), source("west", Some("web"), None));
        assert_eq!(
            said(&[source("", None, Some(2_000))]),
            "fresh as of version 104, 2s ago"
        );
        assert_eq!(
            said(&[east.clone(), west.clone()]),
            "fresh as of east 104 (2s ago); west/web 104 (no event since)"
        );
        let mut many = vec![east; 9];
        many.push(source("", Some("web"), Some(90_000)));
        assert_eq!(said(&many), "fresh as of 10 sources, silent longest: web 104 (90s ago)");
        let stale = Freshness {
            state: "Stale".into(),
            ..west
        };
        assert_eq!(
            warnings(&[stale]),
            ["warning: the watch of west/web is Stale: this is the state of version 104 and may be old"]
        );
        assert_eq!(clusters(&many), HowMany::Several);
        assert_eq!(clusters(&many[..9]), HowMany::One);
    }

    #[test]
    fn of_several_kinds_each_source_is_called_by_its_own() {
        let pods = source("", None, Some(2_000));
        let nodes = Freshness {
            resource: "v1/nodes".into(),
            state: "Stale".into(),
            ..source("east", Some("web"), Some(90_000))
        };
        let mut many = vec![pods.clone(); 9];
        many.push(nodes.clone());
        assert_eq!(
            said(&many),
            "fresh as of 10 sources, silent longest: v1/nodes in east/web 104 (90s ago)"
        );
        assert_eq!(
            said(&[pods, nodes]),
            "fresh as of v1/pods 104 (2s ago); v1/nodes in east/web 104 (90s ago)"
        );
        assert_eq!(
            warnings(&many),
            ["warning: the watch of v1/nodes in east/web is Stale: this is the state of version 104 and may be old"]
        );
        assert_eq!(
            (resources(&many), resources(&many[..9])),
            (HowMany::Several, HowMany::One)
        );
    }
}
