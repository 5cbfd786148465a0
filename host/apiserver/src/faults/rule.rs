//! Rules: faults that wait for requests to come.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::filter::{Attributes, Filter};
use crate::status::Status;

/// How many rules may stand at once; the oldest is dropped for a new one. A test that needs more has lost count.
pub const RULES_MAX: usize = 1_000;

/// What a rule does to a request that it meets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Answers in the server's place; the request is not carried out.
    Answer(Answer),
    /// Carries the request out, then resets the connection instead of answering.
    LoseAnswer,
    /// Waits before the request is looked at.
    DelayMs(u64),
    /// Answers 403 as RBAC would; access reviews say so too.
    Forbid,
    /// The watch that the request opens is silent: no events, no bookmarks, no end at its timeout.
    Freeze,
    /// Cuts the answer's body into frames of this many bytes, so that lines and items arrive in pieces.
    SplitFramesBytes(usize),
    /// Resets the connection after this many bytes of the answer's body.
    CutBodyBytes(usize),
}

/// An answer in the server's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// A Kubernetes `Status`.
    Status(Status),
    /// A page of HTML, as proxies and load balancers send.
    Html {
        /// The HTTP status code; 200 and 502 are the usual ones.
        code: u16,
    },
    /// Any other body.
    Raw {
        /// The HTTP status code.
        code: u16,
        /// The `Content-Type`.
        content_type: String,
        /// The body.
        body: String,
    },
    /// 429 with `Retry-After`.
    TooManyRequests {
        /// When to come again.
        #[serde(default = "one_second")]
        retry_after_seconds: u32,
    },
    /// 500.
    InternalError,
    /// No answer: the connection is reset.
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

    /// A page of HTML with this status code.
    pub fn html(code: u16) -> Self {
        Self::Html { code }
    }
}

/// A fault for the next requests that match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// Which requests.
    #[serde(default)]
    pub filter: Filter,
    /// How many of them; `None` is all until the rules are cleared.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens to them.
    pub action: Action,
}

/// The rules that stand, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    standing: Vec<Rule>,
}

/// What the rules make of one request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
    pub(crate) forbidden: bool,
    pub(crate) lose_answer: bool,
    pub(crate) frozen: bool,
    pub(crate) split_bytes: Option<usize>,
    pub(crate) cut_bytes: Option<usize>,
}

impl Rules {
    pub(crate) fn add(&mut self, rule: Rule) {
        if self.standing.len() >= RULES_MAX {
            self.standing.remove(0);
        }
        self.standing.push(rule);
    }

    /// Takes back what is left of the rules with this filter and action.
    pub(crate) fn remove(&mut self, filter: &Filter, action: &Action) {
        self.standing
            .retain(|rule| rule.filter != *filter || rule.action != *action);
    }

    pub(crate) fn standing(&self) -> Vec<Rule> {
        self.standing.clone()
    }

    pub(crate) fn clear(&mut self) {
        self.standing.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.standing.len()
    }

    /// Judges a request. Each rule that applies has one of its `times` used up; the first answer ends the search, so
    /// that "twice 429, then 500" can be said with two rules.
    pub(crate) fn judge(&mut self, attributes: &Attributes) -> Verdict {
        let mut verdict = Verdict::default();
        for rule in &mut self.standing {
            if rule.times == Some(0) || !rule.filter.matches(attributes) {
                continue;
            }
            if let Some(times) = &mut rule.times {
                *times -= 1;
            }
            match &rule.action {
                Action::DelayMs(milliseconds) => verdict.delay += Duration::from_millis(*milliseconds),
                Action::LoseAnswer => verdict.lose_answer = true,
                Action::Freeze => verdict.frozen = true,
                Action::SplitFramesBytes(bytes) => verdict.split_bytes = Some((*bytes).max(1)),
                Action::CutBodyBytes(bytes) => verdict.cut_bytes = Some(*bytes),
                Action::Forbid => {
                    verdict.forbidden = true;
                    break;
                }
                Action::Answer(answer) => {
                    verdict.answer = Some(answer.clone());
                    break;
                }
            }
        }
        self.standing.retain(|rule| rule.times != Some(0));
        verdict
    }

    /// Whether a request with these attributes would be forbidden; uses nothing up.
    pub(crate) fn forbids(&self, attributes: &Attributes) -> bool {
        self.standing
            .iter()
            .any(|rule| rule.action == Action::Forbid && rule.filter.matches(attributes))
    }
}
