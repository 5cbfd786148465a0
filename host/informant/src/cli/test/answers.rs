//! Answers HTTP requests of the plugin under test, as the scenario says.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};
use informant_plugin_host::{HttpBody, HttpCall, HttpClient, HttpError, HttpErrorCode, HttpFuture};
use serde_json::{Map, Value};

use super::matching::matches_text;
use super::recorder::Recorder;
use super::scenario::{Answer, AnswerError, bytes_of};
use crate::recorded;
use crate::sync::lock;

/// The answers that there are, and where requests are recorded. Clones share them.
#[derive(Clone)]
pub(super) struct Answers {
    answers: Arc<Mutex<Vec<Answer>>>,
    recorder: Recorder,
}

impl Answers {
    pub(super) fn new(answers: &[Answer], recorder: &Recorder) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.to_vec())),
            recorder: recorder.clone(),
        }
    }

    pub(super) fn replace(&self, answers: &[Answer]) {
        *lock(&self.answers) = answers.to_vec();
    }

    /// The answer to a request, which is used up by one.
    fn take(&self, method: &str, url: &str) -> Option<Answer> {
        let mut answers = lock(&self.answers);
        let is_for = |answer: &&mut Answer| {
            answer.times != Some(0)
                && answer.method.as_ref().is_none_or(|wanted| wanted == method)
                && matches_text(&answer.url, url)
        };
        let found = answers.iter_mut().find(is_for)?;
        found.times = found.times.map(|times| times - 1);
        Some(found.clone())
    }

    async fn answer(self, call: HttpCall) -> Result<Response<HttpBody>, HttpError> {
        let (head, body) = call.request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (method, url) = (head.method.as_str(), head.uri.to_string());
        let mut request = Map::new();
        request.insert("method".to_owned(), method.into());
        request.insert("url".to_owned(), url.clone().into());
        request.insert("headers".to_owned(), recorded::headers(&head.headers).into());
        if !body.is_empty() {
            request.insert("body".to_owned(), String::from_utf8_lossy(&body).into());
        }
        let answer = self.take(method, &url);
        let (name, value): (_, Value) = match &answer {
            None => ("error", "connect".into()),
            Some(Answer { error: Some(error), .. }) => ("error", error.as_str().into()),
            Some(answer) => ("status", answer.status.into()),
        };
        request.insert(name.to_owned(), value);
        self.recorder.record_http(Value::Object(request));
        let Some(answer) = answer else {
            let message = format!("no answer in the scenario matches {method} {url}");
            return Err(HttpError {
                code: HttpErrorCode::Connect,
                message,
            });
        };
        tokio::time::sleep(answer.after).await;
        match answer.error {
            Some(error) => Err(HttpError {
                code: match error {
                    AnswerError::Connect => HttpErrorCode::Connect,
                    AnswerError::Dns => HttpErrorCode::Dns,
                    AnswerError::Timeout => HttpErrorCode::Timeout,
                },
                message: format!("the scenario answers with the error {}", error.as_str()),
            }),
            None => response(&answer),
        }
    }
}

impl HttpClient for Answers {
    fn send(&self, call: HttpCall) -> HttpFuture {
        Box::pin(self.clone().answer(call))
    }
}

fn response(answer: &Answer) -> Result<Response<HttpBody>, HttpError> {
    let body = answer.body.as_ref().map(bytes_of).unwrap_or_default();
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::builder().status(answer.status);
    let is_json = answer.body.as_ref().is_some_and(|body| !body.is_string());
    let names_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case(CONTENT_TYPE.as_str());
    if is_json && !answer.headers.iter().any(names_type) {
        response = response.header(CONTENT_TYPE, "application/json");
    }
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    // Names and values were checked when the scenario was read.
    response.body(body.boxed_unsync()).map_err(|error| HttpError {
        code: HttpErrorCode::Protocol,
        message: error.to_string(),
    })
}
