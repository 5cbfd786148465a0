//! The server as a `tower::Service`: one request in, one answer out, no task spawned, no time but the injected clock's.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::body::Body;
use crate::disturb::Disturbed;
use crate::faults::{self, Answer, Attributes, Faults, Verdict};
use crate::handlers::{self, Call};
use crate::options::REQUEST_BYTES_MAX;
use crate::query::Query;
use crate::response;
use crate::routes::{self, Route};
use crate::server::{Inner, RequestRecord};
use crate::status::Status;
use crate::view::View;

/// Why a request got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The server is down, as [`Faults::restart`](crate::Faults::restart) asked.
    #[error("connection refused: the embedded API server is restarting")]
    Refused,
    /// The connection was reset before an answer came, as a fault or a restart asked.
    #[error("connection reset by the embedded API server, as a fault or a restart asked")]
    Reset,
    /// The request's body could not be read.
    #[error("the request's body broke off")]
    RequestBody,
}

/// The server, or one replica of it, as a service. Cheap to clone. Usable as `kube::Client::new(service, "default")`.
#[derive(Clone)]
pub struct ApiService {
    inner: Arc<Inner>,
    view: Arc<View>,
}

impl ApiService {
    pub(crate) fn new(inner: Arc<Inner>, view: Arc<View>) -> Self {
        Self { inner, view }
    }

    async fn answer<B>(self, request: Request<B>) -> Result<Response<Body>, ServiceError>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.inner.is_down() {
            return Err(ServiceError::Refused);
        }
        let life = self.inner.life();
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query());
        let route = routes::route(head.uri.path());
        let attributes = routes::attributes(&head.method, &route, &query);
        let verb = attributes.verb;
        self.record(&head, verb);
        // The way to take faults back must not be cut off by one.
        let verdict = if route == Route::Faults {
            Verdict::default()
        } else {
            self.inner.rules().judge(&attributes)
        };
        if !verdict.delay.is_zero() {
            tokio::select! {
                biased;
                () = life.cancelled() => {}
                () = self.inner.options.clock.sleep(verdict.delay) => {}
            }
        }
        if life.is_cancelled() {
            return Err(ServiceError::Reset);
        }
        if verdict.forbidden {
            return Ok(forbidden(&attributes).into_response());
        }
        if let Some(answer) = verdict.answer {
            return stand_in(answer);
        }
        let body = match read(body).await? {
            Ok(body) => body,
            Err(status) => return Ok(status.into_response()),
        };
        let response = if route == Route::Faults && self.inner.options.faults_over_http {
            faults::answer_http(
                &Faults {
                    inner: Arc::clone(&self.inner),
                },
                &head.method,
                &body,
            )
        } else {
            let call = Call {
                inner: &self.inner,
                view: &self.view,
                method: &head.method,
                accept: text(&head.headers, &header::ACCEPT),
                content_type: text(&head.headers, &header::CONTENT_TYPE),
                query: &query,
                body: &body,
                frozen: verdict.frozen,
            };
            handlers::answer(&call, route, attributes)
        };
        let response = response.unwrap_or_else(Status::into_response);
        if verdict.lose_answer {
            return Err(ServiceError::Reset);
        }
        // Watches see to the end of the server's life themselves.
        let sliced = verdict.split_bytes.is_some() || verdict.cut_bytes.is_some();
        Ok(
            response.map(|body| match sliced || (verb != "watch" && !body.is_whole()) {
                true => Disturbed::body(body, verdict.split_bytes, verdict.cut_bytes, life),
                false => body,
            }),
        )
    }

    fn record(&self, head: &http::request::Parts, verb: &'static str) {
        self.inner.record(RequestRecord {
            at: self.inner.options.clock.now(),
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

/// Reads a request's body. The inner error is an answer.
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

/// What RBAC says. The user's name is the embedded server's only one.
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
    let place = if namespace.is_empty() {
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
            "{subject} is forbidden: User {:?} cannot {verb} resource {resource:?} in API group {group:?} {place}",
            handlers::USER
        ),
    );
    status.details.name.clone_from(name);
    status.details.group.clone_from(group);
    status.details.kind.clone_from(resource);
    status
}

/// The answer of a rule.
fn stand_in(answer: Answer) -> Result<Response<Body>, ServiceError> {
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
            Ok(response::with_type(code, "text/html", Body::whole(page)))
        }
        Answer::Raw {
            code,
            content_type,
            body,
        } => {
            let mut response = response::with_type(code, "application/octet-stream", Body::whole(body));
            if let Ok(content_type) = content_type.parse() {
                response.headers_mut().insert(header::CONTENT_TYPE, content_type);
            }
            Ok(response)
        }
    }
}
