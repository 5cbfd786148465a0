//! `informant plugin finalizers`: the objects that have a plugin's finalizer, and its removal.
//!
//! A plugin that is gone removes no finalizers: its objects can no longer be deleted. The command acts with
//! the rights of its caller on the cluster, and needs neither the plugin nor a running Informant.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use clap::Args;
use informant_config::{Config, Resources, validate_name};
use informant_informer::discover;
use informant_spec::ResourceName;
use informant_spec::suggest::did_you_mean;
use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{ClusterArgs, ConfigFlag, Exit, in_cluster, output, table};
use crate::cluster::Cluster;
use crate::config_file;

/// What comes before the name of the plugin.
const PREFIX: &str = "informant.dev/";

/// Objects of a page: 500, as kubectl reads.
const PAGE_OBJECTS_MAX: u32 = 500;

/// How often an object is written again that somebody else changes at the same time.
const CONFLICTS_MAX: u32 = 5;

/// `informant plugin finalizers`.
#[derive(Debug, Args)]
pub(super) struct FinalizersArgs {
    /// Plugin name, as it is or was in the configuration
    #[arg(value_parser = plugin_name)]
    name: String,
    /// Remove the finalizer from these objects: the plugin does not clean up after them any more
    #[arg(long)]
    remove: bool,
    /// Resource of the objects, as in [informer.NAME] [default: those of the plugin's informers]
    #[arg(long, value_name = "RESOURCE")]
    resource: Vec<ResourceName>,
    /// Clusters, as in [cluster.NAME] [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    cluster: Vec<String>,
    #[command(flatten)]
    config: ConfigFlag,
    #[command(flatten)]
    cluster_args: ClusterArgs,
}

/// An object with the finalizer.
struct Found {
    cluster: String,
    resource: String,
    object: PartialObjectMeta<DynamicObject>,
}

fn plugin_name(text: &str) -> Result<String, String> {
    validate_name(text).map(|()| text.to_owned()).map_err(str::to_owned)
}

pub(super) fn run(args: &FinalizersArgs) -> Result<Exit> {
    let config = config_file::load(&args.config.config)?;
    let flags = args.cluster_args.flags();
    flags.validate(&config)?;
    let known: Vec<&str> = config.clusters.keys().map(String::as_str).collect();
    if let Some(unknown) = args.cluster.iter().find(|name| !known.contains(&name.as_str())) {
        if !config.has_named_clusters() {
            bail!("--cluster {unknown}: the configuration has one cluster, without a name");
        }
        let help = did_you_mean(unknown, &known, "clusters");
        bail!("--cluster {unknown}: the configuration has no such cluster; {help}");
    }
    let searched = searched(&config, args)?;
    let runtime = super::runtime()?;
    let done = runtime.block_on(async {
        let mut found = Vec::new();
        for (name, resources) in searched {
            let section = flags.over(name, &config.clusters[name].value);
            let cluster = Cluster::connect(&section).await?;
            for resource in resources {
                found.extend(of_resource(&cluster.client, name, resource, args).await?);
            }
        }
        anyhow::Ok(found)
    });
    runtime.shutdown_background();
    report(args, &done?)
}

/// The clusters, each with the resources whose objects may have the finalizer.
fn searched<'a>(config: &'a Config, args: &'a FinalizersArgs) -> Result<Vec<(&'a str, Vec<&'a ResourceName>)>> {
    let clusters = config.clusters.keys().map(String::as_str);
    let clusters = clusters.filter(|name| args.cluster.is_empty() || args.cluster.iter().any(|wanted| wanted == name));
    if !args.resource.is_empty() {
        return Ok(clusters.map(|name| (name, args.resource.iter().collect())).collect());
    }
    let Some(plugin) = config.plugins.get(&args.name) else {
        bail!(
            "the configuration has no [plugin.{}]: name the resource of its objects with --resource",
            args.name
        );
    };
    let informers: Vec<_> = plugin
        .informers()
        .filter_map(|(name, _)| config.informers.get(name))
        .collect();
    let of_cluster = |cluster: &'a str| {
        let mut resources: Vec<&ResourceName> = Vec::new();
        for informer in &informers {
            if let Resources::One(resource) = &informer.resource.value
                && config.clusters_of(informer).any(|name| name == cluster)
                && !resources.contains(&resource)
            {
                resources.push(resource);
            }
        }
        (cluster, resources)
    };
    let searched: Vec<_> = clusters.map(of_cluster).collect();
    if searched.iter().all(|(_, resources)| resources.is_empty()) {
        bail!(
            "no informer of plugin {} names one resource: name it with --resource",
            args.name
        );
    }
    Ok(searched)
}

/// The objects of one resource with the finalizer, which is removed if that is asked for.
async fn of_resource(
    client: &Client,
    cluster: &str,
    resource: &ResourceName,
    args: &FinalizersArgs,
) -> Result<Vec<Found>> {
    let discovered = discover(client, resource).await?;
    let of = ApiResource {
        api_version: discovered.gvr.api_version(),
        group: discovered.gvr.group,
        version: discovered.gvr.version,
        plural: discovered.gvr.plural,
        kind: discovered.kind,
    };
    let finalizer = format!("{PREFIX}{}", args.name);
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &of);
    let (mut found, mut page) = (Vec::new(), ListParams::default().limit(PAGE_OBJECTS_MAX));
    loop {
        let mut list = all.list_metadata(&page).await.with_context(|| {
            let (resource, cluster) = (resource.text(), in_cluster(cluster));
            format!("cannot list {resource}{cluster}")
        })?;
        for object in list.items.drain(..) {
            if !object.finalizers().contains(&finalizer) {
                continue;
            }
            if args.remove {
                remove(client, &of, &object, &finalizer).await?;
            }
            found.push(Found {
                cluster: cluster.to_owned(),
                resource: resource.text(),
                object,
            });
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Removes the finalizer from an object, and nothing that others have added meanwhile.
async fn remove(
    client: &Client,
    of: &ApiResource,
    object: &PartialObjectMeta<DynamicObject>,
    finalizer: &str,
) -> Result<()> {
    let (name, namespace) = (object.name_any(), object.namespace());
    let api: Api<DynamicObject> = match &namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, of),
        None => Api::all_with(client.clone(), of),
    };
    let failed = || format!("cannot remove {finalizer} from {}", key(object));
    let (mut current, mut conflicts) = (Some(object.clone()), 0);
    while let Some(object) = current {
        let left: Vec<&String> = object.finalizers().iter().filter(|other| *other != finalizer).collect();
        if left.len() == object.finalizers().len() {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": left } });
        match api
            .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => return Ok(()),
            // It is gone, or another one has its name.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 && conflicts < CONFLICTS_MAX => conflicts += 1,
            Err(error) => return Err(error).with_context(failed),
        }
        let again = api.get_metadata_opt(&name).await.with_context(failed)?;
        current = again.filter(|again| again.uid() == object.uid());
    }
    Ok(())
}

fn key(object: &PartialObjectMeta<DynamicObject>) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

fn report(args: &FinalizersArgs, found: &[Found]) -> Result<Exit> {
    let FinalizersArgs { name, .. } = args;
    if !found.is_empty() {
        output::to_stdout(|out| show(out, found))?;
    }
    let objects = match found.len() {
        0 => "no object".to_owned(),
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    };
    output::note(&match (args.remove, found.is_empty()) {
        (true, false) => format!("removed {PREFIX}{name} from {objects}"),
        (_, true) => format!("{objects} has {PREFIX}{name}"),
        (false, false) => format!(
            "plugin {name} cleans up after {objects} before they can be deleted; if it is gone for good, add --remove"
        ),
    });
    Ok(Exit::Done)
}

fn show(out: &mut dyn Write, found: &[Found]) -> io::Result<()> {
    let row = |found: &Found| {
        let state = match found.object.metadata.deletion_timestamp {
            Some(_) => "waits to be deleted",
            None => table::DASH,
        };
        [
            format!("{}{}", found.resource, in_cluster(&found.cluster)),
            key(&found.object),
            state.to_owned(),
        ]
    };
    table::write(out, ["RESOURCE", "OBJECT", "STATE"], found.iter().map(row))
}
