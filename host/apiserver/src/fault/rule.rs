//! Rules: faults for future requests.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::filter::Filter;
use crate::routes::Attributes;
use crate::status::Status;

/// Maximum number of active rules; a new one beyond it replaces the oldest. No test needs more.
pub(crate) const RULES_MAX: usize = 1_000;

/// What a rule does to a matching request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Responds in the server's place; the request is not executed.
    Answer(Answer),
    /// Executes the request, then resets the connection instead of responding.
    LoseAnswer,
    /// Waits before the request is processed.
    DelayMs(u64),
    /// Waits until [`Faults::release`](crate::Faults::release), or until all faults are cleared, before the request is
    /// processed.
    Hold,
    /// Responds with 403 as RBAC would; access reviews deny it too.
    Forbid,
    /// Makes the watch that the request opens silent: no events, no bookmarks, no end at its timeout.
    Freeze,
    /// Splits the response body into frames of this many bytes, so that lines and items arrive in pieces.
    SplitFramesBytes(usize),
    /// Resets the connection after this many bytes of the response body.
    CutBodyBytes(usize),
}

/// A response in the server's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// A Kubernetes `Status`.
    Status(Status),
    /// An HTML page, as proxies and load balancers send.
    Html {
        /// The HTTP status code; 200 and 502 are the usual ones.
        code: u16,
    },
    /// Any other body.
    Raw {
        /// The HTTP status code.
        code: u16,
        content_type: String,
        body: String,
    },
    /// 429 with `Retry-After`.
    TooManyRequests {
        /// When to retry.
        #[serde(default = "one_second")]
        retry_after_seconds: u32,
    },
    /// 500.
    InternalError,
    /// No response: the connection is reset.
    Reset,
}

fn one_second() -> u32 {
    1
}

impl Answer {
    /// 429 with `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::TooManyRequests { retry_after_seconds }
    }

    /// 500.
    pub fn internal_error() -> Self {
        Self::InternalError
    }

    /// 410 `Expired`.
    pub fn expired() -> Self {
        Self::Status(Status::expired("The resourceVersion for the provided list is too old."))
    }

    /// 403 with this message.
    pub fn forbidden(message: &str) -> Self {
        Self::Status(Status::new(403, "Forbidden", message))
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::Status(Status::new(401, "Unauthorized", "Unauthorized"))
    }

    /// An HTML page with this status code.
    pub fn html(code: u16) -> Self {
        Self::Html { code }
    }
}

/// A fault for the next matching requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    #[serde(default)]
    pub filter: Filter,
    /// How many requests; `None` is all until the rules are cleared.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens to the requests.
    pub action: Action,
}

/// The active rules, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    active: Vec<Rule>,
    /// Canceled when the requests that are held now are released.
    released: CancellationToken,
}

/// The combined effects of all rules on one request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RuleEffects {
    pub(crate) delay: Duration,
    pub(crate) held: bool,
    pub(crate) answer: Option<Answer>,
    pub(crate) forbidden: bool,
    pub(crate) lose_answer: bool,
    pub(crate) frozen: bool,
    pub(crate) split_bytes: Option<usize>,
    pub(crate) cut_bytes: Option<usize>,
}

impl Rules {
    pub(crate) fn add(&mut self, rule: Rule) {
        if self.active.len() >= RULES_MAX {
            self.active.remove(0);
        }
        self.active.push(rule);
    }

    /// Removes the rules with this filter and action.
    pub(crate) fn remove(&mut self, filter: &Filter, action: &Action) {
        self.active
            .retain(|rule| rule.filter != *filter || rule.action != *action);
    }

    pub(crate) fn active(&self) -> Vec<Rule> {
        self.active.clone()
    }

    pub(crate) fn clear(&mut self) {
        self.active.clear();
        self.release();
    }

    /// Removes the rules that hold requests, and lets those that are held continue.
    pub(crate) fn release(&mut self) {
        self.active.retain(|rule| rule.action != Action::Hold);
        std::mem::take(&mut self.released).cancel();
    }

    pub(crate) fn released(&self) -> CancellationToken {
        self.released.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    /// Evaluates a request. Each matching rule uses up one of its `times`; the first answer ends the search, so that
    /// two rules can express "twice 429, then 500".
    pub(crate) fn evaluate(&mut self, attributes: &Attributes) -> RuleEffects {
        let mut effects = RuleEffects::default();
        for rule in &mut self.active {
            if rule.times == Some(0) || !rule.filter.matches(attributes) {
                continue;
            }
            if let Some(times) = &mut rule.times {
                *times -= 1;
            }
            match &rule.action {
                Action::DelayMs(milliseconds) => effects.delay += Duration::from_millis(*milliseconds),
                Action::Hold => effects.held = true,
                Action::LoseAnswer => effects.lose_answer = true,
                Action::Freeze => effects.frozen = true,
                Action::SplitFramesBytes(bytes) => effects.split_bytes = Some((*bytes).max(1)),
                Action::CutBodyBytes(bytes) => effects.cut_bytes = Some(*bytes),
                Action::Forbid => {
                    effects.forbidden = true;
                    break;
                }
                Action::Answer(answer) => {
                    effects.answer = Some(answer.clone());
                    break;
                }
            }
        }
        self.active.retain(|rule| rule.times != Some(0));
        effects
    }

    /// Whether a request with these attributes would be forbidden, without using up any `times`.
    pub(crate) fn forbids(&self, attributes: &Attributes) -> bool {
        self.active
            .iter()
            .any(|rule| rule.action == Action::Forbid && rule.filter.matches(attributes))
    }
}
