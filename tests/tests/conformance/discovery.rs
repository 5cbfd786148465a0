//! Discovery: in two answers (aggregated discovery) and, as on older API servers, in one answer for each version of
//! each group.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use http::{HeaderValue, Request, header};
use informant_cache::SourceState;
use informant_informer::{ServedResources, TokioEnvironment, discover_matching};
use informant_spec::{Exclude, GroupVersionResource, ResourcePattern};
use informant_tests::cluster::{Cluster, EmbeddedOptions, Login};
use informant_tests::conformance::{ARRIVES_WITHIN, Setting, Testbed};
use informant_tests::wait;
use kube::client::ClientBuilder;
use serde_json::json;
use tower::util::MapRequestLayer;

use crate::label;
use crate::resources::{DEFINITIONS, add_api_service, create_when_served, definition, gadget};

const GROUP: &str = "discovered.example.com";

pub(crate) async fn aggregated_discovery_follows_added_and_removed_kinds(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let requests = Arc::new(AtomicUsize::new(0));
    let aggregated = counting_client(&testbed, &requests, None).await?;
    let gadgets = GroupVersionResource::new(GROUP, "v1", "gadgets");
    let before = everything(&aggregated).await?;
    ensure!(requests.load(Ordering::Relaxed) == 2, "sent {requests:?} requests");
    ensure!(!before.resources.contains_key(&gadgets), "{before:?}");
    ensure!(before.resources.len() > 20, "{before:?}");

    testbed.direct.post(DEFINITIONS, &definition(GROUP)).await?;
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/gadgets", testbed.namespace);
    create_when_served(&testbed.direct, &path, &gadget(GROUP, "first", "red")).await?;
    until_served(&aggregated, "the new kind", |served| {
        served.resources.contains_key(&gadgets)
    })
    .await?;

    testbed.direct.delete(&format!("{DEFINITIONS}/gadgets.{GROUP}")).await?;
    until_served(&aggregated, "no such kind", |served| {
        !served.resources.contains_key(&gadgets)
    })
    .await
}

pub(crate) async fn both_discovery_formats_find_the_same(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let (requests, classic_requests) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let aggregated = counting_client(&testbed, &requests, None).await?;
    let classic = counting_client(&testbed, &classic_requests, Some("application/json")).await?;
    // Other scenarios add and remove kinds meanwhile.
    let own = |served: ServedResources| -> Vec<String> {
        let found = served.resources.into_values();
        let built_in = found.filter(|found| !found.gvr.group.ends_with("example.com"));
        built_in.map(|found| format!("{found:?}")).collect()
    };
    let (one, other) = (own(everything(&aggregated).await?), own(everything(&classic).await?));
    ensure!(one == other, "aggregated: {one:#?}\none by one: {other:#?}");
    let requests = classic_requests.load(Ordering::Relaxed);
    ensure!(requests > 2, "sent {requests} requests");
    Ok(())
}

/// An API service without a backend, next to working ones.
pub(crate) async fn unavailable_api_service_hides_no_other_kind(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let group = "down.example.com";
    let aggregated = counting_client(&testbed, &Arc::default(), None).await?;
    let all = everything(&aggregated).await?;
    add_api_service(&testbed, group, "no-backend", 443).await?;
    let version = format!("{group}/v1");
    until_served(&aggregated, "the service to be reported as unavailable", |served| {
        served.unread.contains_key(&version)
    })
    .await?;
    let now = everything(&aggregated).await?;
    let is_built_in = |resource: &&GroupVersionResource| !resource.group.ends_with("example.com");
    let lost: Vec<_> = all.resources.keys().filter(is_built_in).collect();
    let lost: Vec<_> = lost
        .into_iter()
        .filter(|known| !now.resources.contains_key(known))
        .collect();
    ensure!(lost.is_empty(), "{lost:?}");
    Ok(())
}

/// An API service that becomes unavailable: the embedded API server, behind the real one.
pub(crate) async fn kinds_of_a_failing_api_service_are_kept(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let group = "extension.example.com";
    let gadgets = GroupVersionResource::new(group, "v1", "gadgets");
    let extension = Cluster::embedded(&EmbeddedOptions {
        tls: true,
        ..EmbeddedOptions::default()
    })
    .await?;
    let inside = extension.client().await?;
    inside.post(DEFINITIONS, &definition(group)).await?;
    let path = format!("/apis/{group}/v1/namespaces/default/gadgets");
    create_when_served(&inside, &path, &gadget(group, "first", "red")).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let services = format!("/api/v1/namespaces/{}/services", testbed.namespace);
    testbed.direct.post(&services, &service).await?;
    add_api_service(&testbed, group, "extension", extension.address().port()).await?;

    let aggregated = counting_client(&testbed, &Arc::default(), None).await?;
    let version = format!("{group}/v1");
    until_served(&aggregated, "the extension's kind", |served| {
        served.resources.contains_key(&gadgets) && !served.unread.contains_key(&version)
    })
    .await?;
    let setting = Setting::of(gadgets.clone(), "Gadget", Some("default"));
    let observed = testbed.observe(setting).await?;
    observed.settle(&testbed.direct).await?;
    let before = everything(&aggregated).await?;

    drop(extension);
    let stale = observed.until_state(SourceState::Stale).await?;
    ensure!(stale.synced && observed.informer().snapshot().len() == 1, "{stale:?}");
    until_served(&aggregated, "the service to be reported as unavailable", |served| {
        served.unread.contains_key(&version)
    })
    .await?;
    let now = everything(&aggregated).await?.after(&before);
    ensure!(now.resources.contains_key(&gadgets), "{now:?}");
    Ok(())
}

/// A client that counts its requests, with another `Accept` if one is given.
async fn counting_client(
    testbed: &Testbed,
    requests: &Arc<AtomicUsize>,
    accept: Option<&'static str>,
) -> Result<kube::Client> {
    let requests = Arc::clone(requests);
    let layer = MapRequestLayer::new(move |mut request: Request<kube::client::Body>| {
        requests.fetch_add(1, Ordering::Relaxed);
        if let Some(accept) = accept {
            let accept = HeaderValue::from_static(accept);
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        request
    });
    let config = testbed.config(&Login::admin()).await?;
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

async fn everything(client: &kube::Client) -> Result<ServedResources> {
    let environment = Arc::new(TokioEnvironment::current(1));
    let pattern = ResourcePattern::Everything;
    Ok(discover_matching(client, environment, &pattern, &Exclude::default()).await?)
}

async fn until_served(client: &kube::Client, what: &str, condition: impl Fn(&ServedResources) -> bool) -> Result<()> {
    wait::until(what, ARRIVES_WITHIN, async || {
        let served = everything(client).await.map_err(|error| format!("{error:#}"))?;
        if condition(&served) {
            Ok(())
        } else {
            Err(format!("{:?}; unread: {:?}", served.resources.keys(), served.unread))
        }
    })
    .await
}
