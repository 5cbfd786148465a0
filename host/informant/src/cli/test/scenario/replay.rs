//! The step `replay`: one call as it was captured, and the replies of the cluster in it.

use std::time::Duration;

use informant_plugin_host::{KubeError, KubeErrorCode};
use serde_json::{Map, Value};

use super::objects::{self, Object, Reference};
use super::steps::{read_duration, read_number};
use crate::cli::test::yaml::{Members, Node, Reader, Yaml};

const MEMBERS: [&str; 7] = [
    "attempt",
    "call",
    "finalStateUnknown",
    "kube",
    "object",
    "old",
    "reason",
];

const CALLS: [&str; 3] = ["on-add", "on-delete", "on-update"];

const REPLY_MEMBERS: [&str; 10] = [
    "cursor",
    "error",
    "fieldSelector",
    "kind",
    "labelSelector",
    "object",
    "options",
    "reply",
    "subresource",
    "verb",
];

const ERROR_MEMBERS: [&str; 5] = ["code", "message", "reason", "retryAfter", "status"];

/// A call to make.
#[derive(Debug)]
pub(in crate::cli::test) struct Replay {
    pub(in crate::cli::test) call: String,
    pub(in crate::cli::test) about: About,
    pub(in crate::cli::test) old: Option<Object>,
    pub(in crate::cli::test) reason: String,
    pub(in crate::cli::test) attempt: u32,
    pub(in crate::cli::test) final_state_unknown: bool,
    pub(in crate::cli::test) replies: Vec<Reply>,
}

/// What a call is about.
#[derive(Debug)]
pub(in crate::cli::test) enum About {
    Object(Object),
    /// A deleted object without a last state.
    Key(Reference),
}

/// The reply to one call to the cluster.
#[derive(Debug, Clone)]
pub(in crate::cli::test) struct Reply {
    /// What tells the call from others: `verb`, `object` and so on.
    pub(in crate::cli::test) request: Map<String, Value>,
    pub(in crate::cli::test) answer: Result<Vec<u8>, KubeError>,
}

pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<Replay> {
    let members = reader.members(node, "`replay`", &MEMBERS);
    let call = read_call(reader, node, members)?;
    let Some(object) = members.get("object") else {
        let help = "write what the call was about: object: { apiVersion: v1, kind: Pod, metadata: {...} }";
        reader.refuse(node, "`replay` has no `object`", help);
        return None;
    };
    let about = match &object.value {
        Yaml::Text(_) if call == "on-delete" => About::Key(objects::read_reference(reader, object, "object")?),
        _ => About::Object(objects::object(reader, object, "replay")?),
    };
    let old = members.get("old").and_then(|node| objects::object(reader, node, "old"));
    let reason = members.get("reason").and_then(|node| reader.text(node, "reason"));
    let attempt = members.get("attempt");
    let attempt = attempt.and_then(|node| read_number(reader, node, "attempt", 0, u32::MAX.into()));
    let replies = members.get("kube").map(|node| read_replies(reader, node));
    Some(Replay {
        call,
        about,
        old,
        reason: reason.unwrap_or("trigger").to_owned(),
        attempt: attempt.and_then(|attempt| attempt.try_into().ok()).unwrap_or_default(),
        final_state_unknown: matches!(
            members.get("finalStateUnknown").map(|node| &node.value),
            Some(Yaml::Bool(true))
        ),
        replies: replies.unwrap_or_default(),
    })
}

fn read_call(reader: &mut Reader<'_>, node: &Node, members: Members<'_>) -> Option<String> {
    let named = members.get("call").and_then(|node| reader.text(node, "call"));
    let call = named.filter(|call| CALLS.contains(call));
    if call.is_none() {
        let at = members.get("call").unwrap_or(node);
        let help = format!("write one of {}", CALLS.join(", "));
        reader.refuse(at, "`replay` does not say which function is called (`call`)", help);
    }
    call.map(str::to_owned)
}

fn read_replies(reader: &mut Reader<'_>, node: &Node) -> Vec<Reply> {
    let replies = reader.list(node, "kube").iter();
    replies.filter_map(|node| read_reply(reader, node)).collect()
}

fn read_reply(reader: &mut Reader<'_>, node: &Node) -> Option<Reply> {
    let members = reader.members(node, "an entry of `kube`", &REPLY_MEMBERS);
    let is_answer = |name: &str| matches!(name, "reply" | "error");
    let request = members.0.iter().filter(|member| !is_answer(&member.name));
    let request: Map<_, _> = (request.map(|member| (member.name.clone(), member.value.to_json()))).collect();
    if !(request.contains_key("verb") && request.contains_key("object")) {
        let help = "write the call and its reply: { verb: get, object: v1/pods shop/web-0, reply: {...} }";
        reader.refuse(node, "an entry of `kube` lacks `verb` or `object`", help);
        return None;
    }
    let answer = match (members.get("reply"), members.get("error")) {
        (Some(reply), None) => Ok(reply.to_json().to_string().into_bytes()),
        (None, Some(error)) => Err(read_error(reader, error)?),
        _ => {
            let help = "write what the API server answered: either `reply` or `error`";
            reader.refuse(
                node,
                "an entry of `kube` has not exactly one of `reply` and `error`",
                help,
            );
            return None;
        }
    };
    Some(Reply { request, answer })
}

fn read_error(reader: &mut Reader<'_>, node: &Node) -> Option<KubeError> {
    let members = reader.members(node, "`error`", &ERROR_MEMBERS);
    let mut text = |name: &str| {
        let text = members.get(name).and_then(|node| reader.text(node, name));
        text.unwrap_or_default().to_owned()
    };
    let (code, message, reason) = (text("code"), text("message"), text("reason"));
    let found = KubeErrorCode::ALL.into_iter().find(|known| known.as_str() == code);
    let Some(code) = found else {
        let known: Vec<&str> = KubeErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        let help = format!("write one of the contract: {}", known.join(", "));
        reader.refuse(node, format!("`error` has an unknown `code`: \"{code}\""), help);
        return None;
    };
    let status = members.get("status");
    let status = status.and_then(|node| read_number(reader, node, "status", 0, 599));
    let retry_after: Option<Duration> = members
        .get("retryAfter")
        .and_then(|node| read_duration(reader, node, "retryAfter"));
    Some(KubeError {
        status: status.and_then(|status| status.try_into().ok()).unwrap_or_default(),
        is_from_kubernetes: !reason.is_empty(),
        reason,
        retry_after,
        ..KubeError::new(code, message)
    })
}
