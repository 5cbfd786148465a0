//! Adds the current token to requests. A request that the API server refuses with 401 is sent again, once, if the token
//! was renewed meanwhile.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use informant_informer::{LoginFailed, WithoutLogin};
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::credentials::{Credential, Credentials};

/// Sends requests with the current credentials.
pub(super) struct Authenticated(Arc<Credentials>);

impl Authenticated {
    pub(super) fn new(credentials: Arc<Credentials>) -> Self {
        Self(credentials)
    }
}

impl Service<Request<Body>> for Authenticated {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(send(Arc::clone(&self.0), request))
    }
}

async fn send(credentials: Arc<Credentials>, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let sent = Instant::now();
    if request.extensions().get::<WithoutLogin>().is_some()
        && let Some(at_hand) = credentials.at_hand()
    {
        return send_as(&at_hand, request).await;
    }
    let used = credentials.get().await.map_err(|error| LoginFailed(error.into()))?;
    let again = copy(&request);
    let response = send_as(&used, request).await?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    match (again, credentials.renewed(&used, sent).await) {
        (Some(request), Some(renewed)) => send_as(&renewed, request).await,
        _ => Ok(response),
    }
}

async fn send_as(credential: &Credential, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
    if let Some(header) = &credential.header {
        request.headers_mut().insert(AUTHORIZATION, header.clone());
    }
    Ok(credential.client.send(request).await?)
}

/// A copy of a request; none if its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
