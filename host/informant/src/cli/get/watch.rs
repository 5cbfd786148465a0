//! `-w`: prints the objects, then each change.
//!
//! The daemon is asked each [`WATCH_PERIOD`]; it answers in one line while nothing has changed. Several changes of an
//! object in between are one. With shards, so is each replica, and an object that moves to another one has not changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};

use super::line::Line;
use super::print::Printer;
use super::{GetArgs, Wanted, selected, show_notes};
use crate::cli::client::{Answer, Answers, Clients, ObjectLines, or_not_found};
use crate::cli::{Exit, output};

/// How often the daemon is asked for changes: 1 s.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// By cluster, resource, namespace and name: the version, and the line.
type Objects = BTreeMap<Vec<String>, (String, Arc<[u8]>)>;

/// What a request returned last.
#[derive(Default)]
struct Seen {
    /// Of each replica, by its address.
    replicas: BTreeMap<String, Part>,
    shown: Objects,
    /// Whether shards were missing.
    was_partial: bool,
}

/// What one replica returned last.
#[derive(Default)]
struct Part {
    /// What the daemon calls this state.
    tag: Option<String>,
    objects: Objects,
}

/// An answer, or nothing while a replica has the same state, or an error if it has no such object. With its address.
type Asked = (String, Result<Option<ObjectLines>>);

pub(super) async fn run(args: &GetArgs, clients: &mut Clients<'_>, wanted: &[Wanted]) -> Result<Exit> {
    let [wanted] = wanted else {
        bail!("--watch shows one resource at a time: name one of them");
    };
    let requests = wanted.requests();
    let mut seen: Vec<Seen> = requests.iter().map(|_| Seen::default()).collect();
    let mut printer = None;
    for round in 0_u64.. {
        for (name, seen) in requests.iter().zip(&mut seen) {
            let answers = seen.ask(args, clients, (&wanted.resource, *name)).await?;
            let changed = seen.changes(args, answers, &mut printer, round == 0).await?;
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

impl Seen {
    async fn ask(
        &self,
        args: &GetArgs,
        clients: &mut Clients<'_>,
        (resource, name): (&str, Option<&str>),
    ) -> Result<Answers<Asked>> {
        let query = args.query(name);
        let answers = clients.ask(async |client| {
            let peer = client.peer().to_owned();
            let tag = self.replicas.get(&peer).and_then(|part| part.tag.as_deref());
            let answer = or_not_found(client.get_changed(resource, &query, tag).await)?;
            anyhow::Ok((peer, answer))
        });
        answers.await
    }

    /// The lines of objects that are new or have changed since the last request, and the last lines of deleted ones.
    async fn changes(
        &mut self,
        args: &GetArgs,
        answers: Answers<Asked>,
        printer: &mut Option<Printer>,
        is_first: bool,
    ) -> Result<Vec<Arc<[u8]>>> {
        let is_partial = answers.is_partial();
        let was_partial = std::mem::replace(&mut self.was_partial, is_partial);
        if is_partial && !was_partial {
            answers.warn();
        }
        let is_same = |item: &Answer<Asked>| matches!(item.answer.1, Ok(None));
        if !is_partial && !was_partial && answers.items.iter().all(is_same) {
            return Ok(Vec::new());
        }
        let mut replicas = BTreeMap::new();
        let mut absent = Vec::new();
        for Answer { replica, answer } in answers.items {
            let (peer, answer) = answer;
            let part = match answer {
                Ok(Some(mut answer)) => {
                    if is_first {
                        show_notes(args, replica.as_ref(), &answer)?;
                        selected::check(&args.field_selector, &answer.absent_fields()?)?;
                    }
                    if printer.is_none() {
                        let style = args.style(&answer.freshness()?, answer.absent_fields()?, false, true);
                        *printer = Some(Printer::new(style));
                    }
                    Part::read(args, &mut answer).await?
                }
                Ok(None) => self.replicas.remove(&peer).unwrap_or_default(),
                Err(error) => {
                    absent.push(error);
                    Part::default()
                }
            };
            replicas.insert(peer, part);
        }
        if let (true, true, Some(error)) = (is_first, absent.len() == replicas.len(), absent.first()) {
            output::error(error);
        }
        self.replicas = replicas;
        Ok(self.show(is_partial))
    }

    /// The lines of what has changed since the last call.
    fn show(&mut self, is_partial: bool) -> Vec<Arc<[u8]>> {
        let mut now = Objects::new();
        for (key, object) in self.replicas.values().flat_map(|part| &part.objects) {
            now.entry(key.clone()).or_insert_with(|| object.clone());
        }
        let is_known =
            |key: &Vec<String>, version: &str| self.shown.get(key).is_some_and(|(known, _)| known == version);
        let new = now.iter().filter(|(key, (version, _))| !is_known(key, version));
        let mut changed: Vec<_> = new.map(|(_, (_, line))| Arc::clone(line)).collect();
        let gone = std::mem::take(&mut self.shown).into_iter();
        for (key, (version, line)) in gone.filter(|(key, _)| !now.contains_key(key)).collect::<Vec<_>>() {
            match is_partial {
                // It may be in a shard that is missing.
                true => drop(now.insert(key, (version, line))),
                false => changed.push(line),
            }
        }
        self.shown = now;
        changed
    }
}

impl Part {
    async fn read(args: &GetArgs, answer: &mut ObjectLines) -> Result<Self> {
        let mut objects = Objects::new();
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
            objects.insert(key, (version, line.into()));
        }
        let tag = answer.tag();
        Ok(Self { tag, objects })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A replica with objects, each as `NAME VERSION`.
    fn part(objects: &[&str]) -> Part {
        let entry = |object: &&str| {
            let (name, version) = object.split_once(' ').unwrap();
            let line: Arc<[u8]> = object.as_bytes().into();
            (vec![name.to_owned()], (version.to_owned(), line))
        };
        Part {
            tag: None,
            objects: objects.iter().map(entry).collect(),
        }
    }

    /// What is shown after these states of replicas.
    fn shown(seen: &mut Seen, replicas: &[&[&str]], is_partial: bool) -> Vec<String> {
        let parts = replicas.iter().enumerate();
        seen.replicas = parts
            .map(|(number, objects)| (number.to_string(), part(objects)))
            .collect();
        let lines = seen.show(is_partial);
        lines
            .iter()
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }

    #[test]
    fn objects_that_move_between_replicas_have_not_changed() {
        let mut seen = Seen::default();
        assert_eq!(
            shown(&mut seen, &[&["a 1", "b 1"], &["c 1"]], false),
            ["a 1", "b 1", "c 1"]
        );
        // One has given `b` up, and the other has not listed it yet.
        assert_eq!(shown(&mut seen, &[&["a 1"], &["c 1"]], true), [""; 0]);
        assert_eq!(shown(&mut seen, &[&["a 1"], &["b 1", "c 2"]], false), ["c 2"]);
        // Both have it for a moment.
        assert_eq!(shown(&mut seen, &[&["a 1", "b 1"], &["b 1", "c 2"]], false), [""; 0]);
        assert_eq!(shown(&mut seen, &[&["a 1"], &["c 2"]], false), ["b 1"]);
    }
}
