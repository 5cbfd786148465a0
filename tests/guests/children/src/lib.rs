//! Reconciles ConfigMaps with the label `site`, as their data says:
//!
//! - `secrets` and `deployments` are names of children, separated by commas: Secrets whole, Deployments by fields.
//! - `finalizer: "yes"` uses the finalizer helper, whose cleanup logs `clean up`.
//! - `status` is the message of a condition, Ready. ConfigMaps have no status: an API server refuses the write.
//!
//! Logs `written=N pruned=N refused=[Secret web/a] skipped=REASON` for the children.

use informant_plugin_sdk::prelude::*;

struct Children;

impl Plugin for Children {
    fn describe(_: Describe) -> Result<Manifest> {
        let maps = Reconciles::of("v1", "ConfigMap")
            .label_selector("site")
            .owns(Related::of("v1", "Secret"))
            .owns(Related::of("apps/v1", "Deployment"));
        Ok(Manifest::new().reconciles(maps))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Children)
    }
}

impl Reconciler for Children {
    type Object = Value;

    fn reconcile(&mut self, request: &Request, map: Option<Value>) -> Result<Action> {
        let Some(map) = map else {
            return Ok(Action::done());
        };
        let data = &map["data"];
        let clean_up = || {
            info!("clean up");
            Ok(())
        };
        if data["finalizer"] == "yes" && !finalizer::finalize(request, clean_up)? {
            return Ok(Action::done());
        }
        let done = kube::children(request)
            .whole(names(&data["secrets"]).map(secret))
            .fields(names(&data["deployments"]).map(deployment))
            .set()?;
        info!(
            "written={} pruned={} refused=[{}] skipped={}",
            done.written,
            done.pruned,
            done.refused.join(", "),
            done.prune_skipped.unwrap_or_default()
        );
        if let Some(message) = data["status"].as_str() {
            let ready = kube::Condition::new("Ready", true, "Reconciled").message(message);
            kube::set_status(request, &json!({ "conditions": [ready] }))?;
        }
        Ok(Action::done())
    }
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    let names = list.as_str().unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty())
}

fn secret(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "text": "x" } })
}

fn deployment(name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": { "replicas": 1 } })
}

export!(Children: reconciler);
