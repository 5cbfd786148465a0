//! `informant why`: what plugins did to an object, or what one plugin did, and because of what.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;

use super::client::{AdminArgs, AdminClient, Clients, escape};
use super::get::{First, wanted_of};
use super::plugin::Format;
use super::table::{self, DASH};
use super::{Exit, in_cluster, output};
use crate::admin::{WhyCause, WhyItem, WhyObject, WhyView};
use crate::recorded::reference;

/// With `--follow`, how long after an answer the next effects are asked for: 1 s.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// Digits of a digest that are shown.
const DIGEST_DIGITS: usize = 12;

/// `informant why`.
#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    /// The object: RESOURCE/NAME, or RESOURCE NAME
    #[arg(value_name = "RESOURCE/NAME", value_parser = First::parse, required_unless_present = "plugin")]
    object: Option<First>,
    /// The name, if the resource is alone before it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The namespace of the object [default: the one of the kubeconfig's context with a port-forward, otherwise any]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The cluster of the object, named as in [cluster.NAME] [default: any]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Show what this plugin did, to whatever objects and other services
    #[arg(long, value_name = "PLUGIN", conflicts_with_all = ["object", "name", "namespace", "cluster"])]
    plugin: Option<String>,
    /// Keep printing effects as they happen
    #[arg(short, long)]
    follow: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    admin: AdminArgs,
}

/// A replica, and what was read there last.
struct Asked {
    name: String,
    client: AdminClient,
    view: WhyView,
}

pub(super) fn run(args: &WhyArgs) -> Result<Exit> {
    let question = Question::of(args)?;
    args.admin.with_clients(async |mut clients| {
        let path = question.path(0);
        let view: WhyView = clients.first.read(&path).await?;
        // Of replicas with shards, each has done something; standbys most often have not.
        let has_part = clients.first.part().is_some();
        let (mut asked, mut exit) = (Vec::new(), Exit::Done);
        let others = clients.ask_each(view.others.clone(), async |client| client.read::<WhyView>(&path).await);
        for (name, answer) in others.await {
            match answer {
                Ok((client, view)) => asked.push(Asked { name, client, view }),
                Err(error) => {
                    output::note(&format!("replica {name} was not asked: {error:#}"));
                    exit = if has_part { Exit::Partial } else { exit };
                }
            }
        }
        let own = view.replica.clone().unwrap_or_default();
        let Clients { first: client, .. } = clients;
        asked.push(Asked {
            name: own,
            client,
            view,
        });
        let mut has_begun = false;
        loop {
            let items = merged(&mut asked);
            if !args.print(&question, &asked, items, has_begun)? || !args.follow {
                return Ok(exit);
            }
            has_begun = true;
            tokio::time::sleep(FOLLOW_EVERY).await;
            for replica in &mut asked {
                replica.view = replica.client.read(&question.path(replica.view.next)).await?;
            }
        }
    })
}

impl WhyArgs {
    /// `false` if stdout was closed.
    fn print(&self, question: &Question, asked: &[Asked], items: Vec<WhyItem>, has_begun: bool) -> Result<bool> {
        if self.follow {
            return self.print_lines(&items);
        }
        match self.output {
            Format::Json => output::json(&WhyView {
                more: asked.iter().any(|replica| replica.view.more),
                dropped: asked.iter().map(|replica| replica.view.dropped).sum(),
                items,
                ..WhyView::default()
            })?,
            Format::Table => {
                output::to_stdout(|out| show(out, &items, self.plugin.is_some(), Timestamp::now()))?;
                if !has_begun {
                    question
                        .notes(asked, items.len())
                        .iter()
                        .for_each(|note| output::note(note));
                }
            }
        }
        Ok(true)
    }

    fn print_lines(&self, items: &[WhyItem]) -> Result<bool> {
        let form = match self.output {
            Format::Json => crate::escape::Form::Json,
            Format::Table => crate::escape::Form::Text,
        };
        let mut out = output::stdout(form);
        let mut write = |item: &WhyItem| match self.output {
            Format::Json => {
                serde_json::to_writer(&mut out, item)?;
                writeln!(out)
            }
            Format::Table => output::line(&mut out, &sentence(item)),
        };
        let written = items.iter().try_for_each(&mut write).and_then(|()| out.flush());
        let is_closed = matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        output::ignore_broken_pipe(written)?;
        Ok(!is_closed)
    }
}

/// What is asked of each replica.
struct Question {
    path: String,
    /// For messages: `deployments/web in namespace shop`.
    about: String,
}

impl Question {
    fn of(args: &WhyArgs) -> Result<Question> {
        if let Some(plugin) = &args.plugin {
            return Ok(Question {
                path: super::plugin::path(plugin, "why") + "?",
                about: format!("plugin/{plugin}"),
            });
        }
        let Some(first) = &args.object else {
            bail!("name an object: RESOURCE/NAME")
        };
        let names: Vec<String> = args.name.iter().cloned().collect();
        let [(resource, name)] = &objects(first, &names)?[..] else {
            bail!("name one object: RESOURCE/NAME, for example deployments/web")
        };
        let namespace = args.namespace.clone().or_else(|| args.admin.context_namespace());
        let mut path = String::from("/api/v1/why/");
        escape(resource, b"/", &mut path);
        let members = [
            ("name", Some(name)),
            ("namespace", namespace.as_ref()),
            ("cluster", args.cluster.as_ref()),
        ];
        let mut separator = '?';
        for (member, value) in members {
            let Some(value) = value else { continue };
            path.push(separator);
            path.push_str(member);
            path.push('=');
            escape(value, b"", &mut path);
            separator = '&';
        }
        path.push('&');
        let of_namespace = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        Ok(Question {
            path,
            about: format!("{resource}/{name}{of_namespace}"),
        })
    }

    fn path(&self, from: u64) -> String {
        format!("{}from={from}", self.path)
    }

    /// What the table does not say.
    fn notes(&self, asked: &[Asked], shown: usize) -> Vec<String> {
        let about = &self.about;
        let dropped: u64 = asked.iter().map(|replica| replica.view.dropped).sum();
        let mut notes = Vec::new();
        if shown == 0 {
            notes.push(format!("no plugin has changed {about} since Informant started"));
        }
        if asked.iter().any(|replica| replica.view.more) {
            notes.push(format!("{about}: these are the newest; there are more"));
        }
        if dropped > 0 {
            notes.push(format!(
                "the record is full: {dropped} older effects of plugins are no longer in it"
            ));
        }
        notes
    }
}

fn objects(first: &First, names: &[String]) -> Result<Vec<(String, String)>> {
    let wanted = wanted_of(first, names)?;
    let each = wanted.into_iter().flat_map(|wanted| {
        let resource = wanted.resource;
        wanted.names.into_iter().map(move |name| (resource.clone(), name))
    });
    Ok(each.collect())
}

/// The effects of all replicas in the order of their times.
fn merged(asked: &mut [Asked]) -> Vec<WhyItem> {
    let are_several = asked.len() > 1;
    let mut items = Vec::new();
    for replica in asked {
        let name = are_several.then(|| replica.name.clone());
        let tagged = replica.view.items.drain(..).map(|item| WhyItem {
            replica: name.clone(),
            ..item
        });
        items.extend(tagged);
    }
    items.sort_by(|one, other| one.time.cmp(&other.time));
    items
}

fn show(out: &mut dyn Write, items: &[WhyItem], with_target: bool, now: Timestamp) -> io::Result<()> {
    let with_replica = items.iter().any(|item| item.replica.is_some());
    let mut headings = vec!["AGE"];
    headings.extend(with_replica.then_some("REPLICA"));
    headings.push("VERB");
    headings.extend(with_target.then_some("TARGET"));
    headings.extend(["RESULT", "BY", "BECAUSE OF"]);
    let row = |item: &WhyItem| {
        let mut row = vec![age(item, now)];
        row.extend(with_replica.then(|| table::or_dash(item.replica.clone(), |name| name)));
        row.push(item.verb.clone());
        row.extend(with_target.then(|| target(item)));
        row.extend([result(item), by(item), because(item)]);
        row
    };
    table::write_columns(out, &headings, items.iter().map(row).collect())
}

fn age(item: &WhyItem, now: Timestamp) -> String {
    let at: Result<Timestamp, _> = item.time.parse();
    at.map_or_else(
        |_| DASH.to_owned(),
        |at| table::ago(u64::try_from(now.duration_since(at).as_millis()).unwrap_or(0)),
    )
}

/// All of an effect in one line.
fn sentence(item: &WhyItem) -> String {
    let WhyItem { time, verb, .. } = item;
    let of_replica = item
        .replica
        .as_ref()
        .map_or_else(String::new, |name| format!(" {name}"));
    let because = item.cause.as_ref().map(|_| format!(", because of {}", because(item)));
    let because = because.unwrap_or_default();
    format!(
        "{time}{of_replica} {verb} {}: {}, by {}{because}",
        target(item),
        result(item),
        by(item)
    )
}

fn target(item: &WhyItem) -> String {
    match &item.object {
        None => item.url.clone(),
        Some(object) if item.subresource.is_empty() => named(object),
        Some(object) => {
            let resource = format!("{}/{}", object.resource, item.subresource);
            named(&WhyObject {
                resource,
                ..object.clone()
            })
        }
    }
}

/// `apps/v1/deployments shop/web in cluster east`
fn named(object: &WhyObject) -> String {
    let name = match object.name.is_empty() {
        true => object.resource.clone(),
        false => reference(&object.resource, &object.namespace, &object.name),
    };
    name + &in_cluster(&object.cluster)
}

/// `ok`, or the error.
fn result(item: &WhyItem) -> String {
    match &item.error {
        None => item.result.clone(),
        Some(error) if error.starts_with(&item.result) => error.clone(),
        Some(error) => format!("{}: {error}", item.result),
    }
}

/// `restarter 0.2.0 (3f9a2c1b04d7) as system:serviceaccount:shop:restarter`
fn by(item: &WhyItem) -> String {
    let version = item.cause.as_ref().map(|cause| {
        let digest = cause.sha256.get(..DIGEST_DIGITS).unwrap_or(&cause.sha256);
        format!(" {} ({digest})", cause.version)
    });
    let identity = item.identity.as_ref().map(|identity| format!(" as {identity}"));
    format!(
        "{}{}{}",
        item.plugin,
        version.unwrap_or_default(),
        identity.unwrap_or_default()
    )
}

/// `update of v1/configmaps shop/settings at 8119 (watch, retry 2)`
fn because(item: &WhyItem) -> String {
    let Some(cause) = &item.cause else {
        return DASH.to_owned();
    };
    let subject = match (&cause.object, &cause.timer) {
        (_, Some(timer)) => format!("timer {timer}"),
        (Some(object), None) if object.name.is_empty() => format!("{} of {}", cause.event, named(object)),
        (Some(object), None) => format!("{} of {}{}", cause.event, named(object), at(object)),
        (None, None) => format!("{} of an object that you may not get", cause.event),
    };
    format!("{subject}{}{}", related(cause), circumstances(cause))
}

fn at(object: &WhyObject) -> String {
    match &*object.resource_version {
        "" => String::new(),
        version => format!(" at {version}"),
    }
}

/// What led to the call of a reconciler.
fn related(cause: &WhyCause) -> String {
    match (&cause.related, &cause.related_event) {
        (Some(object), Some(event)) => format!(", after {event} of {}{}", named(object), at(object)),
        (None, Some(event)) => format!(", after {event} of an object that you may not get"),
        (_, None) => String::new(),
    }
}

fn circumstances(cause: &WhyCause) -> String {
    let retry = match cause.attempt {
        0 => String::new(),
        attempt => format!(", retry {attempt}"),
    };
    match &cause.timer {
        Some(_) if retry.is_empty() => String::new(),
        Some(_) => format!(" ({})", retry.trim_start_matches(", ")),
        None => format!(" ({}{retry})", cause.reason),
    }
}

#[cfg(test)]
mod tests;
