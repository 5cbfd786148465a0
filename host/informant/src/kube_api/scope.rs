//! Whether a call that failed lacks the namespace of its object.

use http::{Request, header};
use informant_plugin_host::{KubeError, KubeErrorCode};
use informant_spec::KubeResource;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use super::send;

/// How much is read of the resources of a version. Those of the core group have 20 KiB.
const RESOURCES_BYTES_MAX: usize = 1 << 20;

/// Discovery's `APIResourceList`.
#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    namespaced: bool,
}

/// The error of a call without a namespace which the API server refused with `error`: that it needs one, if the
/// resource is namespaced.
pub(super) async fn explain(client: Client, resource: &KubeResource, mut error: KubeError) -> KubeError {
    match is_namespaced(client, resource).await {
        Some(true) => KubeError {
            status: error.status,
            ..KubeError::new(
                KubeErrorCode::Invalid,
                format!("{resource} is namespaced, but the address has no `namespace`"),
            )
        },
        Some(false) => error,
        None => {
            error.message += "; if the resource is namespaced, add the namespace to the address";
            error
        }
    }
}

/// None if discovery does not say.
async fn is_namespaced(client: Client, resource: &KubeResource) -> Option<bool> {
    let request = Request::get(resource.root())
        .header(header::ACCEPT, "application/json")
        .body(Body::empty())
        .ok()?;
    let body = send(client, request, RESOURCES_BYTES_MAX).await.ok()?;
    let known: Resources = serde_json::from_slice(&body).ok()?;
    let found = known.resources.iter().find(|known| known.name == resource.plural)?;
    Some(found.namespaced)
}
