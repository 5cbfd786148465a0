//! Prints the pods of a cluster whose containers restart: a shared informer with one handler.
//!
//! ```text
//! cargo run -p informant-client-go --example restarts
//! ```

#![expect(clippy::print_stdout, reason = "it prints what it finds")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use informant_client_go::{
    Catalog, EventHandlerFuncs, GroupVersionResource, InformerMetrics, ListenerOptions, Object, SharedInformer,
    SharedInformerFactory, SourceSpec, TokioEnvironment,
};
use kube::Client;

fn restarts(pod: &Object) -> i64 {
    let pod: serde_json::Value = serde_json::from_slice(pod.json()).unwrap_or_default();
    let containers = pod["status"]["containerStatuses"].as_array();
    containers
        .into_iter()
        .flatten()
        .filter_map(|container| container["restartCount"].as_i64())
        .sum()
}

/// Calls `print` for each restart, as long as the informer lives.
pub(crate) async fn watch_restarts(
    client: Client,
    mut print: impl FnMut(String) + Send + 'static,
) -> Result<Arc<SharedInformer>, Box<dyn Error>> {
    let environment = Arc::new(TokioEnvironment::current(1));
    let factory = SharedInformerFactory::new(client, environment, Catalog::new(), InformerMetrics::default());
    let mut pods = SourceSpec::new("pods", GroupVersionResource::new("", "v1", "pods"), "Pod");
    pods.resync = Some(Duration::from_secs(600));
    let informer = factory.informer_for(pods)?;

    let handler = EventHandlerFuncs::new().on_update(move |old, new, _| {
        if old.is_some_and(|old| restarts(new) > restarts(old)) {
            print(format!("{} restarted", new.key()));
        }
        Ok(())
    });
    informer.add_handler(Box::new(handler), ListenerOptions::default())?;
    factory.wait_for_cache_sync(Duration::from_secs(30)).await?;
    Ok(informer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let _informer = watch_restarts(Client::try_default().await?, |line| println!("{line}")).await?;
    std::future::pending().await
}
