//! `informant get`: objects from the cache of a running daemon, printed like kubectl does; and `informant get sources`.

mod format;
mod freshness;
mod line;
mod merge;
mod print;
mod selected;
mod sources;
mod template;
mod wanted;
mod watch;
mod wide;

use std::sync::OnceLock;

use anyhow::{Result, bail};
use clap::Args;
use informant_object::{FieldSelector, LabelSelector};

use super::client::{AdminArgs, Answer, Clients, ObjectLines, ShardArgs, or_not_found};
use super::{Exit, count, output};
use crate::admin::{AbsentFields, AdminError, Code, Freshness};
use format::Format;
use line::Line;
use merge::Merged;
pub(super) use print::yaml_document;
use print::{Printer, Style};
use selected::SortBy;
use wanted::Wanted;
pub(super) use wanted::{First, of as wanted_of};

/// The resource name that lists sources instead of objects.
const SOURCES: &str = "sources";

/// `informant get`.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// Resources that one informer watches, or informer names, separated by commas: pods, po, v1/pods, deploy.apps,
    /// Pod; or `sources`, for the status of each source
    #[arg(value_parser = First::parse)]
    resource: First,
    /// Show only the objects of these names; also written RESOURCE/NAME, for each object; with `sources`, only this
    /// informer's sources
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Show only objects in this namespace [default: the namespace of the kubeconfig's context, if it names one]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Show objects in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show only objects in these clusters, named as in [cluster.NAME], separated by commas [default: all of the
    /// informer's]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all_clusters")]
    cluster: Vec<String>,
    /// Show objects in all clusters of the informer (the default)
    #[arg(long)]
    all_clusters: bool,
    /// Show only objects with this value in this index
    #[arg(long, value_name = "NAME=VALUE", value_parser = index_and_value)]
    index: Option<(String, String)>,
    /// Show only objects whose labels match: app=web,tier!=db,env in (a,b),!canary
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<String>,
    /// Show only objects with these values in fields: status.phase!=Running,spec.nodeName=node-1
    #[arg(long, value_name = "SELECTOR", value_parser = selected::field_selector, default_value = "", hide_default_value = true)]
    field_selector: FieldSelector,
    /// Sort by the value of this field: .metadata.creationTimestamp, .status.startTime
    #[arg(long, value_name = "JSONPATH", value_parser = SortBy::parse, conflicts_with = "watch")]
    sort_by: Option<SortBy>,
    /// After the objects, show each change, until you end it
    #[arg(short, long)]
    watch: bool,
    /// Wait up to 10s until the cache has seen this resource version, for example the one that your own write returned
    #[arg(long, value_name = "VERSION")]
    at_least: Option<String>,
    /// Fail if a cluster, namespace or kind of the informer is not synced, or a shard is missing [default: show the
    /// others, and warn]
    #[arg(long)]
    require_all: bool,
    /// Show the data of Secrets, not only keys and sizes; needs a daemon that authenticates, and the right to read them
    #[arg(long)]
    show_secrets: bool,
    /// Output format: table, wide, json, yaml, name or jsonpath=TEMPLATE
    #[arg(short, long, value_name = "FORMAT", value_parser = Format::parse, default_value = "table")]
    output: Format,
    /// Add a column with the labels to the table
    #[arg(long)]
    show_labels: bool,
    /// Omit the table's header row
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    shard: ShardArgs,
    #[command(flatten)]
    admin: AdminArgs,
    /// The namespace of the kubeconfig's context, once it was needed.
    #[arg(skip)]
    context_namespace: OnceLock<Option<String>>,
}

fn index_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, for example image=nginx:1.25".to_owned()),
    }
}

/// Validated here too, so that an error is one of the command line.
fn selector(text: &str) -> Result<String, String> {
    match LabelSelector::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn run(args: &GetArgs) -> Result<Exit> {
    let wanted = wanted_of(&args.resource, &args.names)?;
    if let Some(of_sources) = wanted.iter().find(|wanted| wanted.resource == SOURCES) {
        return match (&wanted[..], &of_sources.names[..]) {
            ([_], []) => sources::run(args, None),
            ([_], [name]) => sources::run(args, Some(name)),
            _ => bail!("`{SOURCES}` are shown alone, and for one informer or all"),
        };
    }
    args.admin.with_clients(async |mut clients| {
        clients.select(&args.shard).await?;
        match args.watch {
            true => watch::run(args, &mut clients, &wanted).await,
            false => show(args, &mut clients, &wanted).await,
        }
    })
}

impl Wanted {
    /// The name in each request for this resource.
    fn requests(&self) -> Vec<Option<&str>> {
        match &self.names[..] {
            [] => vec![None],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        }
    }
}

impl GetArgs {
    /// The namespace of the objects: as given, or that of the kubeconfig's context, where it names one.
    fn namespace(&self) -> Option<String> {
        match self.all_namespaces {
            true => None,
            false => self.namespace.clone().or_else(|| {
                let of_context = self.context_namespace.get_or_init(|| self.admin.context_namespace());
                of_context.clone()
            }),
        }
    }

    fn query(&self, name: Option<&str>) -> Vec<(&'static str, String)> {
        let index = self.index.clone();
        let is_set = |flag: bool| flag.then(|| "true".to_owned());
        let all = [
            ("namespace", self.namespace()),
            ("name", name.map(str::to_owned)),
            ("index", index.as_ref().map(|(name, _)| name.clone())),
            ("value", index.map(|(_, value)| value)),
            ("selector", self.selector.clone()),
            (
                "cluster",
                Some(self.cluster.join(",")).filter(|names| !names.is_empty()),
            ),
            ("at-least", self.at_least.clone()),
            ("require-all", is_set(self.require_all)),
            ("show-secrets", is_set(self.show_secrets)),
            ("envelope", is_set(true)),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// `several`: objects of other resources are shown, too; `alone`: a single object is shown without a list.
    fn style(&self, fresh: &[Freshness], absent: AbsentFields, several: bool, alone: bool) -> Style {
        Style {
            absent,
            format: self.output.clone(),
            one_alone: alone,
            each_alone: self.watch,
            with_cluster: freshness::clusters(fresh) == freshness::Count::Several,
            with_namespace: self.namespace().is_none(),
            with_kind: several || freshness::resources(fresh) == freshness::Count::Several,
            with_labels: self.show_labels,
            with_headings: !self.no_headers,
        }
    }
}

fn index_warning(index: &str, objects: u64) -> Option<String> {
    let them = match objects {
        0 => return None,
        1 => "it",
        _ => "them",
    };
    let lacking = count(objects, "object");
    Some(format!(
        "warning: index {index} is missing {lacking}, because its function failed on {them}; see `informant status`"
    ))
}

/// Warnings about what one replica has answered, on stderr.
fn show_notes(args: &GetArgs, replica: Option<&String>, answer: &ObjectLines) -> Result<()> {
    let (missing, fresh) = (answer.missing_sources()?, answer.freshness()?);
    let mut warnings = freshness::missing(&missing);
    warnings.extend(freshness::warnings(&fresh));
    let of_index = args.index.as_ref();
    warnings.extend(of_index.and_then(|(index, _)| index_warning(index, answer.index_failures())));
    warnings.extend(heads_warning(answer.heads()));
    let replica = replica.map_or_else(String::new, |replica| format!(" ({replica})"));
    warnings
        .iter()
        .for_each(|warning| output::note(&format!("{warning}{replica}")));
    Ok(())
}

fn heads_warning(objects: u64) -> Option<String> {
    (objects > 0).then(|| {
        format!(
            "warning: of {} the cache has only the metadata, because its budget is reached; name one to read all of it",
            count(objects, "object")
        )
    })
}

async fn show(args: &GetArgs, clients: &mut Clients<'_>, wanted: &[Wanted]) -> Result<Exit> {
    let one_alone = matches!(wanted, [one] if one.names.len() == 1);
    let mut shown = Shown {
        args,
        several: wanted.len() > 1,
        one_alone,
        printer: None,
        printed: 0,
        freshness: Vec::new(),
        exit: Exit::Done,
    };
    for wanted in wanted {
        if !shown.resource(clients, wanted).await? {
            return Ok(Exit::Done);
        }
    }
    shown.finish()
}

/// What was shown so far.
struct Shown<'a> {
    args: &'a GetArgs,
    several: bool,
    one_alone: bool,
    /// Of a table, the printer of the present resource; otherwise that of all.
    printer: Option<Printer>,
    printed: usize,
    /// Lines about the freshness of each answer.
    freshness: Vec<String>,
    exit: Exit,
}

impl Shown<'_> {
    /// Shows the objects of one resource. `false` if stdout was closed.
    async fn resource(&mut self, clients: &mut Clients<'_>, wanted: &Wanted) -> Result<bool> {
        let mut lines = Vec::new();
        for name in wanted.requests() {
            let Some(mut objects) = self.request(clients, &wanted.resource, name).await? else {
                continue;
            };
            while let Some(line) = objects.next_line().await? {
                let parsed = Line::parse(&line)?;
                if !selected::matches(&self.args.field_selector, &parsed)? {
                    continue;
                }
                match &self.args.sort_by {
                    Some(by) => lines.push((by.key(&parsed)?, line)),
                    None if self.print(&line)? => {}
                    None => return Ok(false),
                }
            }
        }
        lines.sort_by(|one, other| one.0.compare(&other.0));
        for (_, line) in &lines {
            if !self.print(line)? {
                return Ok(false);
            }
        }
        if self.args.output.is_table()
            && let Some(printer) = self.printer.take()
        {
            self.printed += printer.finish()?;
        }
        Ok(true)
    }

    /// Asks for objects. None if there are none of this name, and others are shown.
    async fn request(
        &mut self,
        clients: &mut Clients<'_>,
        resource: &str,
        name: Option<&str>,
    ) -> Result<Option<Merged<ObjectLines>>> {
        let query = self.args.query(name);
        let answers = clients.ask(async |client| or_not_found(client.get(resource, &query).await));
        let answers = answers.await?;
        let is_partial = answers.is_partial();
        if is_partial {
            self.exit = answers.warn();
        }
        match answers.found() {
            Ok(_) if is_partial && self.args.require_all => Err(AdminError {
                code: Code::NotSynced,
                message: "shards are missing, and --require-all asks for all of them; try again".to_owned(),
                fresh_as_of: None,
                missing_right: None,
            }
            .into()),
            Ok(found) => self.begin(found).map(Some),
            // It may be in a shard that is missing; or the others are shown.
            Err(error) if is_partial || (!self.one_alone && name.is_some()) => {
                output::error(&error);
                if self.exit == Exit::Done {
                    self.exit = Exit::Failed;
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn begin(&mut self, answers: Vec<Answer<ObjectLines>>) -> Result<Merged<ObjectLines>> {
        let mut fresh = Vec::new();
        for Answer { replica, answer } in &answers {
            show_notes(self.args, replica.as_ref(), answer)?;
            fresh.push((replica.clone(), answer.freshness()?));
        }
        if let (Some(Answer { answer, .. }), Some((_, sources))) = (answers.first(), fresh.first()) {
            let absent = answer.absent_fields()?;
            selected::check(&self.args.field_selector, &absent)?;
            if self.printer.is_none() {
                let style = self.args.style(sources, absent, self.several, self.one_alone);
                self.printer = Some(Printer::new(style));
            }
        }
        let summary = freshness::of_replicas(&fresh);
        if self.freshness.last() != Some(&summary) {
            self.freshness.push(summary);
        }
        let lines = answers.into_iter().map(|item| item.answer);
        Ok(Merged::new(lines.zip(fresh.into_iter().map(|(_, sources)| sources))))
    }

    fn print(&mut self, line: &[u8]) -> Result<bool> {
        let Some(printer) = &mut self.printer else {
            return Ok(true);
        };
        // Tables of several resources are separated.
        if self.printed > 0 && printer.printed() == 0 && self.args.output.is_table() && !printer.blank_line()? {
            return Ok(false);
        }
        printer.object(line)
    }

    fn finish(mut self) -> Result<Exit> {
        if let Some(printer) = self.printer.take() {
            self.printed += printer.finish()?;
        }
        if self.args.output.is_table() && self.exit != Exit::Failed {
            if self.printed == 0 && self.exit == Exit::Done {
                let namespace = self.args.namespace();
                let place = namespace.map_or(String::new(), |namespace| format!(" in {namespace} namespace"));
                output::note(&format!("No resources found{place}."));
            }
            self.freshness.iter().for_each(|summary| output::note(summary));
        }
        Ok(self.exit)
    }
}
