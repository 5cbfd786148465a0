//! `-w`: prints the objects, then each change.
//!
//! The daemon is asked each [`WATCH_PERIOD`]; it answers in one line while nothing has changed. Several changes of an
//! object in between are one.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::line::Line;
use super::print::Printer;
use super::{GetArgs, Wanted, selected, show_notes};
use crate::admin::{AdminError, Code};
use crate::cli::client::AdminClient;
use crate::cli::{Exit, output};

/// How often the daemon is asked for changes: 1 s.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// What a request returned last.
#[derive(Default)]
struct Seen {
    /// What the daemon calls this state.
    tag: Option<String>,
    /// By cluster, resource, namespace and name: the version, and the line.
    objects: BTreeMap<Vec<String>, (String, Vec<u8>)>,
}

pub(super) async fn run(args: &GetArgs, client: &mut AdminClient, wanted: &[Wanted]) -> Result<Exit> {
    let [wanted] = wanted else {
        bail!("--watch shows one resource at a time: name one of them");
    };
    let requests = wanted.requests();
    let mut seen: Vec<Seen> = requests.iter().map(|_| Seen::default()).collect();
    let mut printer = None;
    for round in 0_u64.. {
        for (name, seen) in requests.iter().zip(&mut seen) {
            let changed = changes(args, client, &wanted.resource, *name, seen, &mut printer, round == 0).await?;
            let Some(printer) = &mut printer else { continue };
            for line in changed {
                if !printer.object(&line)? {
                    return Ok(Exit::Done);
                }
            }
        }
        if let Some(printer) = &mut printer
            && !printer.flush()?
        {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(WATCH_PERIOD).await;
    }
    Ok(Exit::Done)
}

/// The lines of objects that are new or have changed since the last request, and the last lines of deleted ones.
async fn changes(
    args: &GetArgs,
    client: &mut AdminClient,
    resource: &str,
    name: Option<&str>,
    seen: &mut Seen,
    printer: &mut Option<Printer>,
    is_first: bool,
) -> Result<Vec<Vec<u8>>> {
    let query = args.query(name);
    let answer = client.get_changed(resource, &query, seen.tag.as_deref()).await;
    let mut answer = match answer {
        Ok(Some(answer)) => answer,
        Ok(None) => return Ok(Vec::new()),
        Err(error) if is_not_found(&error) => {
            if is_first {
                output::error(&error);
            }
            seen.tag = None;
            return Ok(std::mem::take(&mut seen.objects)
                .into_values()
                .map(|(_, line)| line)
                .collect());
        }
        Err(error) => return Err(error),
    };
    seen.tag = answer.tag();
    let fresh = answer.freshness()?;
    if is_first {
        show_notes(args, &answer, &fresh)?;
        selected::check(&args.field_selector, &answer.absent_fields()?)?;
    }
    if printer.is_none() {
        let style = args.style(&fresh, answer.absent_fields()?, false, true);
        *printer = Some(Printer::new(style));
    }
    let mut now = BTreeMap::new();
    let mut changed = Vec::new();
    while let Some(line) = answer.next_line().await? {
        let parsed = Line::parse(&line)?;
        if !selected::matches(&args.field_selector, &parsed)? {
            continue;
        }
        let headline = parsed.headline()?;
        let version = headline.metadata.resource_version.clone();
        let key = vec![
            parsed.cluster.to_owned(),
            headline.resource(),
            headline.metadata.namespace,
            headline.metadata.name,
        ];
        let is_known = seen.objects.remove(&key).is_some_and(|(known, _)| known == version);
        if !is_known {
            changed.push(line.clone());
        }
        now.insert(key, (version, line));
    }
    let gone = std::mem::replace(&mut seen.objects, now);
    changed.extend(gone.into_values().map(|(_, line)| line));
    Ok(changed)
}

pub(super) fn is_not_found(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<AdminError>()
        .is_some_and(|error| error.code == Code::NotFound)
}
