//! The server as a `tower::Service`: one request in, one response out, no spawned tasks, no time but that of the
//! injected clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::body::{self, Body};
use crate::call::Call;
use crate::fault::{Answer, FaultyBody, RuleEffects};
use crate::faults::{self, Faults};
use crate::handlers;
use crate::options::REQUEST_BYTES_MAX;
use crate::query::Query;
use crate::replica_cache::ReplicaCache;
use crate::routes::{self, Attributes, Route, USER};
use crate::state::{RequestRecord, ServerState};
use crate::status::Status;

/// Why a request got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The server is down because of [`Faults::restart`](crate::Faults::restart).
    #[error("connection refused: the embedded API server is restarting")]
    Refused,
    /// The connection was reset before a response, by a fault or a restart.
    #[error("connection reset by the embedded API server because of a fault or a restart")]
    Reset,
    /// The request's body could not be read.
    #[error("the request body was cut off")]
    RequestBody,
}

/// The server, or one replica of it, as a service. Cheap to clone. Usable as `kube::Client::new(service, "default")`.
#[derive(Clone)]
pub struct ApiService {
    state: Arc<ServerState>,
    cache: Arc<ReplicaCache>,
}

impl ApiService {
    pub(crate) fn new(state: Arc<ServerState>, cache: Arc<ReplicaCache>) -> Self {
        Self { state, cache }
    }

    async fn answer<B>(self, request: Request<B>) -> Result<Response<Body>, ServiceError>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.state.is_down() {
            return Err(ServiceError::Refused);
        }
        let restart = self.state.restart_token();
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query());
        let route = routes::route(head.uri.path());
        let attributes = routes::attributes(&head.method, &route, &query);
        let verb = attributes.verb;
        self.record(&head, verb);
        // Faults must not block the endpoint that clears them.
        let (effects, released) = {
            let mut rules = self.state.rules();
            let effects = match route {
                Route::Faults => RuleEffects::default(),
                _ => rules.evaluate(&attributes),
            };
            (effects, rules.released())
        };
        if !effects.delay.is_zero() {
            tokio::select! {
                biased;
                () = restart.cancelled() => {}
                () = self.state.options.clock.sleep(effects.delay) => {}
            }
        }
        if effects.held {
            tokio::select! {
                biased;
                () = restart.cancelled() => {}
                () = released.cancelled() => {}
            }
        }
        if restart.is_cancelled() {
            return Err(ServiceError::Reset);
        }
        if effects.forbidden {
            return Ok(forbidden(&attributes).into_response());
        }
        if let Some(answer) = effects.answer {
            return canned_response(answer);
        }
        let body = match read(body).await? {
            Ok(body) => body,
            Err(status) => return Ok(status.into_response()),
        };
        let response = if route == Route::Faults && self.state.options.faults_over_http {
            let faults = Faults::new(Arc::clone(&self.state));
            faults::refuse_foreign(&head.headers).and_then(|()| faults::answer_http(&faults, &head.method, &body))
        } else {
            let call = Call {
                state: &self.state,
                cache: &self.cache,
                method: &head.method,
                accept: text(&head.headers, &header::ACCEPT),
                content_type: text(&head.headers, &header::CONTENT_TYPE),
                query: &query,
                body: &body,
                frozen: effects.frozen,
            };
            handlers::answer(&call, route, attributes)
        };
        let response = response.unwrap_or_else(Status::into_response);
        if effects.lose_answer {
            return Err(ServiceError::Reset);
        }
        // Watches handle restarts themselves.
        let sliced = effects.split_bytes.is_some() || effects.cut_bytes.is_some();
        Ok(
            response.map(|body| match sliced || (verb != "watch" && !body.is_whole()) {
                true => FaultyBody::body(body, effects.split_bytes, effects.cut_bytes, restart),
                false => body,
            }),
        )
    }

    fn record(&self, head: &http::request::Parts, verb: &'static str) {
        self.state.record(RequestRecord {
            at: self.state.options.clock.now(),
            verb,
            uri: head.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned(),
            user_agent: text(&head.headers, &header::USER_AGENT).to_owned(),
        });
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = ServiceError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, ServiceError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

fn text<'a>(headers: &'a http::HeaderMap, name: &header::HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Reads a request's body. The inner error is a response.
async fn read<B>(body: B) -> Result<Result<Bytes, Status>, ServiceError>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, REQUEST_BYTES_MAX).collect().await {
        Ok(body) => Ok(Ok(body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(Err(Status::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {REQUEST_BYTES_MAX}"),
        ))),
        Err(_) => Err(ServiceError::RequestBody),
    }
}

/// RBAC's error. The user name is the only one of this server.
fn forbidden(attributes: &Attributes) -> Status {
    let Attributes {
        verb,
        group,
        resource,
        namespace,
        name,
        ..
    } = attributes;
    let qualified = if group.is_empty() {
        resource.clone()
    } else {
        format!("{resource}.{group}")
    };
    let scope = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    let subject = if name.is_empty() {
        qualified
    } else {
        format!("{qualified} {name:?}")
    };
    let mut status = Status::new(
        403,
        "Forbidden",
        format!(
            "{subject} is forbidden: User {:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}",
            USER
        ),
    );
    status.details.name.clone_from(name);
    status.details.group.clone_from(group);
    status.details.kind.clone_from(resource);
    status
}

fn canned_response(answer: Answer) -> Result<Response<Body>, ServiceError> {
    match answer {
        Answer::Status(status) => Ok(status.into_response()),
        Answer::TooManyRequests { retry_after_seconds } => {
            Ok(Status::too_many_requests(retry_after_seconds).into_response())
        }
        Answer::InternalError => Ok(Status::internal_error("fault injected").into_response()),
        Answer::Reset => Err(ServiceError::Reset),
        Answer::Html { code } => {
            let page =
                format!("<html>\n<head><title>{code}</title></head>\n<body><h1>{code}</h1><hr>proxy</body>\n</html>\n");
            Ok(body::with_type(code, "text/html", Body::whole(page)))
        }
        Answer::Raw {
            code,
            content_type,
            body,
        } => {
            let mut response = body::with_type(code, "application/octet-stream", Body::whole(body));
            if let Ok(content_type) = content_type.parse() {
                response.headers_mut().insert(header::CONTENT_TYPE, content_type);
            }
            Ok(response)
        }
    }
}
