//! Answers the plugin's HTTP requests.

use serde_json::{Value, json};

use super::expect::fits;
use super::format::Answer;
use crate::http::{Error, ErrorCode, Request};
use crate::testing::http::Answer as Response;

/// The answers of the scenario, and the requests since the last `expect`.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) answers: Vec<Answer>,
    /// As entries of `http`.
    pub(super) made: Vec<Value>,
}

impl Requests {
    /// The answer of the first that matches and is not used up.
    pub(super) fn answer(&mut self, request: &Request) -> Response {
        let Request { method, url, .. } = request;
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| (name.to_lowercase(), json!(value)));
        let mut made = json!({ "method": method, "url": url, "body": String::from_utf8_lossy(&request.body) });
        made["headers"] = Value::Object(headers.collect());
        let is_its = |answer: &&mut Answer| {
            answer.method.as_ref().is_none_or(|wanted| wanted == method)
                && fits(&answer.url, url)
                && answer.times != Some(0)
        };
        let found = self.answers.iter_mut().find(is_its);
        let response = match found {
            None => Err(("connect", format!("the scenario has no answer to {method} {url}"))),
            Some(answer) => {
                answer.times = answer.times.map(|times| times - 1);
                match answer.error.as_deref() {
                    Some(error) => Err((error, format!("the scenario answers with {error}"))),
                    None => Ok((answer.status, answer.headers.clone(), answer.body.clone())),
                }
            }
        };
        match &response {
            Ok((status, ..)) => made["status"] = json!(status),
            Err((error, _)) => made["error"] = json!(error),
        }
        self.made.push(made);
        response.map_err(|(error, message)| match error {
            "timeout" => Error::new(ErrorCode::Timeout, message),
            _ => Error::new(ErrorCode::Unreachable, message),
        })
    }
}

/// The answer to every request without `allow.http`.
pub(super) fn deny(request: &Request) -> Response {
    let message = format!(
        "{} is not granted: add allow.http to the plugin's section in `config` of the scenario",
        request.origin()
    );
    Err(Error::new(ErrorCode::Denied, message))
}
