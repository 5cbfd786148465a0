//! Whether the plugins of this process act, and how they continue what other processes did: [`Acting`], [`Term`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::listener::{Beginning, HeldShards, Takeover};
use informant_cache::{Division, ShardSet, Source, SourceInfo};
use informant_informer::NamedInformer;
use informant_spec::{PluginSpec, ReplayPolicy};

use super::shared_term::SharedTerm;

/// Whether the plugins of this process act.
#[derive(Clone, Debug)]
pub(super) enum Acting {
    /// Another process does, or none.
    No,
    /// What runs is ended, and nothing begins.
    Ending,
    Yes(Arc<Term>),
}

/// The time in which this process acts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Term {
    /// How often the Lease was acquired; zero without `[ha]`.
    pub(super) epoch: u32,
    /// What the predecessor has left; none if there was none.
    pub(super) predecessor: Option<Watermarks>,
    /// What it has left of pauses and dead letters; none if that is not shared, or cannot be used.
    pub(super) shared: Option<SharedTerm>,
    /// The shards for whose objects plugins act that are divided; none for those that act for all.
    pub(super) shards: Option<ShardTerms>,
}

/// The shards of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardTerms {
    pub(super) division: Division,
    /// Another one: whatever was done before, plugins stand by in between.
    pub(super) stint: u64,
    pub(super) held: BTreeMap<u8, ShardTerm>,
}

/// The time in which this process holds a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardTerm {
    /// How often its Lease was acquired.
    pub(super) epoch: u32,
    /// What the predecessor has left; none if there was none.
    pub(super) predecessor: Option<Watermarks>,
}

/// How the shards of a process change while some stay.
pub(super) struct ShardMoves {
    pub(super) lost: ShardSet,
    pub(super) gained: Vec<u8>,
}

/// Of plugins and sources, the version up to which everything is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Watermarks(BTreeMap<String, BTreeMap<String, u64>>);

impl Acting {
    pub(super) fn term(&self) -> Option<&Arc<Term>> {
        match self {
            Acting::Yes(term) => Some(term),
            Acting::No | Acting::Ending => None,
        }
    }
}

impl ShardTerms {
    /// What a listener has to know of them.
    pub(super) fn held(&self) -> HeldShards {
        HeldShards {
            division: self.division,
            shards: self.held.keys().copied().collect(),
        }
    }

    /// In the version of a term: how a listener begins that is attached to none of its sources yet.
    pub(super) fn into_term(self) -> Term {
        let mut predecessors = self.held.values().map(|term| &term.predecessor);
        let first = predecessors.next().cloned().flatten();
        let lowest = predecessors.fold(first, |lowest, next| match (lowest, next) {
            (None, None) => None,
            (lowest, next) => Some(lowest.unwrap_or_default().lower(&next.clone().unwrap_or_default())),
        });
        Term {
            predecessor: lowest,
            shards: Some(self),
            ..Term::default()
        }
    }
}

impl Term {
    /// How the shards change from this term to `next`, if a plugin goes from one to the other without standing by.
    pub(super) fn moves_to(&self, next: &Term) -> Option<ShardMoves> {
        let (before, next) = (self.shards.as_ref()?, next.shards.as_ref()?);
        let stays = |shard: &u8, term: &ShardTerm| {
            let present = next.held.get(shard);
            present.is_some_and(|present| present.epoch == term.epoch)
        };
        let lost = before.held.iter().filter(|(shard, term)| !stays(shard, term));
        let is_new = |shard: &u8, term: &ShardTerm| before.held.get(shard).is_none_or(|held| held.epoch != term.epoch);
        let gained = next.held.iter().filter(|(shard, term)| is_new(shard, term));
        let moves = ShardMoves {
            lost: lost.map(|(shard, _)| *shard).collect(),
            gained: gained.map(|(shard, _)| *shard).collect(),
        };
        ((before.division, before.stint) == (next.division, next.stint)).then_some(moves)
    }

    /// How a listener continues with a source, of a shard that this process has gained.
    pub(super) fn takeover(&self, spec: &PluginSpec, shard: u8, source: &Source) -> Takeover {
        let term = self.shards.as_ref().and_then(|shards| shards.held.get(&shard));
        let watermarks = term.and_then(|term| term.predecessor.as_ref());
        let watermark = watermarks.and_then(|watermarks| watermarks.of(&spec.name, source.info()));
        Takeover {
            watermark: watermark.filter(|_| source.snapshot().epoch() == 0),
            all_objects: spec.on_start == ReplayPolicy::Replay,
        }
    }

    /// How the listener of a plugin begins with each source of an informer.
    pub(super) fn beginning(&self, spec: &PluginSpec, informer: &NamedInformer) -> impl Fn(&SourceInfo) -> Beginning {
        // Their history is another one than when this process began to watch them: versions cannot be compared.
        let restored = informer
            .sources()
            .into_iter()
            .filter(|source| source.status().epoch > 0);
        let restored: BTreeSet<String> = restored.map(|source| source_key(source.info())).collect();
        move |source| {
            let letters = self.shared.as_ref().map(|shared| shared.letters(&spec.name, source));
            let has_letters = letters.as_ref().is_some_and(|letters| !letters.is_empty());
            // Somebody may have deleted the Lease.
            if self.predecessor.is_none() && !has_letters {
                return Beginning::Start;
            }
            let watermarks = self.predecessor.as_ref();
            let takeover = Takeover {
                watermark: watermarks
                    .and_then(|watermarks| watermarks.of(&spec.name, source))
                    .filter(|_| !restored.contains(&source_key(source))),
                all_objects: spec.on_start == ReplayPolicy::Replay,
            };
            Beginning::Takeover(takeover, letters)
        }
    }
}

impl Watermarks {
    /// The most bytes that are published: 60 KiB, of the 64 KiB that a Lease has for all notes. What exceeds them is
    /// left out, and its objects are all delivered again by the successor.
    const BYTES_MAX: usize = 60 << 10;

    /// Reads what [`to_text`](Self::to_text) has written. What cannot be read counts as absent: everything is delivered
    /// again.
    pub(super) fn parse(text: &str) -> Watermarks {
        serde_json::from_str(text).map(Watermarks).unwrap_or_default()
    }

    pub(super) fn insert(&mut self, plugin: &str, source: &SourceInfo, watermark: u64) {
        let of_plugin = self.0.entry(plugin.to_owned()).or_default();
        of_plugin.insert(source_key(source), watermark);
    }

    /// The lower one of each; none of what one of them lacks.
    fn lower(mut self, other: &Watermarks) -> Watermarks {
        for (plugin, sources) in &mut self.0 {
            let others = other.0.get(plugin);
            sources.retain(|source, watermark| {
                let lower = others.and_then(|others| others.get(source)).copied();
                *watermark = lower.map_or(0, |lower| lower.min(*watermark));
                lower.is_some()
            });
        }
        self
    }

    /// The higher one of each, and what only one of them has.
    pub(super) fn higher(mut self, others: Watermarks) -> Watermarks {
        for (plugin, sources) in others.0 {
            let own = self.0.entry(plugin).or_default();
            for (source, watermark) in sources {
                let highest = own.entry(source).or_default();
                *highest = watermark.max(*highest);
            }
        }
        self
    }

    /// With those of `others` that it lacks.
    pub(super) fn or(mut self, others: Watermarks) -> Watermarks {
        for (plugin, sources) in others.0 {
            let own = self.0.entry(plugin).or_default();
            for (source, watermark) in sources {
                own.entry(source).or_insert(watermark);
            }
        }
        self
    }

    /// With those of other plugins.
    pub(super) fn extend(&mut self, others: Watermarks) {
        self.0.extend(others.0);
    }

    fn of(&self, plugin: &str, source: &SourceInfo) -> Option<u64> {
        self.0.get(plugin)?.get(&source_key(source)).copied()
    }

    /// For a note of the Lease, and how many watermarks are left out of it.
    pub(super) fn to_text(&self) -> (String, usize) {
        let mut written: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        let (mut bytes, mut left_out) = (0, 0);
        for (plugin, sources) in &self.0 {
            for (source, watermark) in sources {
                // With quotes, colons, commas, the number, and the plugin's name in each, which is more than there is.
                bytes += plugin.len() + source.len() + 32;
                match bytes <= Self::BYTES_MAX {
                    true => drop(written.entry(plugin).or_default().insert(source, *watermark)),
                    false => left_out += 1,
                }
            }
        }
        (serde_json::to_string(&written).unwrap_or_default(), left_out)
    }
}

/// A source, in every process with the same configuration.
pub(super) fn source_key(source: &SourceInfo) -> String {
    let SourceInfo {
        informer,
        cluster,
        resource,
        namespace,
        ..
    } = source;
    format!(
        "{informer} {cluster} {resource} {}",
        namespace.as_deref().unwrap_or("*")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(informer: &str) -> SourceInfo {
        SourceInfo {
            informer: informer.to_owned(),
            cluster: String::new(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        }
    }

    #[test]
    fn watermarks_are_read_as_they_were_written() {
        let mut watermarks = Watermarks::default();
        watermarks.insert("janitor", &source("pods"), 7);
        watermarks.insert("janitor", &source("all"), 8);
        let (text, left_out) = watermarks.to_text();
        assert_eq!((Watermarks::parse(&text), left_out), (watermarks, 0));
    }

    fn holding(stint: u64, shards: &[(u8, u32)]) -> Term {
        let term = |(shard, epoch): &(u8, u32)| {
            let mut watermarks = Watermarks::default();
            watermarks.insert("janitor", &source("pods"), 10 + u64::from(*shard));
            let predecessor = Some(watermarks);
            let epoch = *epoch;
            (*shard, ShardTerm { epoch, predecessor })
        };
        let shards = ShardTerms {
            division: Division {
                shards: 4,
                ..Division::WHOLE
            },
            stint,
            held: shards.iter().map(term).collect(),
        };
        shards.into_term()
    }

    #[test]
    fn shards_move_while_others_stay() {
        let moves = |next: &Term| {
            let moves = holding(1, &[(0, 1), (1, 1)]).moves_to(next)?;
            Some((moves.lost.iter().collect::<Vec<_>>(), moves.gained))
        };
        assert_eq!(moves(&holding(1, &[(0, 1), (2, 5)])), Some((vec![1], vec![2])));
        // It was lost and acquired again.
        assert_eq!(moves(&holding(1, &[(0, 1), (1, 2)])), Some((vec![1], vec![1])));
        assert_eq!(moves(&holding(2, &[(0, 1), (1, 1)])), None);
        assert_eq!(moves(&Term::default()), None);
    }

    #[test]
    fn plugin_begins_with_the_lowest_watermark_of_its_shards() {
        let predecessor = holding(1, &[(2, 1), (1, 1), (3, 1)]).predecessor.unwrap_or_default();
        assert_eq!(predecessor.of("janitor", &source("pods")), Some(11));
        assert_eq!(predecessor.of("janitor", &source("other")), None);
    }

    #[test]
    fn damaged_watermarks_count_as_absent() {
        for text in ["", "null", "{\"janitor\":7}", "{\"janitor\":{\"pods\":-1}}"] {
            assert_eq!(Watermarks::parse(text), Watermarks::default(), "{text}");
        }
    }

    #[test]
    fn watermarks_beyond_the_limit_are_left_out() {
        let mut watermarks = Watermarks::default();
        for number in 0..2_000 {
            watermarks.insert("janitor", &source(&format!("informer-{number}")), 7);
        }
        let (text, left_out) = watermarks.to_text();
        assert!(
            text.len() <= Watermarks::BYTES_MAX && left_out > 0,
            "{} {left_out}",
            text.len()
        );
    }
}
