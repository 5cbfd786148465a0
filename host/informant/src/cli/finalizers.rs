//! `informant plugin finalizers`: the objects that have a plugin's finalizer, and its removal.
//!
//! A plugin that is gone removes no finalizers: its objects can no longer be deleted. The command acts with
//! the rights of its caller on the cluster, and needs neither the plugin nor a running Informant.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use informant_config::{ClusterSection, Config, Resources, validate_name};
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

/// How long an API server may take to answer one request: 10 s.
const RESPONSE_MAX: Duration = Duration::from_secs(10);

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
    if args.remove && config.plugins.contains_key(&args.name) {
        let warning = "adds its finalizer again while it runs: remove its section";
        output::note(&format!("warning: plugin {} {warning}", args.name));
    }
    let runtime = super::runtime()?;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        for (name, resources) in searched {
            let section = flags.over(name, &config.clusters[name].value);
            if let Err(error) = of_cluster(&section, (name, &resources), args, &mut found).await {
                failed.push(format!("{error:#}{}", in_cluster(name)));
            }
        }
    });
    runtime.shutdown_background();
    report(args, &found, &failed)
}

/// Adds the objects of one cluster, as far as it answers.
async fn of_cluster(
    section: &ClusterSection,
    (name, resources): (&str, &[&ResourceName]),
    args: &FinalizersArgs,
    found: &mut Vec<Found>,
) -> Result<()> {
    let cluster = in_time(Cluster::connect(section)).await?;
    let mut done = Vec::new();
    for resource in resources {
        let discovered = in_time(discover(&cluster.client, resource)).await?;
        // Two informers may name it in two ways.
        if done.contains(&discovered.gvr) {
            continue;
        }
        done.push(discovered.gvr.clone());
        let of = ApiResource {
            api_version: discovered.gvr.api_version(),
            group: discovered.gvr.group,
            version: discovered.gvr.version,
            plural: discovered.gvr.plural,
            kind: discovered.kind,
        };
        of_resource((&cluster.client, name), &of, args, found).await?;
    }
    Ok(())
}

/// An answer within [`RESPONSE_MAX`].
async fn in_time<T, E: Into<anyhow::Error>>(answer: impl Future<Output = Result<T, E>>) -> Result<T> {
    match tokio::time::timeout(RESPONSE_MAX, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => bail!("no answer within {} s", RESPONSE_MAX.as_secs()),
    }
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

/// Adds the objects of one resource with the finalizer, which is removed if that is asked for.
async fn of_resource(
    (client, cluster): (&Client, &str),
    of: &ApiResource,
    args: &FinalizersArgs,
    found: &mut Vec<Found>,
) -> Result<()> {
    let (finalizer, resource) = (
        format!("{PREFIX}{}", args.name),
        format!("{}/{}", of.api_version, of.plural),
    );
    let all: Api<DynamicObject> = Api::all_with(client.clone(), of);
    let mut page = ListParams::default().limit(PAGE_OBJECTS_MAX);
    loop {
        let list = in_time(all.list_metadata(&page)).await;
        let list = list.with_context(|| format!("cannot list {resource}"))?;
        for object in list.items {
            if !object.finalizers().contains(&finalizer) {
                continue;
            }
            if args.remove {
                remove(client, of, &object, &finalizer).await?;
            }
            found.push(Found {
                cluster: cluster.to_owned(),
                resource: resource.clone(),
                object,
            });
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
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

fn report(args: &FinalizersArgs, found: &[Found], failed: &[String]) -> Result<Exit> {
    let FinalizersArgs { name, .. } = args;
    if !found.is_empty() {
        output::to_stdout(|out| show(out, found))?;
    }
    if found.is_empty() && !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    let objects = match found.len() {
        0 => "no object".to_owned(),
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    };
    let note = match (args.remove, found.is_empty()) {
        (true, false) => format!("removed {PREFIX}{name} from {objects}"),
        (_, true) => format!("{objects} has {PREFIX}{name}"),
        (false, false) => format!(
            "plugin {name} cleans up after {objects} before they can be deleted; if it is gone for good, add --remove"
        ),
    };
    output::note(&note);
    match failed {
        [] => Ok(Exit::Done),
        failed => bail!("{}; run the command again for the others", failed.join("; ")),
    }
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
