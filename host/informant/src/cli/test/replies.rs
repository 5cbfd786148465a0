//! Answers the plugin's calls to the cluster from a capture, in its order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use informant_plugin_host::{KubeApi, KubeCall, KubeError, KubeErrorCode, KubeFuture, KubeRequest};
use serde_json::{Map, Value};

use super::flow::flow;
use super::scenario::Reply;
use crate::recorded;
use crate::sync::lock;

/// The replies that are left. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Replies(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    left: VecDeque<Reply>,
    /// How the first call differed that is not the captured one.
    difference: Option<String>,
}

impl Replies {
    /// For the call that is replayed next.
    pub(super) fn set(&self, replies: &[Reply]) {
        *lock(&self.0) = State {
            left: replies.iter().cloned().collect(),
            difference: None,
        };
    }

    /// How the calls differed from the captured ones, if they did.
    pub(super) fn difference(&self) -> Option<String> {
        let state = lock(&self.0);
        let unused = || {
            let first = state.left.front()?;
            Some(format!(
                "the plugin did not make the call {}, which the capture has: remove it from `kube` of the step if that is \
                 right",
                shown(&first.request)
            ))
        };
        state.difference.clone().or_else(unused)
    }

    fn answer(&self, call: &KubeCall) -> Result<Vec<u8>, KubeError> {
        let made = recorded::kube_call(&KubeRequest::from(call));
        let mut state = lock(&self.0);
        let difference = match state.left.front() {
            Some(next) if next.request == made => {
                let next = state.left.pop_front();
                return next.map_or_else(|| Ok(Vec::new()), |next| next.answer);
            }
            Some(next) => format!(
                "the plugin made the call {}, but the captured one is {}: correct the plugin, or `kube` of the step",
                shown(&made),
                shown(&next.request)
            ),
            None => format!(
                "the plugin made the call {}, for which the capture has no reply: add it to `kube` of the step",
                shown(&made)
            ),
        };
        state.difference.get_or_insert_with(|| difference.clone());
        Err(KubeError::new(KubeErrorCode::Unavailable, difference))
    }
}

impl KubeApi for Replies {
    fn call(&self, call: KubeCall) -> KubeFuture {
        let answer = self.answer(&call);
        Box::pin(async { answer })
    }
}

fn shown(request: &Map<String, Value>) -> String {
    flow(&Value::Object(request.clone()))
}

#[cfg(test)]
mod tests {
    use informant_plugin_host::{KubeAction, KubeAddress, KubeDelete, KubePropagation, KubePurpose};
    use informant_spec::KubeResource;
    use serde_json::json;

    use super::*;

    fn delete(options: KubeDelete) -> KubeCall {
        KubeCall {
            plugin: Arc::from("greeter"),
            address: KubeAddress {
                cluster: String::new(),
                resource: KubeResource::parse("v1/pods").unwrap(),
                namespace: "shop".to_owned(),
                name: "web-0".to_owned(),
                subresource: String::new(),
            },
            action: KubeAction::Delete(options),
            uid: String::new(),
            purpose: KubePurpose::Plugin,
            identity: None,
            answer_bytes_max: 1 << 20,
        }
    }

    #[test]
    fn a_write_with_other_options_is_another_call() {
        let request = json!({
            "verb": "delete", "object": "v1/pods shop/web-0",
            "options": { "propagationPolicy": "Orphan", "gracePeriodSeconds": 30 },
        });
        let Value::Object(request) = request else {
            unreachable!("it is an object");
        };
        let replies = Replies::default();
        replies.set(&[Reply {
            request,
            answer: Ok(b"{}".to_vec()),
        }]);
        let options = |propagation| KubeDelete {
            propagation: Some(propagation),
            grace_period_seconds: Some(30),
            ..KubeDelete::default()
        };
        replies
            .answer(&delete(options(KubePropagation::Foreground)))
            .unwrap_err();
        insta::assert_snapshot!(replies.difference().unwrap(), @"the plugin made the call { object: v1/pods shop/web-0, options: { gracePeriodSeconds: 30, propagationPolicy: Foreground }, verb: delete }, but the captured one is { object: v1/pods shop/web-0, options: { gracePeriodSeconds: 30, propagationPolicy: Orphan }, verb: delete }: correct the plugin, or `kube` of the step");
        let answer = replies.answer(&delete(options(KubePropagation::Orphan)));
        assert_eq!(answer.unwrap(), b"{}");
    }
}
