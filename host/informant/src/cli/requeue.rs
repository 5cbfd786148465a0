//! `informant plugin requeue | trigger`: calls of a plugin that somebody asks for.

use anyhow::Result;
use clap::Args;

use super::client::AdminArgs;
use super::plugin::path;
use super::{Exit, output};
use crate::admin::{RequeueRequest, Requeued, TriggerRequest, TriggeredObjects};

/// `informant plugin requeue`.
#[derive(Debug, Args)]
pub(super) struct RequeueArgs {
    /// Plugin name, as in the configuration
    name: String,
    #[command(flatten)]
    selection: RequeueSelection,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Which dead letters, or which object.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct RequeueSelection {
    /// All dead letters
    #[arg(long, conflicts_with = "key")]
    all: bool,
    /// This object, whether the plugin failed on it or not
    #[arg(long, value_name = "NAMESPACE/NAME")]
    key: Option<String>,
    /// Only objects of this resource: v1/pods, pods, Pod; required if objects of several resources have the key
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Only objects in this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only objects in these clusters, named as in [cluster.NAME], separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    cluster: Vec<String>,
}

/// `informant plugin trigger`.
#[derive(Debug, Args)]
pub(super) struct TriggerArgs {
    /// Plugin name, as in the configuration
    name: String,
    #[command(flatten)]
    selection: TriggerSelection,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Which objects, or which timer.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct TriggerSelection {
    /// Every object that the plugin handles
    #[arg(long)]
    all: bool,
    /// This object
    #[arg(long, value_name = "NAMESPACE/NAME")]
    key: Option<String>,
    /// Only objects of this resource: v1/pods, pods, Pod; required if objects of several resources have the key
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Only objects of this informer
    #[arg(long, value_name = "NAME")]
    informer: Option<String>,
    /// Only objects in this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only objects in these clusters, named as in [cluster.NAME], separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    cluster: Vec<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// This timer instead of objects
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "key", "resource", "informer", "namespace", "cluster", "selector"])]
    timer: Option<String>,
}

/// The clusters of a request, as the admin API takes them; none for all.
pub(super) fn joined(clusters: &[String]) -> Option<String> {
    (!clusters.is_empty()).then(|| clusters.join(","))
}

pub(super) fn requeue(args: &RequeueArgs) -> Result<Exit> {
    let selection = &args.selection;
    let request = RequeueRequest {
        key: selection.key.clone(),
        cluster: joined(&selection.cluster),
        resource: selection.resource.clone(),
        namespace: selection.namespace.clone(),
    };
    args.admin.with_client(async |client| {
        let done = client.post(&path(&args.name, "requeue"), &request).await?;
        output::done(&format!("plugin/{} {}", args.name, requeued(done)))
    })
}

pub(super) fn trigger(args: &TriggerArgs) -> Result<Exit> {
    let selection = &args.selection;
    let request = TriggerRequest {
        all: selection.all,
        cluster: joined(&selection.cluster),
        resource: selection.resource.clone(),
        informer: selection.informer.clone(),
        namespace: selection.namespace.clone(),
        label_selector: selection.selector.clone(),
        key: selection.key.clone(),
        timer: selection.timer.clone(),
    };
    args.admin.with_client(async |client| {
        let done: TriggeredObjects = client.post(&path(&args.name, "trigger"), &request).await?;
        if done.triggered + done.waiting == 0 {
            output::note(&format!("plugin/{} has no such objects: nothing is called", args.name));
            return Ok(Exit::Failed);
        }
        output::done(&format!("plugin/{} {}", args.name, triggered(&done)))
    })
}

fn triggered(done: &TriggeredObjects) -> String {
    let counts = match (done.triggered, done.waiting) {
        (triggered, 0) => format!("triggered: {triggered}"),
        (triggered, waiting) => format!("triggered: {triggered}, already pending: {waiting}"),
    };
    match done.state.as_str() {
        state @ ("paused" | "quarantined") => format!("{counts}; it is {state}, and is called when it is resumed"),
        _ => counts,
    }
}

fn requeued(done: Requeued) -> String {
    match (done.queued, done.waiting) {
        (0, 0) => "has no such dead letters".to_owned(),
        (queued, 0) => format!("requeued: {queued}"),
        (queued, waiting) => format!("requeued: {queued}, already pending: {waiting}"),
    }
}
