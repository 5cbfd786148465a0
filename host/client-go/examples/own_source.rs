//! Lists and watches with code of one's own, here kube's `Api`, into a store of one's own. The handler may block.
//!
//! ```text
//! cargo run -p informant-client-go --example own_source
//! ```

#![expect(clippy::print_stdout, reason = "it prints what it receives")]

use std::error::Error;
use std::sync::Arc;

use futures::StreamExt;
use informant_client_go::{
    EventHandlerFuncs, Informer, InformerConfig, ListWatchError, ListedObjects, ListerWatcher, Object, ResourceVersion,
    Shape, TokioEnvironment, WatchEvent, WatchStream,
};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchParams};
use kube::core::WatchEvent as KubeEvent;
use kube::{Client, Error as KubeError};

/// The pods of all namespaces.
struct Pods(Api<DynamicObject>);

impl Pods {
    fn new(client: Client) -> Pods {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        Pods(Api::all_with(client, &resource))
    }
}

impl ListerWatcher for Pods {
    async fn list(&mut self, version: &ResourceVersion) -> Result<ListedObjects, ListWatchError> {
        let list = self
            .0
            .list(&ListParams::default().at(version.as_str()))
            .await
            .map_err(failure)?;
        Ok(ListedObjects {
            objects: list.items.iter().map(object).collect::<Result<_, _>>()?,
            version: ResourceVersion::new(list.metadata.resource_version.as_deref().unwrap_or_default()),
        })
    }

    async fn watch(&mut self, version: &ResourceVersion) -> Result<WatchStream, ListWatchError> {
        let watch = self
            .0
            .watch(&WatchParams::default().timeout(290), version.as_str())
            .await
            .map_err(failure)?;
        Ok(watch.map(|event| event_of(event.map_err(failure)?)).boxed())
    }
}

fn event_of(event: KubeEvent<DynamicObject>) -> Result<WatchEvent, ListWatchError> {
    Ok(match event {
        KubeEvent::Added(pod) => WatchEvent::Added(object(&pod)?),
        KubeEvent::Modified(pod) => WatchEvent::Modified(object(&pod)?),
        KubeEvent::Deleted(pod) => WatchEvent::Deleted(object(&pod)?),
        KubeEvent::Bookmark(mark) => WatchEvent::Bookmark(ResourceVersion::new(&mark.metadata.resource_version)),
        KubeEvent::Error(status) => return Err(failure(KubeError::Api(status))),
    })
}

fn object(pod: &DynamicObject) -> Result<Object, ListWatchError> {
    let failed = |error: &dyn Error| ListWatchError::Failed(error.to_string());
    let json = serde_json::to_vec(pod).map_err(|error| failed(&error))?;
    Object::parse(&json, &Shape::of("v1", "Pod")).map_err(|error| failed(&error))
}

fn failure(error: KubeError) -> ListWatchError {
    let text = error.to_string();
    match error {
        KubeError::Api(status) if status.code == 410 => ListWatchError::Expired(text),
        KubeError::Api(status) if status.code == 429 => ListWatchError::Unavailable(text),
        KubeError::HyperError(_) | KubeError::Service(_) => ListWatchError::Unavailable(text),
        _ => ListWatchError::Failed(text),
    }
}

/// Calls `print` for each change, as long as the informer lives.
pub(crate) fn follow(
    client: Client,
    print: impl Fn(String) + Clone + Send + 'static,
) -> Result<Informer, Box<dyn Error>> {
    let (added, updated, deleted) = (print.clone(), print.clone(), print);
    let handler = EventHandlerFuncs::new()
        .on_add(move |pod, _| {
            added(format!("add {}", pod.key()));
            Ok(())
        })
        .on_update(move |_, pod, _| {
            updated(format!("update {}", pod.key()));
            Ok(())
        })
        .on_delete(move |key, _, final_state_unknown, _| {
            let missed = if final_state_unknown {
                " while the watch was down"
            } else {
                ""
            };
            deleted(format!("delete {key}{missed}"));
            Ok(())
        });
    let environment = Arc::new(TokioEnvironment::current(1));
    let informer = Informer::start(
        Pods::new(client),
        Box::new(handler),
        environment,
        InformerConfig::default(),
    )?;
    Ok(informer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let informer = follow(Client::try_default().await?, |line| println!("{line}"))?;
    tokio::signal::ctrl_c().await?;
    println!("{} pods", informer.store().len());
    informer.stop().await;
    Ok(())
}
