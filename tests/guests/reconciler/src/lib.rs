//! Reconciles pods: says what it receives, and asks for another call if the pod has the label `again`.

use informant_plugin_sdk::prelude::*;

struct Reconciles;

impl Plugin for Reconciles {
    fn describe(_: Describe) -> Result<Manifest> {
        let pods = informant::Reconciles::of("v1", "Pod")
            .when(["labels"])
            .owns(Related::of("v1", "Secret"));
        Ok(Manifest::new().reconciles(pods))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Reconciles)
    }
}

impl Reconciler for Reconciles {
    type Object = Value;

    fn reconcile(&mut self, request: &Request, pod: Option<Value>) -> Result<Action> {
        let what = pod.as_ref().map_or("gone", |_| "there");
        let behind = if request.cache_is_behind { " behind" } else { "" };
        info!("{request} {} {what}{behind}", request.reason.as_str());
        let again = pod.is_some_and(|pod| pod["metadata"]["labels"]["again"].is_string());
        Ok(match again {
            true => Action::requeue_after(std::time::Duration::from_secs(3)),
            false => Action::done(),
        })
    }
}

export!(Reconciles: reconciler);
