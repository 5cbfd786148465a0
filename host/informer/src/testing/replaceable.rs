//! An API server in whose place another one comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informant_apiserver::ApiServer;
use kube::Client;
use tower::Service as _;

use super::{Rig, RigOptions, api_server, put};

/// A server with the pods `a`, `b` and `c`, and one that has had less written to it: `c` alone.
pub(crate) struct Replaceable {
    pub(crate) old: ApiServer,
    pub(crate) new: ApiServer,
    is_replaced: Arc<AtomicBool>,
}

impl Replaceable {
    pub(crate) fn new() -> Self {
        let (old, new) = (api_server(), api_server());
        for name in ["a", "b", "c"] {
            put(&old, name, 1);
        }
        put(&new, "c", 1);
        Self {
            old,
            new,
            is_replaced: Arc::default(),
        }
    }

    /// An informer that asks the old one, and once it is replaced the new one.
    pub(crate) fn start(&self) -> Rig {
        let (old, new) = (self.old.service(), self.new.service());
        let is_replaced = Arc::clone(&self.is_replaced);
        let service = tower::service_fn(move |request| {
            let mut service = if is_replaced.load(Ordering::Relaxed) {
                new.clone()
            } else {
                old.clone()
            };
            async move { service.call(request).await }
        });
        let options = RigOptions {
            client: Some(Client::new(service, "default")),
            ..RigOptions::default()
        };
        Rig::start_with(&self.old, options)
    }

    /// From now on the new one answers.
    pub(crate) fn replace(&self) {
        self.is_replaced.store(true, Ordering::Relaxed);
    }
}
