//! How fresh a response is, in words.

use crate::admin::{Freshness, MissingSource};
use crate::cli::table;

/// With more sources than this, only the oldest one is named.
const NAMED_MAX: usize = 8;

/// Whether the objects shown belong to one cluster, or to one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Several,
}

pub(super) fn clusters(sources: &[Freshness]) -> Count {
    count(sources, |source| &source.cluster)
}

pub(super) fn resources(sources: &[Freshness]) -> Count {
    count(sources, |source| &source.resource)
}

fn count(sources: &[Freshness], what: impl Fn(&Freshness) -> &str) -> Count {
    let mut all = sources.iter().map(what);
    let first = all.next();
    if all.any(|other| Some(other) != first) {
        Count::Several
    } else {
        Count::One
    }
}

/// The [summary] of the oldest answer: `fresh as of version 104, 2s ago (informant-1, the oldest of 2 replicas)`.
pub(super) fn of_replicas(answers: &[(Option<String>, Vec<Freshness>)]) -> String {
    // A source without an event since its first list counts as the oldest.
    let age = |sources: &[Freshness]| sources.iter().map(|source| source.age_ms.unwrap_or(u64::MAX)).max();
    match answers.iter().max_by_key(|(_, sources)| age(sources)) {
        None => summary(&[]),
        Some((Some(replica), sources)) if answers.len() > 1 => {
            let replicas = answers.len();
            format!("{} ({replica}, the oldest of {replicas} replicas)", summary(sources))
        }
        Some((_, sources)) => summary(sources),
    }
}

/// `fresh as of version 104, 2s ago`; with several sources, each with its cluster and namespace.
pub(super) fn summary(sources: &[Freshness]) -> String {
    let kinds = resources(sources);
    match sources {
        [] => "freshness unknown: the informer has no sources".to_owned(),
        [only] => format!("fresh as of version {}, {}", version(only), age(only)),
        several if several.len() <= NAMED_MAX => {
            let each: Vec<_> = several.iter().map(|source| abbreviate(source, kinds)).collect();
            format!("fresh as of {}", each.join("; "))
        }
        many => {
            // A source without an event since its first list counts as the oldest.
            let oldest = many.iter().max_by_key(|source| source.age_ms.unwrap_or(u64::MAX));
            let oldest = oldest.map_or_else(String::new, |source| abbreviate(source, kinds));
            format!("fresh as of {} sources; oldest: {oldest}", many.len())
        }
    }
}

/// Warnings about sources whose objects are missing in the answer.
pub(super) fn missing(sources: &[MissingSource]) -> Vec<String> {
    let named = sources.iter().take(NAMED_MAX);
    let mut warnings: Vec<_> = named
        .map(|source| format!("warning: not synced, and not in this answer: {source}"))
        .collect();
    let more = sources.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        warnings.push(format!(
            "warning: {more} more sources are not synced; see `informant get sources`"
        ));
    }
    warnings
}

/// Warnings about sources that are not live, one line each.
pub(super) fn warnings(sources: &[Freshness]) -> Vec<String> {
    let kinds = resources(sources);
    let not_live = sources.iter().filter(|source| source.state != "Live");
    not_live.map(|source| warning(source, kinds)).collect()
}

fn warning(source: &Freshness, kinds: Count) -> String {
    let location = location(source, kinds);
    let of = if location.is_empty() {
        String::new()
    } else {
        format!(" of {location}")
    };
    let (state, version) = (&source.state, version(source));
    format!("warning: the watch{of} is {state}; its objects are as of version {version} and may be stale")
}

fn abbreviate(source: &Freshness, kinds: Count) -> String {
    format!("{} {} ({})", location(source, kinds), version(source), age(source))
}

/// `east`, `east/default`, `default`; with several kinds `v1/pods in east/default`; empty if there is only one.
fn location(source: &Freshness, kinds: Count) -> String {
    let within = [source.cluster.as_str(), source.namespace.as_deref().unwrap_or_default()];
    let within: Vec<_> = within.into_iter().filter(|part| !part.is_empty()).collect();
    let within = within.join("/");
    match kinds {
        Count::One => within,
        Count::Several if within.is_empty() => source.resource.clone(),
        Count::Several => format!("{} in {within}", source.resource),
    }
}

fn version(source: &Freshness) -> &str {
    source.version.as_deref().unwrap_or("none")
}

fn age(source: &Freshness) -> String {
    match source.age_ms {
        Some(age_ms) => format!("{} ago", table::ago(age_ms)),
        None => "no event since its first list".to_owned(),
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
    fn summary_shows_version_and_age_of_each_source() {
        let (east, west) = (source("east", None, Some(2_000)), source("west", Some("web"), None));
        assert_eq!(
            summary(&[source("", None, Some(2_000))]),
            "fresh as of version 104, 2s ago"
        );
        assert_eq!(
            summary(&[east.clone(), west.clone()]),
            "fresh as of east 104 (2s ago); west/web 104 (no event since its first list)"
        );
        let mut many = vec![east; 9];
        many.push(source("", Some("web"), Some(90_000)));
        assert_eq!(summary(&many), "fresh as of 10 sources; oldest: web 104 (90s ago)");
        let stale = Freshness {
            state: "Stale".into(),
            ..west
        };
        assert_eq!(
            warnings(&[stale]),
            ["warning: the watch of west/web is Stale; its objects are as of version 104 and may be stale"]
        );
        assert_eq!(clusters(&many), Count::Several);
        assert_eq!(clusters(&many[..9]), Count::One);
    }

    #[test]
    fn summary_of_replicas_is_that_of_the_oldest() {
        let of = |replica: &str, age_ms| (Some(replica.to_owned()), vec![source("", None, Some(age_ms))]);
        let answers = [
            of("informant-0", 1_000),
            of("informant-1", 3_000),
            of("informant-2", 2_000),
        ];
        insta::assert_snapshot!(of_replicas(&answers), @"fresh as of version 104, 3s ago (informant-1, the oldest of 3 replicas)");
        assert_eq!(of_replicas(&answers[..1]), "fresh as of version 104, 1s ago");
    }

    #[test]
    fn summary_shows_the_resource_with_several_kinds() {
        let pods = source("", None, Some(2_000));
        let nodes = Freshness {
            resource: "v1/nodes".into(),
            state: "Stale".into(),
            ..source("east", Some("web"), Some(90_000))
        };
        let mut many = vec![pods.clone(); 9];
        many.push(nodes.clone());
        assert_eq!(
            summary(&many),
            "fresh as of 10 sources; oldest: v1/nodes in east/web 104 (90s ago)"
        );
        assert_eq!(
            summary(&[pods, nodes]),
            "fresh as of v1/pods 104 (2s ago); v1/nodes in east/web 104 (90s ago)"
        );
        assert_eq!(
            warnings(&many),
            ["warning: the watch of v1/nodes in east/web is Stale; its objects are as of version 104 and may be stale"]
        );
        assert_eq!((resources(&many), resources(&many[..9])), (Count::Several, Count::One));
    }
}
