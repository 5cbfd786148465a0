//! The objects of several replicas as one list, in the order in which each of them has its own.
//!
//! Nothing is collected: of each answer, one line is read ahead.

use std::collections::BTreeMap;

use anyhow::Result;
use informant_spec::GroupVersionResource;

use super::line::{Line, Metadata};
use crate::admin::Freshness;
use crate::cli::client::ObjectLines;

/// Objects as they arrive, one per line.
pub(super) trait Lines {
    /// The next one; `None` after the last.
    async fn next(&mut self) -> Result<Option<Vec<u8>>>;
}

impl Lines for ObjectLines {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        self.next_line().await
    }
}

/// Lines of several answers.
pub(super) struct Merged<L> {
    parts: Vec<Part<L>>,
}

struct Part<L> {
    lines: L,
    /// The sources of its objects, by number.
    sources: BTreeMap<u32, Freshness>,
    ahead: Ahead,
}

/// What follows in an answer.
enum Ahead {
    Unread,
    Line(Rank, Vec<u8>),
    End,
}

/// Where an object is in the list: every daemon sorts by this.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    cluster: String,
    /// That of its source; none for all namespaces.
    source_namespace: Option<String>,
    resource: Option<GroupVersionResource>,
    namespace: String,
    name: String,
}

impl<L: Lines> Merged<L> {
    /// Answers, each with its sources.
    pub(super) fn new(answers: impl IntoIterator<Item = (L, Vec<Freshness>)>) -> Self {
        let parts = answers.into_iter().map(|(lines, sources)| Part {
            lines,
            sources: sources.into_iter().map(|source| (source.id, source)).collect(),
            ahead: Ahead::Unread,
        });
        Self { parts: parts.collect() }
    }

    pub(super) async fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        if let [only] = &mut self.parts[..] {
            return only.lines.next().await;
        }
        for part in &mut self.parts {
            part.read_ahead().await?;
        }
        let first = self.parts.iter().filter_map(Part::rank).min().cloned();
        let Some(first) = first else { return Ok(None) };
        let mut line = None;
        for part in &mut self.parts {
            // While a shard moves, two replicas have its objects.
            if part.rank() == Some(&first)
                && let Ahead::Line(_, own) = std::mem::replace(&mut part.ahead, Ahead::Unread)
            {
                line.get_or_insert(own);
            }
        }
        Ok(line)
    }
}

impl<L: Lines> Part<L> {
    async fn read_ahead(&mut self) -> Result<()> {
        if matches!(self.ahead, Ahead::Unread) {
            self.ahead = match self.lines.next().await? {
                Some(line) => Ahead::Line(self.rank_of(&line)?, line),
                None => Ahead::End,
            };
        }
        Ok(())
    }

    fn rank_of(&self, line: &[u8]) -> Result<Rank> {
        let line = Line::parse(line)?;
        let Metadata { namespace, name, .. } = line.headline()?.metadata;
        let source = self.sources.get(&line.source);
        Ok(Rank {
            cluster: line.cluster.to_owned(),
            source_namespace: source.and_then(|source| source.namespace.clone()),
            resource: source.and_then(|source| GroupVersionResource::parse(&source.resource)),
            namespace,
            name,
        })
    }
}

impl<L> Part<L> {
    fn rank(&self) -> Option<&Rank> {
        match &self.ahead {
            Ahead::Line(rank, _) => Some(rank),
            Ahead::Unread | Ahead::End => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use serde_json::json;

    use super::*;

    impl Lines for VecDeque<Vec<u8>> {
        async fn next(&mut self) -> Result<Option<Vec<u8>>> {
            Ok(self.pop_front())
        }
    }

    fn source(id: u32, cluster: &str, resource: &str) -> Freshness {
        Freshness {
            id,
            cluster: cluster.to_owned(),
            resource: resource.to_owned(),
            namespace: None,
            state: "Live".to_owned(),
            version: None,
            age_ms: None,
        }
    }

    /// An object `NAMESPACE/NAME` of a source.
    fn line(source: &Freshness, key: &str, version: &str) -> Vec<u8> {
        let (namespace, name) = key.split_once('/').unwrap();
        let metadata = json!({ "namespace": namespace, "name": name, "resourceVersion": version });
        let object = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata });
        let line = json!({ "cluster": source.cluster, "source": source.id, "object": object });
        line.to_string().into_bytes()
    }

    type Answer = (VecDeque<Vec<u8>>, Vec<Freshness>);

    /// Cluster, key and version of each object.
    async fn merged(answers: Vec<Answer>) -> String {
        let mut merged = Merged::new(answers);
        let mut shown = Vec::new();
        while let Some(line) = merged.next_line().await.unwrap() {
            let line = Line::parse(&line).unwrap();
            let metadata = line.headline().unwrap().metadata;
            let Metadata {
                namespace,
                name,
                resource_version,
                ..
            } = metadata;
            let of_cluster = format!("{} {namespace}/{name} {resource_version}", line.cluster);
            shown.push(of_cluster.trim_start().to_owned());
        }
        shown.join("\n")
    }

    #[tokio::test]
    async fn objects_of_replicas_are_one_list_by_namespace_and_name() {
        let answer = |keys: &[&str]| {
            let source = source(1, "", "pods");
            let lines: VecDeque<_> = keys.iter().map(|key| line(&source, key, "1")).collect();
            (lines, vec![source])
        };
        let answers = vec![
            answer(&["team-1/a", "team-1/b", "team-10/a", "team-3/c"]),
            answer(&[]),
            answer(&["team-0/z", "team-2/a", "team-2/b"]),
        ];
        insta::assert_snapshot!(merged(answers).await, @"
        team-0/z 1
        team-1/a 1
        team-1/b 1
        team-10/a 1
        team-2/a 1
        team-2/b 1
        team-3/c 1
        ");
    }

    #[tokio::test]
    async fn sources_have_other_numbers_in_each_replica() {
        let [east, west] = [source(1, "east", "v1/pods"), source(2, "west", "v1/pods")];
        let jobs = source(3, "west", "batch/v1/jobs");
        let first = VecDeque::from([
            line(&east, "team-2/a", "1"),
            line(&west, "team-1/a", "1"),
            line(&jobs, "team-0/job", "1"),
        ]);
        let [east_too, west_too] = [source(8, "east", "v1/pods"), source(7, "west", "v1/pods")];
        let second = VecDeque::from([line(&east_too, "team-3/a", "1"), line(&west_too, "team-3/b", "1")]);
        let answers = vec![(first, vec![east, west, jobs]), (second, vec![west_too, east_too])];
        insta::assert_snapshot!(merged(answers).await, @"
        east team-2/a 1
        east team-3/a 1
        west team-1/a 1
        west team-3/b 1
        west team-0/job 1
        ");
    }

    #[tokio::test]
    async fn an_object_that_two_replicas_have_is_shown_once() {
        let pods = source(1, "", "v1/pods");
        let first = VecDeque::from([line(&pods, "web/a", "7"), line(&pods, "web/b", "3")]);
        let second = VecDeque::from([line(&pods, "web/a", "8"), line(&pods, "web/c", "5")]);
        let answers = vec![(first, vec![pods.clone()]), (second, vec![pods])];
        insta::assert_snapshot!(merged(answers).await, @"
        web/a 7
        web/b 3
        web/c 5
        ");
    }
}
