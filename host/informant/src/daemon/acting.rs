//! Whether the plugins of this process act, and how they continue what another process did: [`Acting`], [`Term`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::SourceInfo;
use informant_cache::listener::{Beginning, Takeover};
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

impl Term {
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
