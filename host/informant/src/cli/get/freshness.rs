//! What an answer is the state of, in words.

use crate::admin::Freshness;
use crate::cli::table;

/// Above so many sources only the one that has been silent longest is named.
const NAMED_MAX: usize = 8;

/// Whether what is shown is of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clusters {
    One,
    Several,
}

pub(super) fn clusters(sources: &[Freshness]) -> Clusters {
    let first = sources.first().map(|source| &source.cluster);
    if sources.iter().any(|source| Some(&source.cluster) != first) {
        Clusters::Several
    } else {
        Clusters::One
    }
}

/// `fresh as of version 104, 2s ago`; with several sources where each is from.
pub(super) fn said(sources: &[Freshness]) -> String {
    match sources {
        [] => "fresh as of nothing: there is no source".to_owned(),
        [only] => format!("fresh as of version {}, {}", version(only), age(only)),
        several if several.len() <= NAMED_MAX => {
            let each: Vec<_> = several.iter().map(in_short).collect();
            format!("fresh as of {}", each.join("; "))
        }
        many => {
            // One that has not been heard of since its first list counts as the oldest.
            let oldest = many.iter().max_by_key(|source| source.age_ms.unwrap_or(u64::MAX));
            let oldest = oldest.map_or_else(String::new, in_short);
            format!("fresh as of {} sources, silent longest: {oldest}", many.len())
        }
    }
}

/// What to say when a source is not live.
pub(super) fn warning(source: &Freshness) -> String {
    let place = place(source);
    let of = if place.is_empty() {
        String::new()
    } else {
        format!(" of {place}")
    };
    let (state, version) = (&source.state, version(source));
    format!("warning: the watch{of} is {state}: this is the state of version {version} and may be old")
}

fn in_short(source: &Freshness) -> String {
    format!("{} {} ({})", place(source), version(source), age(source))
}

/// `east`, `east/default`, `default`, or nothing where there is only one.
fn place(source: &Freshness) -> String {
    match (source.cluster.as_str(), &source.namespace) {
        (cluster, None) => cluster.to_owned(),
        ("", Some(namespace)) => namespace.clone(),
        (cluster, Some(namespace)) => format!("{cluster}/{namespace}"),
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
            warning(&stale),
            "warning: the watch of west/web is Stale: this is the state of version 104 and may be old"
        );
        assert_eq!(clusters(&many), Clusters::Several);
        assert_eq!(clusters(&many[..9]), Clusters::One);
    }
}
