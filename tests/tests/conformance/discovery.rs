//! What an API server says it serves: in two answers (aggregated discovery), and as older ones say it, in one for each version of each group.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use http::{HeaderValue, Request, header};
use informant_informer::{Exclude, GroupVersionResource, ResourcePattern, Served, TokioEnvironment, discover_matching};
use informant_tests::cluster::{Cluster, Login};
use informant_tests::conformance::{ARRIVES_WITHIN, Ground};
use informant_tests::wait;
use kube::client::ClientBuilder;
use tower::util::MapRequestLayer;

use crate::label;
use crate::resources::{DEFINITIONS, add_broken_service, create_when_served, definition, gadget};

const GROUP: &str = "discovered.example.com";

pub(crate) async fn kinds_are_found_in_two_answers_and_come_and_go(cluster: &Cluster, name: &str) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    let asked = Arc::new(AtomicUsize::new(0));
    let aggregated = asker(&ground, &asked, None).await?;
    let gadgets = GroupVersionResource::new(GROUP, "v1", "gadgets");
    let before = everything(&aggregated).await?;
    ensure!(asked.load(Ordering::Relaxed) == 2, "asked {asked:?} times");
    ensure!(!before.resources.contains_key(&gadgets), "{before:?}");
    ensure!(before.resources.len() > 20, "{before:?}");

    ground.direct.post(DEFINITIONS, &definition(GROUP)).await?;
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/gadgets", ground.namespace);
    create_when_served(&ground, &path, &gadget(GROUP, "first", "red")).await?;
    until_served(&aggregated, "the new kind", |served| {
        served.resources.contains_key(&gadgets)
    })
    .await?;

    ground.direct.delete(&format!("{DEFINITIONS}/gadgets.{GROUP}")).await?;
    until_served(&aggregated, "no such kind", |served| {
        !served.resources.contains_key(&gadgets)
    })
    .await
}

pub(crate) async fn either_way_of_asking_finds_the_same(cluster: &Cluster, name: &str) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    let (asked, asked_classic) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let aggregated = asker(&ground, &asked, None).await?;
    let classic = asker(&ground, &asked_classic, Some("application/json")).await?;
    // Other scenarios add kinds and take them away meanwhile.
    let own = |served: Served| -> Vec<String> {
        let found = served.resources.into_values();
        let built_in = found.filter(|found| !found.gvr.group.ends_with("example.com"));
        built_in.map(|found| format!("{found:?}")).collect()
    };
    let (one, other) = (own(everything(&aggregated).await?), own(everything(&classic).await?));
    ensure!(one == other, "aggregated: {one:#?}\none by one: {other:#?}");
    let asked = asked_classic.load(Ordering::Relaxed);
    ensure!(asked > 2, "asked {asked} times");
    Ok(())
}

/// An API service that nobody runs, beside everything else.
pub(crate) async fn a_service_that_is_down_hides_no_other_kind(cluster: &Cluster, name: &str) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    let group = "down.example.com";
    let aggregated = asker(&ground, &Arc::default(), None).await?;
    let all = everything(&aggregated).await?;
    add_broken_service(&ground, group).await?;
    let version = format!("{group}/v1");
    until_served(&aggregated, "the service to be said to be down", |served| {
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

/// A client that counts what it asks, with another `Accept` if one is given.
async fn asker(ground: &Ground, asked: &Arc<AtomicUsize>, accept: Option<&'static str>) -> Result<kube::Client> {
    let asked = Arc::clone(asked);
    let layer = MapRequestLayer::new(move |mut request: Request<kube::client::Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        if let Some(accept) = accept {
            let accept = HeaderValue::from_static(accept);
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        request
    });
    let config = ground.config(&Login::admin()).await?;
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

async fn everything(client: &kube::Client) -> Result<Served> {
    let environment = Arc::new(TokioEnvironment::current(1));
    let pattern = ResourcePattern::Everything;
    Ok(discover_matching(client, environment, &pattern, &Exclude::default()).await?)
}

async fn until_served(client: &kube::Client, what: &str, condition: impl Fn(&Served) -> bool) -> Result<()> {
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
