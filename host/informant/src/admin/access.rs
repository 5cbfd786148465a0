//! Who calls the admin API, and what the caller may do there.
//!
//! ```text
//! request ──▶ Bearer token ──TokenReview──▶ caller ──SubjectAccessReview, for the route's right──▶ handler
//!              └ none: 401                    └ no: 401                     └ no: 403
//! ```
//!
//! Only with `[admin] tls`. Without it the port is on loopback, and callers are not asked who they are.
//! The API server of one cluster decides; when it does not, nothing is allowed ([`reviews`]). Each route needs the
//! right in [`rights`]; a route that is not listed there is refused.

mod kept;
mod reviews;
mod rights;

use std::sync::Arc;

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};

use self::kept::TokenHash;
pub(crate) use self::reviews::{ReviewParts, Reviews};
use self::rights::Requirement;
pub(super) use self::rights::Right;
use super::AdminState;
use super::dashboard;
use super::error::{AdminError, Code};

#[derive(Debug, Clone)]
pub(super) enum Caller {
    /// The port has no TLS, so callers are not asked who they are.
    Unknown,
    /// The API server knows the caller.
    User(Arc<User>),
}

#[derive(Debug, Clone)]
pub(super) struct User {
    token: TokenHash,
    info: k8s_openapi::api::authentication::v1::UserInfo,
}

impl Caller {
    /// The name of an authenticated caller, for the log.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Unknown => None,
            Self::User(user) => user.info.username.as_deref(),
        }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        matches!(self, Self::User(_))
    }
}

impl AdminState {
    /// The cluster whose API server decides about callers; none if they are not asked who they are.
    pub(super) fn reviewing_cluster(&self) -> Option<&str> {
        self.reviews.as_deref().map(Reviews::cluster)
    }

    /// Errors: `forbidden` if the caller lacks the right, `unavailable` if the API server does not tell.
    pub(super) async fn authorize(&self, caller: &Caller, right: &Right) -> Result<(), AdminError> {
        match (&self.reviews, caller) {
            (None, _) => Ok(()),
            (Some(reviews), Caller::User(user)) => reviews.authorize(user, right).await,
            (Some(_), Caller::Unknown) => Err(unauthenticated("there is no caller")),
        }
    }
}

/// Lets a request pass if its caller may do what its route does.
pub(super) async fn check_access(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    let Some(reviews) = state.reviews.clone() else {
        return next.run(with_caller(request, Caller::Unknown)).await;
    };
    if dashboard::is_file(request.uri().path()) {
        return next.run(with_caller(request, Caller::Unknown)).await;
    }
    if rights::is_probe(&request) {
        return without_details(next.run(request).await);
    }
    match admit(&state, &reviews, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => {
            state.metrics.daemon.admin_rejected(match error.code {
                Code::Unauthenticated => "unauthenticated",
                Code::Unavailable => "unavailable",
                _ => "forbidden",
            });
            error.into_response()
        }
    }
}

/// The request with its caller.
async fn admit(state: &AdminState, reviews: &Reviews, mut request: Request) -> Result<Request, AdminError> {
    let user = reviews.caller(bearer_token(request.headers())?).await?;
    let caller = Caller::User(user);
    let path = request.extensions().get::<MatchedPath>().cloned();
    let parameters = request.extract_parts::<RawPathParams>().await.ok();
    let parameter = parameters.as_ref().and_then(|all| all.iter().next());
    let parameter = parameter.map_or("", |(_, value)| value);
    match rights::required(request.method(), path.as_ref().map(MatchedPath::as_str), parameter) {
        Requirement::Right(right) => state.authorize(&caller, &right).await?,
        Requirement::OfObjects | Requirement::OfTopics | Requirement::Nothing => {}
        Requirement::Never => {
            let message = format!("{} is not allowed on {}", request.method(), request.uri().path());
            return Err(AdminError::new(Code::MethodNotAllowed, message));
        }
    }
    Ok(with_caller(request, caller))
}

fn with_caller(mut request: Request, caller: Caller) -> Request {
    request.extensions_mut().insert(caller);
    request
}

/// The only bearer token of a request.
fn bearer_token(headers: &HeaderMap) -> Result<&str, AdminError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next(), values.next()) else {
        return Err(unauthenticated("the request has several Authorization headers"));
    };
    let value = value.and_then(|value| value.to_str().ok());
    let (scheme, token) = value.and_then(|value| value.split_once(' ')).unwrap_or_default();
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(unauthenticated(
            "the request has no bearer token; send `Authorization: Bearer TOKEN`, for example with a token from \
             `kubectl create token NAME --audience informant`",
        ));
    }
    Ok(token)
}

fn unauthenticated(message: impl Into<String>) -> AdminError {
    AdminError::new(Code::Unauthenticated, message)
}

/// A probe's answer. Its reasons are for callers with rights.
fn without_details(answer: Response) -> Response {
    match answer.status() {
        StatusCode::OK => answer,
        status => (
            status,
            "check failed; with `?verbose` and a token, the answer has the reasons\n",
        )
            .into_response(),
    }
}

#[cfg(test)]
mod tests;
