//! A client that shows the raw responses.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Full};
use informant_apiserver::{ApiServer, ApiService, Body, BodyError, Options, ServiceError};
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// How long a watch has to be silent to count as silent, in paused time.
const SILENCE: Duration = Duration::from_secs(10);

pub(crate) fn server() -> ApiServer {
    ApiServer::new(Options::default())
}

pub(crate) fn pod(name: &str, labels: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels }, "spec": { "nodeName": "n1" } })
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Names of the items of a list.
    pub(crate) fn names(&self) -> Vec<String> {
        let list = self.json();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Code, reason and message of a `Status`.
    pub(crate) fn failure(&self) -> String {
        let status = self.json();
        assert_eq!(
            (status["kind"].as_str(), status["status"].as_str()),
            (Some("Status"), Some("Failure")),
            "{status}"
        );
        assert_eq!(status["code"], self.code);
        format!(
            "{} {}: {}",
            self.code,
            status["reason"].as_str().unwrap_or(""),
            status["message"].as_str().unwrap()
        )
    }
}

#[derive(Clone)]
pub(crate) struct Client(pub(crate) ApiService);

impl Client {
    pub(crate) fn of(server: &ApiServer) -> Self {
        Self(server.service())
    }

    pub(crate) async fn open(
        &self,
        method: Method,
        uri: &str,
        headers: &[(header::HeaderName, &str)],
        body: String,
    ) -> Result<http::Response<Body>, ServiceError> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        self.0
            .clone()
            .oneshot(request.body(Full::new(Bytes::from(body))).unwrap())
            .await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        uri: &str,
        headers: &[(header::HeaderName, &str)],
        body: String,
    ) -> Answer {
        let response = self.open(method, uri, headers, body).await.unwrap();
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            text,
        }
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.send(Method::GET, uri, &[], String::new()).await
    }

    pub(crate) async fn accepting(&self, uri: &str, accept: &str) -> Answer {
        self.send(Method::GET, uri, &[(header::ACCEPT, accept)], String::new())
            .await
    }

    pub(crate) async fn post(&self, uri: &str, body: Value) -> Answer {
        self.send(
            Method::POST,
            uri,
            &[(header::CONTENT_TYPE, "application/json")],
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn put(&self, uri: &str, body: Value) -> Answer {
        self.send(
            Method::PUT,
            uri,
            &[(header::CONTENT_TYPE, "application/json")],
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn patch(&self, uri: &str, content_type: &str, body: Value) -> Answer {
        self.send(
            Method::PATCH,
            uri,
            &[(header::CONTENT_TYPE, content_type)],
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn delete(&self, uri: &str, body: Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.send(Method::DELETE, uri, &[], body).await
    }

    pub(crate) async fn watch(&self, uri: &str) -> Watch {
        self.watch_accepting(uri, "application/json").await
    }

    pub(crate) async fn watch_accepting(&self, uri: &str, accept: &str) -> Watch {
        let response = self
            .open(Method::GET, uri, &[(header::ACCEPT, accept)], String::new())
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        Watch {
            body: response.into_body(),
            read: Vec::new(),
        }
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Body,
    read: Vec<u8>,
}

/// An item of a watch.
#[derive(Debug, PartialEq)]
pub(crate) enum WatchItem {
    Line(String),
    /// The end, with the unfinished line read so far.
    End(String),
    /// A reset, with the unfinished line read so far.
    Reset(String),
}

impl Watch {
    pub(crate) async fn frame(&mut self) -> Option<Result<Bytes, BodyError>> {
        self.body
            .frame()
            .await
            .map(|frame| frame.map(|frame| frame.into_data().unwrap()))
    }

    pub(crate) async fn next(&mut self) -> WatchItem {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return WatchItem::Line(String::from_utf8(line).unwrap());
            }
            let rest = |read: &mut Vec<u8>| String::from_utf8(std::mem::take(read)).unwrap();
            match self.frame().await {
                None => return WatchItem::End(rest(&mut self.read)),
                Some(Err(_)) => return WatchItem::Reset(rest(&mut self.read)),
                Some(Ok(data)) => self.read.extend_from_slice(&data),
            }
        }
    }

    /// The next event as a document.
    pub(crate) async fn event(&mut self) -> Value {
        match self.next().await {
            WatchItem::Line(line) => serde_json::from_str(&line).unwrap(),
            other => panic!("expected an event, got {other:?}"),
        }
    }

    /// The next event as `TYPE name@version`.
    pub(crate) async fn short(&mut self) -> String {
        short(&self.event().await)
    }

    /// The next `count` events in short.
    pub(crate) async fn shorts(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.short().await);
        }
        events
    }

    pub(crate) async fn ends(&mut self) {
        assert_eq!(self.next().await, WatchItem::End(String::new()));
    }

    pub(crate) async fn is_silent(&mut self) {
        let next = tokio::time::timeout(SILENCE, self.next()).await;
        assert!(next.is_err(), "expected silence, got {next:?}");
    }

    /// All events until the end.
    pub(crate) async fn all(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                WatchItem::Line(line) => events.push(serde_json::from_str(&line).unwrap()),
                WatchItem::End(rest) if rest.is_empty() => return events,
                other => panic!("expected an orderly end, got {other:?}"),
            }
        }
    }
}

pub(crate) fn short(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    format!(
        "{} {}@{}",
        text(&event["type"]),
        text(&metadata["name"]),
        text(&metadata["resourceVersion"])
    )
}
