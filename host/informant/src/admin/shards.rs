//! What an answer has if the work is divided into shards: the part of the replica that answers ([`AnswerPart`]).
//! Actions on plugins are for replicas that act for them.
//!
//! ```text
//! GET  objects: the shards in the snapshots, where one of the others may have a requested object
//! GET  sources, plugins and what they did ─┐
//! POST to a plugin that is divided ────────┴─▶ the shards whose Leases this replica holds
//! POST to a plugin that runs once: refused, unless this replica acts for the first shard
//! ```

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::WARNING;
use http::{HeaderMap, HeaderValue, Method};
use informant_cache::{SHARDS_MAX, ShardBy, ShardFilter, ShardSet};
use informant_object::KeyRef;

use super::AdminState;
use super::error::{AdminError, Code};
use crate::replicas::{GroupStatus, pod_of};

/// The header with the shards of an answer, of how many: `0,2/8`. Absent if no other shard has anything of it.
pub(crate) const SHARDS: &str = "informant-shards";

/// The header with the name of the replica whose shards these are.
pub(crate) const REPLICA: &str = "informant-replica";

/// Paths of what a replica knows of its shards only. Answers about objects tell their shards themselves.
const OF_SHARDS: [&str; 7] = [
    "/api/v1/sources",
    "/api/v1/plugins",
    "/api/v1/dead-letters",
    "/api/v1/retries",
    "/api/v1/why/",
    "/api/v1/calls/",
    "/api/v1/indexes/",
];

/// The part of all shards that an answer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerPart {
    /// The replica that answers; empty if it has not joined its group.
    pub(crate) replica: String,
    pub(crate) held: ShardSet,
    /// Into how many shards the work is divided.
    pub(crate) shards: u8,
}

impl AnswerPart {
    pub(crate) fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (held, shards) = parse(text(SHARDS)?)?;
        let replica = text(REPLICA).unwrap_or_default().to_owned();
        Some(Self { replica, held, shards })
    }

    /// The shards that the answer lacks, in order.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = u8> {
        (0..self.shards).filter(|shard| !self.held.contains(*shard))
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        let held: Vec<_> = self.held.iter().map(|shard| shard.to_string()).collect();
        let shards = format!("{}/{}", held.join(","), self.shards);
        for (name, text) in [(SHARDS, shards.as_str()), (REPLICA, self.replica.as_str())] {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        }
    }

    /// Of what this process knows of its shards only. None if it holds all of them.
    fn of_group(group: &GroupStatus) -> Option<Self> {
        let shards = group.layout.division.shards;
        let in_force = group.shards.iter().filter(|shard| shard.shard < shards);
        let held = in_force.filter(|shard| shard.holder.as_ref() == Some(&group.identity));
        let part = Self {
            replica: pod_of(&group.identity).to_owned(),
            held: held.map(|shard| shard.shard).collect(),
            shards,
        };
        let lacks_some = part.lacks().next().is_some();
        lacks_some.then_some(part)
    }

    /// Of the requested objects in snapshots with these shards. None if another shard can have none of them.
    pub(super) fn of_objects<'s>(
        replica: &str,
        snapshots: impl IntoIterator<Item = RequestedObjects<'s>>,
    ) -> Option<Self> {
        let incomplete = snapshots.into_iter().filter(|requested| !requested.are_complete());
        incomplete.fold(None, |part, RequestedObjects { filter, .. }| {
            let shards = filter.division.shards;
            let held = match &part {
                None => filter.shards,
                Some(Self {
                    held, shards: before, ..
                }) if *before == shards => held.iter().filter(|shard| filter.shards.contains(*shard)).collect(),
                // The number of shards is changing.
                Some(_) => ShardSet::default(),
            };
            Some(Self {
                replica: replica.to_owned(),
                held,
                shards,
            })
        })
    }
}

/// The objects that a request is about, in a snapshot that has only some shards.
pub(super) struct RequestedObjects<'s> {
    /// The shards of the snapshot.
    pub(super) filter: &'s ShardFilter,
    /// The only namespace that they can be in: empty for cluster-scoped objects; none for any.
    pub(super) namespace: Option<&'s str>,
    /// Their only name; none for any.
    pub(super) name: Option<&'s str>,
}

impl RequestedObjects<'_> {
    /// Whether no other shard can have one of them.
    fn are_complete(&self) -> bool {
        let Self { filter, .. } = self;
        let only = match filter.by {
            ShardBy::Namespace => self.namespace.map(|namespace| KeyRef::new(namespace, "")),
            ShardBy::Name => self.name.map(|name| KeyRef::new("", name)),
            ShardBy::NamespaceAndName => {
                let both = self.namespace.zip(self.name);
                both.map(|(namespace, name)| KeyRef::new(namespace, name))
            }
        };
        filter.shards == ShardSet::all(filter.division) || only.is_some_and(|key| filter.includes(key))
    }
}

/// Reads `0,2/8`.
fn parse(text: &str) -> Option<(ShardSet, u8)> {
    let (held, shards) = text.split_once('/')?;
    let held = held.split(',').filter(|number| !number.is_empty());
    let held: Option<ShardSet> = held.map(|number| number.parse::<u8>().ok()).collect();
    let shards = shards.parse().ok().filter(|shards| (1..=SHARDS_MAX).contains(shards))?;
    Some((held?, shards))
}

/// Answers a request while the work is divided: with the part that the answer has, and without actions on plugins that
/// this replica does not act for.
pub(super) async fn answer(state: &AdminState, group: &GroupStatus, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_about_part = OF_SHARDS.iter().any(|prefix| path.starts_with(prefix));
    let named = plugin_of(path).and_then(|name| {
        let is_divided = state.registry.plugin(name)?.section().spec.is_divided;
        Some((name.to_owned(), is_divided))
    });
    let elsewhere = named
        .as_ref()
        .filter(|(_, is_divided)| !state.registry.acts(*is_divided));
    let elsewhere = elsewhere.map(|(name, is_divided)| acts_elsewhere(group, name, *is_divided));
    let is_post = request.method() == Method::POST;
    let mut response = match &elsewhere {
        Some(message) if is_post => AdminError::new(Code::Standby, message.as_str()).into_response(),
        _ => next.run(request).await,
    };
    match (named, elsewhere) {
        // One replica has all of it.
        (Some((_, false)), None) => {}
        (Some((_, false)), Some(message)) => {
            if let Ok(warning) = HeaderValue::try_from(format!("299 informant \"{message}\"")) {
                response.headers_mut().insert(WARNING, warning);
            }
        }
        (Some((_, true)) | None, _) => {
            if let Some(part) = AnswerPart::of_group(group).filter(|_| is_about_part) {
                part.add_to(response.headers_mut());
            }
        }
    }
    response
}

/// The plugin that a request is for. What a plugin did is known to the replicas that did it, whichever acts now.
fn plugin_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/api/v1/plugins/")?;
    let (name, verb) = rest.split_once('/').unwrap_or((rest, ""));
    (verb != "why").then_some(name)
}

/// Why this replica takes no action on a plugin, and which ones do.
fn acts_elsewhere(group: &GroupStatus, plugin: &str, is_divided: bool) -> String {
    let own = pod_of(&group.identity);
    if !is_divided {
        return match group.holder().filter(|holder| *holder != own) {
            Some(holder) => format!(
                "plugin {plugin} runs once, on {holder}, which holds the first shard: ask that one (kubectl informant \
                 --pod {holder})"
            ),
            None => format!(
                "plugin {plugin} runs once, on the replica that holds the first shard, and none acts for that now; \
                 `informant replicas` shows why"
            ),
        };
    }
    let mut holders: Vec<_> = group
        .shards
        .iter()
        .filter_map(|shard| shard.holder.as_deref())
        .map(pod_of)
        .collect();
    holders.retain(|holder| *holder != own);
    holders.sort_unstable();
    holders.dedup();
    match holders.first() {
        Some(first) => format!(
            "plugin {plugin} does not act in this replica, which holds no shard: ask one that does, of {} (kubectl \
             informant --pod {first})",
            holders.join(", ")
        ),
        None => format!(
            "plugin {plugin} does not act in this replica, which holds no shard, and no other replica holds one now; \
             `informant replicas` shows why"
        ),
    }
}

#[cfg(test)]
mod tests {
    use informant_cache::{Division, ShardHash};

    use super::*;

    fn part(text: &str) -> Option<AnswerPart> {
        let mut headers = HeaderMap::new();
        headers.insert(SHARDS, HeaderValue::from_str(text).unwrap());
        AnswerPart::of_headers(&headers)
    }

    #[test]
    fn parts_are_read_as_they_were_written() {
        for (held, shards) in [(&[0, 2][..], 8), (&[][..], 1), (&[63][..], 64)] {
            let written = AnswerPart {
                replica: "informant-0".to_owned(),
                held: held.iter().copied().collect(),
                shards,
            };
            let mut headers = HeaderMap::new();
            written.add_to(&mut headers);
            assert_eq!(AnswerPart::of_headers(&headers), Some(written), "{headers:?}");
        }
        let mut headers = HeaderMap::new();
        let written = AnswerPart {
            replica: "informant-0".to_owned(),
            ..part("0,2/4").unwrap()
        };
        written.add_to(&mut headers);
        // Clients rely on these names.
        assert_eq!(headers["informant-shards"], "0,2/4");
        assert_eq!(headers["informant-replica"], "informant-0");
        let lacks: Vec<u8> = written.lacks().collect();
        assert_eq!(lacks, [1, 3]);
        for text in ["", "0,2", "0,x/8", "0/65", "0/0", "/x"] {
            assert_eq!(part(text), None, "{text}");
        }
    }

    fn filter(by: ShardBy, shards: &[u8]) -> ShardFilter {
        ShardFilter {
            division: Division {
                shards: 8,
                hash: ShardHash::Mixed,
            },
            by,
            shards: shards.iter().copied().collect(),
        }
    }

    fn of_objects(filters: &[ShardFilter], namespace: Option<&str>, name: Option<&str>) -> Option<ShardSet> {
        let requested = filters.iter().map(|filter| RequestedObjects {
            filter,
            namespace,
            name,
        });
        AnswerPart::of_objects("informant-0", requested).map(|part| part.held)
    }

    #[test]
    fn answer_is_complete_if_no_other_shard_adds_to_it() {
        for (by, namespace, name) in [
            (ShardBy::Namespace, Some("web"), None),
            (ShardBy::Namespace, Some(""), None),
            (ShardBy::Name, None, Some("web")),
            (ShardBy::NamespaceAndName, Some("web"), Some("db")),
        ] {
            let key = KeyRef::new(namespace.unwrap_or_default(), name.unwrap_or_default());
            let own = filter(by, &[]).shard_of(key);
            assert_eq!(of_objects(&[filter(by, &[own])], namespace, name), None, "{by:?}");
            let other = (own + 1) % 8;
            let held = of_objects(&[filter(by, &[other])], namespace, name);
            assert_eq!(held, Some([other].into_iter().collect()), "{by:?}");
            let of_all = of_objects(&[filter(by, &[own])], None, None);
            assert_eq!(of_all, Some([own].into_iter().collect()), "{by:?}");
        }
        let all: Vec<u8> = (0..8).collect();
        assert_eq!(of_objects(&[filter(ShardBy::Name, &all)], None, None), None);
    }

    #[test]
    fn answer_of_several_sources_has_the_shards_of_all() {
        let by = ShardBy::Namespace;
        let held = of_objects(&[filter(by, &[1, 2, 3]), filter(by, &[2, 3, 4])], None, None);
        assert_eq!(held, Some([2, 3].into_iter().collect()));
        let mut changing = filter(by, &[2]);
        changing.division.shards = 4;
        assert_eq!(
            of_objects(&[filter(by, &[2]), changing], None, None),
            Some(ShardSet::default())
        );
    }

    #[test]
    fn requests_for_a_plugin_name_it() {
        for (path, name) in [
            ("/api/v1/plugins/greeter", Some("greeter")),
            ("/api/v1/plugins/greeter/pause", Some("greeter")),
            ("/api/v1/plugins/greeter/why", None),
            ("/api/v1/plugins", None),
            ("/api/v1/retries", None),
        ] {
            assert_eq!(plugin_of(path), name, "{path}");
        }
    }
}
