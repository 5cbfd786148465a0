//! `GET /api/v1/stream?topics=TOPIC,TOPIC`: what changes, as server-sent events, for the dashboard.
//!
//! ```text
//! tick ─▶ Feed: rows of plugins and sources, computed once for all clients ─▶ what this client has not had ─▶ chunk
//!     └─▶ topics of one plugin: its log lines, its effects
//! ```
//!
//! A topic begins with all that there is. A client needs the rights of the routes that tell the same, which are asked
//! for when the stream begins; it ends after [`STREAM_TIME_MAX`], so that a right that was revoked ends, too. A client
//! that does not read delays no other one: nothing is made for it meanwhile.

mod feed;
mod overview;
mod rows;
mod table;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

pub(in crate::admin) use self::feed::Feed;
pub(in crate::admin) use self::overview::series_json;
pub(crate) use self::overview::{Memory, Overview};
pub(crate) use self::rows::{PluginRow, SourceRow};
use super::AdminState;
use super::access::{Caller, Right};
use super::error::{AdminError, Code, ResourceRight};
use super::plugins::{LogLineView, known};
use super::replicas::{self, ReplicasView};
use super::why;
use crate::logging;

/// Streams that are read at once: 32. One more gets 429 `busy`.
pub(crate) const STREAMS_MAX: usize = 32;

/// How long a stream lasts: 5 min. Then the client connects again.
pub(crate) const STREAM_TIME_MAX: Duration = Duration::from_secs(300);

/// Topics of one stream: 8. More are refused.
const TOPICS_MAX: usize = 8;

/// Between two looks at what has changed: 1 s. Rows are computed every second time.
const TICK: Duration = Duration::from_secs(1);

/// After so many ticks without a message, a comment is sent: the client sees that the connection lives.
const ALIVE_TICKS: u32 = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    topics: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Topic {
    Overview,
    Plugins,
    Sources,
    Replicas,
    /// The log lines of a plugin.
    Logs(String),
    /// The effects of a plugin.
    Why(String),
}

/// A topic of one client, and what it has had of it.
struct Sent {
    topic: Topic,
    /// Of rows the generation; of lines and effects the number of the next one.
    next: u64,
    /// The last message, as far as a change of it matters.
    last: String,
    is_begun: bool,
}

/// The first message of a topic with items that has none.
const NO_ITEMS: &str = r#"{"items":[],"dropped":0}"#;

struct Client {
    state: AdminState,
    topics: Vec<Sent>,
    ticks: Interval,
    until: Instant,
    silent_ticks: u32,
    /// Released when the client has gone, or the stream has ended.
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug, Serialize)]
struct LogMessage {
    items: Vec<LogLineView>,
    dropped: u64,
}

pub(super) async fn stream(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    query: Result<Query<StreamQuery>, QueryRejection>,
) -> Result<Response, AdminError> {
    let Query(query) = query.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let topics = Topic::parse_all(&query.topics)?;
    for topic in &topics {
        for right in topic.rights() {
            state.authorize(&caller, &right).await?;
        }
        if let Topic::Logs(plugin) | Topic::Why(plugin) = topic {
            known(&state.registry, plugin)?;
        }
    }
    let permit = state.page_stream()?;
    let sent = topics.into_iter().map(|topic| Sent {
        topic,
        next: 0,
        last: String::new(),
        is_begun: false,
    });
    let now = Instant::now();
    let mut ticks = interval_at(now, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let client = Client {
        state,
        topics: sent.collect(),
        ticks,
        until: now + STREAM_TIME_MAX,
        silent_ticks: 0,
        _permit: permit,
    };
    let body = Body::from_stream(stream::unfold(client, Client::chunk));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

impl Topic {
    fn parse_all(text: &str) -> Result<Vec<Topic>, AdminError> {
        let topics: Vec<Topic> = text.split(',').map(Topic::parse).collect::<Result<_, _>>()?;
        if topics.len() > TOPICS_MAX {
            let message = format!("a stream has at most {TOPICS_MAX} topics");
            return Err(AdminError::new(Code::Invalid, message));
        }
        Ok(topics)
    }

    fn parse(text: &str) -> Result<Topic, AdminError> {
        match (text, text.split_once(':')) {
            ("overview", _) => Ok(Topic::Overview),
            ("plugins", _) => Ok(Topic::Plugins),
            ("sources", _) => Ok(Topic::Sources),
            ("replicas", _) => Ok(Topic::Replicas),
            (_, Some(("logs", plugin))) => Ok(Topic::Logs(plugin.to_owned())),
            (_, Some(("why", plugin))) => Ok(Topic::Why(plugin.to_owned())),
            _ => {
                let message = format!(
                    "no topic {text:?}: there are overview, plugins, sources, replicas, logs:PLUGIN and why:PLUGIN"
                );
                Err(AdminError::new(Code::Invalid, message))
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Topic::Overview => "overview".to_owned(),
            Topic::Plugins => "plugins".to_owned(),
            Topic::Sources => "sources".to_owned(),
            Topic::Replicas => "replicas".to_owned(),
            Topic::Logs(plugin) => format!("logs:{plugin}"),
            Topic::Why(plugin) => format!("why:{plugin}"),
        }
    }

    /// Those of the routes that tell the same.
    fn rights(&self) -> Vec<Right> {
        match self {
            Topic::Overview => vec![
                Right::own("list", "plugins", ""),
                Right::own("list", "sources", ""),
                Right::own("get", "configurations", ""),
            ],
            Topic::Plugins => vec![Right::own("list", "plugins", "")],
            Topic::Sources => vec![Right::own("list", "sources", "")],
            Topic::Replicas => vec![Right::own("list", "replicas", "")],
            Topic::Logs(plugin) => vec![Right::Resource(ResourceRight {
                subresource: "logs".to_owned(),
                ..Right::of_own("get", "plugins", plugin)
            })],
            Topic::Why(plugin) => vec![Right::own("get", "effects", plugin)],
        }
    }
}

impl Client {
    /// Waits until there is something to say. None: the stream ends.
    async fn chunk(mut self) -> Option<(Result<Bytes, Infallible>, Client)> {
        loop {
            let at = self.ticks.tick().await;
            if at >= self.until {
                return None;
            }
            let mut chunk = String::new();
            for sent in &mut self.topics {
                if let Some(data) = sent.message(&self.state) {
                    // Writing into a String does not fail.
                    let _ = write!(chunk, "event: {}\ndata: {data}\n\n", sent.topic.name());
                }
            }
            self.silent_ticks += 1;
            if chunk.is_empty() && self.silent_ticks < ALIVE_TICKS {
                continue;
            }
            if chunk.is_empty() {
                chunk.push_str(": alive\n\n");
            }
            self.silent_ticks = 0;
            return Some((Ok(chunk.into()), self));
        }
    }
}

impl Sent {
    /// What the client has not had, as one line of JSON.
    fn message(&mut self, state: &AdminState) -> Option<String> {
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let first = || (!is_begun).then(|| NO_ITEMS.to_owned());
        match &self.topic {
            Topic::Overview => overview::message(state, &mut self.next),
            Topic::Plugins => state.feed.plugins(state, &mut self.next),
            Topic::Sources => state.feed.sources(state, &mut self.next),
            Topic::Replicas => replicas_message(state, &mut self.last),
            Topic::Logs(plugin) => logs_message(plugin, &mut self.next).or_else(first),
            Topic::Why(plugin) => why::message(state, plugin, &mut self.next).or_else(first),
        }
    }
}

/// The replicas, if more has changed than ages.
fn replicas_message(state: &AdminState, last: &mut String) -> Option<String> {
    let view = replicas::view(state);
    let without_ages = ReplicasView {
        since_ms: view.since_ms.map(|_| 0),
        items: view.items.iter().map(|item| item.without_age()).collect(),
        ..view.clone()
    };
    let text = json!(without_ages).to_string();
    if text == *last {
        return None;
    }
    *last = text;
    Some(json!(view).to_string())
}

fn logs_message(plugin: &str, next: &mut u64) -> Option<String> {
    let recent = logging::recent_lines(plugin, *next);
    let is_first = *next == 0;
    *next = recent.next;
    let message = LogMessage {
        dropped: if is_first { 0 } else { recent.dropped },
        items: recent.lines.into_iter().map(LogLineView::from).collect(),
    };
    (!message.items.is_empty()).then(|| json!(message).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_parsed_or_refused_by_name() {
        let parsed = Topic::parse_all("overview,plugins,logs:greeter,why:a:b").unwrap();
        let names: Vec<String> = parsed.iter().map(Topic::name).collect();
        assert_eq!(names, ["overview", "plugins", "logs:greeter", "why:a:b"]);
        for text in ["", "events", "logs", "overview,"] {
            let error = Topic::parse_all(text).unwrap_err();
            assert!(error.message.starts_with("no topic"), "{text}: {error:?}");
        }
        assert!(Topic::parse_all(&["plugins"; TOPICS_MAX + 1].join(",")).is_err());
    }
}
