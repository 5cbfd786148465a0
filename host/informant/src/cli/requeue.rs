//! `informant plugin requeue | trigger`: calls of a plugin that somebody asks for.

use anyhow::Result;
use clap::Args;

use super::client::{AdminArgs, Answers, or_not_found};
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
    args.admin.with_clients(async |mut clients| {
        let path = path(&args.name, "requeue");
        let answers = clients.ask(async |client| or_not_found(client.post::<Requeued>(&path, &request).await));
        let answers = answers.await?;
        let exit = warn(&answers, request.key.is_some());
        let done = answers.found()?.into_iter().map(|item| item.answer);
        let done = done.fold(Requeued::default(), |sum, one| Requeued {
            queued: sum.queued + one.queued,
            waiting: sum.waiting + one.waiting,
        });
        output::done(&format!("plugin/{} {}", args.name, requeued(done)))?;
        Ok(exit)
    })
}

/// Warns of shards whose replicas did not answer, unless the object that is meant was found in another one.
fn warn<T>(answers: &Answers<Result<T>>, is_about_one: bool) -> Exit {
    match is_about_one && answers.has_found() {
        true => Exit::Done,
        false => answers.warn_of_action(),
    }
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
    args.admin.with_clients(async |mut clients| {
        let path = path(&args.name, "trigger");
        let answers = clients.ask(async |client| or_not_found(client.post::<TriggeredObjects>(&path, &request).await));
        let answers = answers.await?;
        let exit = warn(&answers, request.key.is_some());
        let done = all_triggered(answers.found()?.into_iter().map(|item| item.answer));
        if done.triggered + done.waiting == 0 {
            output::note(&format!("plugin/{} has no such objects: nothing is called", args.name));
            return Ok(Exit::Failed);
        }
        output::done(&format!("plugin/{} {}", args.name, triggered(&done)))?;
        Ok(exit)
    })
}

/// What replicas have triggered together, with a state in which the plugin is not called, if it is in one anywhere.
fn all_triggered(each: impl Iterator<Item = TriggeredObjects>) -> TriggeredObjects {
    each.fold(TriggeredObjects::default(), |sum, one| TriggeredObjects {
        triggered: sum.triggered + one.triggered,
        waiting: sum.waiting + one.waiting,
        state: match is_called_later(&sum.state) {
            true => sum.state,
            false => one.state,
        },
    })
}

fn is_called_later(state: &str) -> bool {
    ["paused", "quarantined"].contains(&state)
}

fn triggered(done: &TriggeredObjects) -> String {
    let counts = match (done.triggered, done.waiting) {
        (triggered, 0) => format!("triggered: {triggered}"),
        (triggered, waiting) => format!("triggered: {triggered}, already pending: {waiting}"),
    };
    match done.state.as_str() {
        state if is_called_later(state) => format!("{counts}; it is {state}, and is called when it is resumed"),
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
