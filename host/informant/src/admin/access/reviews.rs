//! [`Reviews`]: asks the API server who a caller is, and what the caller may do.
//!
//! Answers are kept for [`REVIEW_KEPT`], so that a caller costs the API server two requests in that time. Whatever
//! keeps the API server from answering is refused as `unavailable`, and not kept.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use informant_cache::{Environment, LogThrottle, Moment};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::client::Body;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, oneshot};

use super::kept::{Kept, QuestionHash, TokenHash};
use super::rights::Right;
use super::{User, unauthenticated};
use crate::admin::error::{AdminError, Code};
use crate::kube_api::{ClientSource, ClientUnavailable, unless_abandoned};
use crate::metrics::DaemonMetrics;
use crate::sync::lock;

/// How long an answer of the API server about a caller is used: 10 s.
pub(crate) const REVIEW_KEPT: Duration = Duration::from_secs(10);

/// How long a request waits for an answer of the API server about its caller: 5 s. Then it is refused.
pub(crate) const REVIEW_WAIT_MAX: Duration = Duration::from_secs(5);

/// Questions that are sent at a time: 16 about tokens, and 16 about rights. Further ones wait, as long as
/// [`REVIEW_WAIT_MAX`] allows.
pub(crate) const REVIEWS_MAX: usize = 16;

/// Bytes of an answer of the API server about a caller that are read: 1 MiB. A longer one is a failed review.
///
/// The user's groups and the review itself, with its token, make up an answer: a few KiB.
pub(crate) const REVIEW_ANSWER_BYTES_MAX: usize = 1 << 20;

/// Callers that are kept; and, apart from them, tokens that were refused. One more replaces the oldest.
pub(crate) const CALLERS_KEPT_MAX: usize = 1_024;

/// Rights of callers, granted or not, that are kept. One more replaces the oldest.
pub(crate) const RIGHTS_KEPT_MAX: usize = 8_192;

/// A failure is logged once in this time, with the number of those that were not: 1 min.
const WARNING_PERIOD: Duration = Duration::from_secs(60);

/// In the same time, how often a failure with another cause than the last logged one is logged at once.
const CAUSES_LOGGED_MAX: usize = 10;

/// The audience of tokens that are meant for Informant only.
const AUDIENCE: &str = "informant";

pub(crate) struct ReviewParts {
    /// Where to get the cluster's client.
    pub(crate) clusters: Box<dyn ClientSource>,
    pub(crate) cluster: String,
    /// Runs the requests: connections are shared with the watches, and must not depend on the admin server's thread.
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) metrics: DaemonMetrics,
}

pub(crate) struct Reviews {
    parts: ReviewParts,
    tokens: Asked,
    /// Apart, so that somebody who tries tokens does not delay callers whose own is kept.
    rights: Asked,
    kept: Mutex<KeptReviews>,
}

/// Questions of one kind.
struct Asked {
    permits: Semaphore,
    warnings: Mutex<Warnings>,
}

pub(super) struct Warnings {
    /// What the last failure that was logged at once began with.
    cause: String,
    lines: LogThrottle,
    changes: LogThrottle,
}

impl Warnings {
    pub(super) fn new() -> Self {
        Self {
            cause: String::new(),
            lines: LogThrottle::new(1, WARNING_PERIOD),
            changes: LogThrottle::new(CAUSES_LOGGED_MAX, WARNING_PERIOD),
        }
    }

    /// If a line is due, returns the number of failures with the same cause that had none.
    pub(super) fn line(&mut self, problem: &str, now: Moment) -> Option<u64> {
        // What follows is the API server's text.
        let cause = problem.split(':').next().unwrap_or_default();
        if self.cause != cause && self.changes.line(now).is_some() {
            self.cause = cause.to_owned();
            self.lines = LogThrottle::new(1, WARNING_PERIOD);
        }
        self.lines.line(now)
    }
}

impl Asked {
    fn new() -> Self {
        Self {
            permits: Semaphore::new(REVIEWS_MAX),
            warnings: Mutex::new(Warnings::new()),
        }
    }
}

#[derive(Clone, Copy)]
enum Question {
    Token,
    Right,
}

impl Question {
    /// As in messages and metrics.
    fn what(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Right => "access",
        }
    }
}

struct KeptReviews {
    users: Kept<TokenHash, Arc<User>>,
    /// Apart, so that somebody who tries tokens displaces no user.
    rejected: Kept<TokenHash, ()>,
    rights: Kept<QuestionHash, bool>,
}

impl Reviews {
    pub(crate) fn new(parts: ReviewParts) -> Self {
        Self {
            parts,
            tokens: Asked::new(),
            rights: Asked::new(),
            kept: Mutex::new(KeptReviews {
                users: Kept::new(REVIEW_KEPT, CALLERS_KEPT_MAX),
                rejected: Kept::new(REVIEW_KEPT, CALLERS_KEPT_MAX),
                rights: Kept::new(REVIEW_KEPT, RIGHTS_KEPT_MAX),
            }),
        }
    }

    pub(super) fn cluster(&self) -> &str {
        &self.parts.cluster
    }

    /// Who has this token.
    /// Errors: `unauthenticated` if the API server refuses it, `unavailable` if the API server does not tell.
    pub(super) async fn caller(&self, token: &str) -> Result<Arc<User>, AdminError> {
        let (hash, token) = (TokenHash::of(token), token.to_owned());
        let answer: Option<Arc<User>> = self
            .ask(
                Question::Token,
                |kept, now| match kept.users.get(&hash, now) {
                    Some(user) => Some(Some(user)),
                    None => kept.rejected.get(&hash, now).map(|()| None),
                },
                |client| async move {
                    let found = who_has(&client, token).await?;
                    Ok(found.map(|info| Arc::new(User { token: hash, info })))
                },
                |kept, answer, now| match answer {
                    Some(user) => kept.users.insert(hash, Arc::clone(user), now),
                    None => kept.rejected.insert(hash, (), now),
                },
                Option::is_some,
            )
            .await?;
        // Not the API server's reason: an authenticator may repeat the token in it.
        let refused = "the API server does not accept the token: it is unknown, expired or for another audience";
        answer.ok_or_else(|| unauthenticated(refused.to_owned()))
    }

    /// Errors: `forbidden` if the user lacks the right, `unavailable` if the API server does not tell.
    pub(super) async fn authorize(&self, user: &User, right: &Right) -> Result<(), AdminError> {
        right.check_names()?;
        let question = QuestionHash::of(user.token, right);
        let spec = SubjectAccessReviewSpec {
            user: user.info.username.clone(),
            groups: user.info.groups.clone(),
            uid: user.info.uid.clone(),
            extra: user.info.extra.clone(),
            ..right.question()
        };
        let allowed = self
            .ask(
                Question::Right,
                |kept, now| kept.rights.get(&question, now),
                |client| async move { is_allowed(&client, spec).await },
                |kept, allowed, now| kept.rights.insert(question, *allowed, now),
                |allowed| *allowed,
            )
            .await?;
        if allowed {
            return Ok(());
        }
        let name = user.info.username.as_deref().unwrap_or_default();
        let error = AdminError::new(Code::Forbidden, format!("user \"{name}\" cannot {right}"));
        Err(error.missing(right.missing()))
    }

    /// Answers from what is `kept`, or asks the API server and keeps its answer.
    async fn ask<A, F>(
        &self,
        question: Question,
        kept: impl Fn(&KeptReviews, Moment) -> Option<A>,
        send: impl FnOnce(Client) -> F,
        keep: impl FnOnce(&mut KeptReviews, &A, Moment),
        is_granted: impl FnOnce(&A) -> bool,
    ) -> Result<A, AdminError>
    where
        A: Send + 'static,
        F: Future<Output = Result<A, String>> + Send + 'static,
    {
        let known = || kept(&self.kept(), self.parts.environment.now());
        if let Some(answer) = known() {
            return Ok(answer);
        }
        let asked = async {
            let _permit = self
                .asked(question)
                .permits
                .acquire()
                .await
                .map_err(|error| error.to_string())?;
            // Another request of the same caller may have asked meanwhile.
            if let Some(answer) = known() {
                return Ok(answer);
            }
            let (answer, answered) = oneshot::channel();
            let sent = unless_abandoned(answer, send(self.client()?));
            self.parts.environment.spawn("admin-review", Box::pin(sent));
            let answer = answered.await.map_err(|_| "Informant is stopping".to_owned())??;
            let result = if is_granted(&answer) { "ok" } else { "denied" };
            self.parts.metrics.admin_reviewed(question.what(), result);
            keep(&mut self.kept(), &answer, self.parts.environment.now());
            Ok(answer)
        };
        let problem = match tokio::time::timeout(REVIEW_WAIT_MAX, asked).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(problem)) => problem,
            Err(_) => format!("the API server did not answer within {} s", REVIEW_WAIT_MAX.as_secs()),
        };
        Err(self.failed(question, &problem))
    }

    /// Counts and logs that the API server did not tell. A caller who is not known does not learn why.
    fn failed(&self, question: Question, problem: &str) -> AdminError {
        let (what, cluster) = (question.what(), &self.parts.cluster);
        self.parts.metrics.admin_reviewed(what, "error");
        let now = self.parts.environment.now();
        let warnings = self.asked(question).warnings.lock();
        if let Some(suppressed) = warnings.unwrap_or_else(PoisonError::into_inner).line(problem, now) {
            tracing::warn!(
                review = what,
                cluster,
                error = problem,
                suppressed,
                code = "callers-not-checked",
                "callers cannot be checked"
            );
        }
        let why = match question {
            Question::Token => "; the log of Informant has the reason".to_owned(),
            Question::Right => format!(": {problem}"),
        };
        let message = format!("cannot check the caller's {what}, so nothing is allowed{why}");
        AdminError::new(Code::Unavailable, message)
    }

    fn client(&self) -> Result<Client, String> {
        let cluster = &self.parts.cluster;
        self.parts.clusters.client(cluster).map_err(|why| match why {
            ClientUnavailable::Unknown => format!("the configuration no longer has the cluster \"{cluster}\""),
            ClientUnavailable::NotYet(why) => {
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                format!("Informant has no client for its cluster yet{why}")
            }
        })
    }

    fn asked(&self, question: Question) -> &Asked {
        match question {
            Question::Token => &self.tokens,
            Question::Right => &self.rights,
        }
    }

    fn kept(&self) -> MutexGuard<'_, KeptReviews> {
        // Changed by calls that do not panic.
        lock(&self.kept)
    }
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reviews")
    }
}

/// Whose token it is; None if it is refused.
///
/// A review is for audiences, and an authenticator that knows no audiences, such as OIDC, vouches for the API server's
/// own only. Its name is not known here, so that it cannot be listed next to Informant's: it is what a review without
/// audiences asks for. An API server that ignores audiences answers without any; the token is then good for the API
/// server itself, which is accepted, too.
async fn who_has(client: &Client, token: String) -> Result<Option<UserInfo>, String> {
    for audiences in [Some(vec![AUDIENCE.to_owned()]), None] {
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences,
                token: token.clone(),
            },
            ..TokenReview::default()
        };
        let status = answered(client, &review).await?.status.unwrap_or_default();
        let has_name = |user: &UserInfo| user.username.as_ref().is_some_and(|name| !name.is_empty());
        match status.user.filter(has_name) {
            Some(user) if status.authenticated == Some(true) => return Ok(Some(user)),
            _ => {}
        }
    }
    Ok(None)
}

async fn is_allowed(client: &Client, spec: SubjectAccessReviewSpec) -> Result<bool, String> {
    let review = SubjectAccessReview {
        spec,
        ..SubjectAccessReview::default()
    };
    let status = answered(client, &review).await?.status.unwrap_or_default();
    Ok(status.allowed && status.denied != Some(true))
}

/// The review with its status. The error contains nothing of the answer, which may repeat the caller's token.
async fn answered<R>(client: &Client, review: &R) -> Result<R, String>
where
    R: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let resource = R::plural(&());
    let invalid = |error: &dyn fmt::Display| format!("the request for {resource} is invalid: {error}");
    let document = serde_json::to_vec(review).map_err(|error| invalid(&error))?;
    let request = kube::core::Request::new(R::url_path(&(), None)).create(&PostParams::default(), document);
    let request = request.map_err(|error| invalid(&error))?.map(Body::from);
    let unreachable = |error: kube::Error| format!("the API server cannot be asked: {error}");
    let (head, body) = client.send(request).await.map_err(unreachable)?.into_parts();
    match head.status.as_u16() {
        200..300 => {}
        403 => {
            return Err(format!(
                "Informant may not create {resource}; apply the output of `informant rbac`"
            ));
        }
        code => return Err(format!("the API server answered {code} to {resource}")),
    }
    let body = Limited::new(body, REVIEW_ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => format!("the API server's answer to {resource} exceeds {REVIEW_ANSWER_BYTES_MAX} bytes"),
        false => format!("the API server's answer to {resource} was interrupted: {error}"),
    })?;
    serde_json::from_slice(&body.to_bytes()).map_err(|_| format!("the API server's answer to {resource} is not one"))
}
