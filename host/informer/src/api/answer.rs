//! Sends a request and checks the head of the response before any of its body is read as data.
//!
//! An API server pretty-prints its errors for some clients, so that a 403 read as a watch would look like many broken
//! lines; a proxy's login page has status 200. Both are detected here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, header};
use informant_cache::Environment;
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::frames::{Frames, SilenceTimeout};
use super::request::{JSON, build_as};
use super::status::{RETRY_AFTER_SECONDS_MAX, StatusBody};

/// How long the head of a response may take, and how long a list may pause. The API server itself ends ordinary
/// requests after 60 s.
pub(crate) const ANSWER_SILENCE_MAX: Duration = Duration::from_secs(90);

/// How much of an error response is read: a `Status` is small, a proxy's error page may not be.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;

/// How much of a response that is not JSON is shown.
const START_SHOWN_BYTES_MAX: usize = 120;

/// Sends `request` and waits for a response with a success status and a JSON content type.
///
/// # Errors
/// [`ApiError`]: unreachable, refused (with the API server's message), not JSON, or compressed against the request.
pub(crate) async fn open(
    client: &Client,
    environment: &Arc<dyn Environment>,
    request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let plain = request
        .headers()
        .get(header::ACCEPT_ENCODING)
        .is_some_and(|value| value == "identity");
    let response = tokio::select! {
        biased;
        response = client.send(request) => response.map_err(|error| ApiError::Unreachable(Box::new(error)))?,
        () = environment.sleep(ANSWER_SILENCE_MAX) => return Err(ApiError::Silent(ANSWER_SILENCE_MAX)),
    };
    if !response.status().is_success() {
        return Err(refusal(environment, response).await);
    }
    if plain && let Some(encoding) = header_text(&response, header::CONTENT_ENCODING).filter(|text| text != "identity")
    {
        return Err(ApiError::Compressed { encoding });
    }
    let content_type = header_text(&response, header::CONTENT_TYPE).unwrap_or_default();
    if content_type.is_empty() || content_type.starts_with("application/json") {
        return Ok(response);
    }
    let start = read_at_most(environment, response.into_body(), START_SHOWN_BYTES_MAX).await;
    Err(ApiError::NotJson {
        content_type,
        start: text_start(&start),
    })
}

/// Marks a request, as an extension, that must not wait for a login, because only the API server's answer counts: a
/// client that renews credentials sends it with those at hand, also if they have expired.
#[derive(Debug, Clone, Copy)]
pub struct WithoutLogin;

/// GETs `path` only to learn whether the API server answers within `deadline`, [`WithoutLogin`] if so marked; returns
/// the HTTP status of its answer. Boxed, because reading the body of another request may lead here.
///
/// # Errors
/// [`ApiError`] if there is no answer; a refusal is one.
pub(crate) fn probe<'a>(
    client: &'a Client,
    environment: &'a Arc<dyn Environment>,
    path: &'a str,
    login: Option<WithoutLogin>,
    deadline: Duration,
) -> Pin<Box<dyn Future<Output = Result<u16, ApiError>> + Send + 'a>> {
    Box::pin(async move {
        let mut request = build_as(Request::get(path), JSON)?;
        if let Some(mark) = login {
            request.extensions_mut().insert(mark);
        }
        let answered = async {
            let response = client.send(request).await;
            let response = response.map_err(|error| ApiError::Unreachable(Box::new(error)))?;
            let status = response.status().as_u16();
            // Read, so that its connection can be used again.
            read_at_most(environment, response.into_body(), ERROR_BODY_BYTES_MAX).await;
            Ok(status)
        };
        tokio::select! {
            biased;
            status = answered => status,
            () = environment.sleep(deadline) => Err(ApiError::TooSlow(deadline)),
        }
    })
}

/// GETs `path` with the given `Accept` header, a form of JSON, and parses its whole body, of at most `bytes_max`.
///
/// # Errors
/// As [`open`]; [`ApiError::NotJson`] and [`ApiError::Damaged`] if the body is not a `T`.
pub(crate) async fn get_json<T: DeserializeOwned>(
    client: &Client,
    environment: &Arc<dyn Environment>,
    path: &str,
    accept: &'static str,
    bytes_max: usize,
) -> Result<T, ApiError> {
    let response = open(client, environment, build_as(Request::get(path), accept)?).await?;
    let content_type = header_text(&response, header::CONTENT_TYPE).unwrap_or_default();
    let body = read_whole(environment, response.into_body(), bytes_max).await?;
    serde_json::from_slice(&body).map_err(|error| match looks_like_json(&body) {
        true => ApiError::Damaged(error.to_string()),
        false => ApiError::NotJson {
            content_type,
            start: text_start(&body),
        },
    })
}

/// Whether `body`, as far as received, may be a JSON object.
pub(crate) fn looks_like_json(body: &[u8]) -> bool {
    body.iter()
        .find(|byte| !byte.is_ascii_whitespace())
        .is_some_and(|byte| *byte == b'{')
}

/// The start of a body as text, for messages.
pub(crate) fn text_start(body: &[u8]) -> String {
    let shown = &body[..body.len().min(START_SHOWN_BYTES_MAX)];
    String::from_utf8_lossy(shown).trim().to_owned()
}

async fn refusal(environment: &Arc<dyn Environment>, response: Response<Body>) -> ApiError {
    let code = response.status().as_u16();
    let wait = header_text(&response, header::RETRY_AFTER).and_then(|text| text.parse::<u64>().ok());
    let body = read_at_most(environment, response.into_body(), ERROR_BODY_BYTES_MAX).await;
    let mut status = StatusBody::parse(&body).unwrap_or_else(|| StatusBody {
        message: Some(text_start(&body)).filter(|text| !text.is_empty()),
        ..StatusBody::of_code(code)
    });
    // Proxies and servers agree on the head; a Status may lack its code.
    status.code = code;
    if let Some(seconds) = wait {
        status.details.get_or_insert_default().retry_after_seconds = Some(seconds.min(RETRY_AFTER_SECONDS_MAX));
    }
    ApiError::refused(status)
}

/// The first `bytes_max` of a body, or what arrives in time. It is only shown, so its own errors do not matter.
async fn read_at_most(environment: &Arc<dyn Environment>, body: Body, bytes_max: usize) -> Vec<u8> {
    let mut frames = short_frames(environment, body);
    let mut read = Vec::new();
    while read.len() < bytes_max
        && let Ok(Some(frame)) = frames.next().await
    {
        read.extend_from_slice(&frame.bytes);
    }
    read.truncate(bytes_max);
    read
}

async fn read_whole(environment: &Arc<dyn Environment>, body: Body, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut frames = short_frames(environment, body);
    let mut read = Vec::new();
    while let Some(frame) = frames.next().await? {
        if read.len() + frame.bytes.len() > bytes_max {
            return Err(ApiError::Damaged(format!("it is longer than {bytes_max} bytes")));
        }
        read.extend_from_slice(&frame.bytes);
    }
    Ok(read)
}

fn short_frames(environment: &Arc<dyn Environment>, body: Body) -> Frames {
    Frames::new(body, Arc::clone(environment), SilenceTimeout::after(ANSWER_SILENCE_MAX))
}

fn header_text(response: &Response<Body>, name: header::HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}
