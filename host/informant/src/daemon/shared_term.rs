//! What a successor must know of plugins besides their keys, in shared state: pauses by command, and dead letters.
//!
//! ```text
//! plugin begins to act: pause ◀── row         it is attached: dead letters ◀── rows of the source
//! every second, and at a command: pause, dead letters ── what differs ──▶ rows ── written ──▶ watermarks are published
//! ```
//!
//! A watermark counts dead letters as accepted. So one is published only once the dead letters that it counts are
//! written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::listener::DeadLetter;
use informant_cache::{Environment, ListenerHandle, Source, SourceInfo};
use informant_object::{Key, SourceId};
use informant_plugin_host::Plugin;
use informant_spec::StoredContent;
use informant_state::{EventEnd, KeyChange, KeySpace, RowKind, decode_letter, encode_letter};

use super::acting::source_key;
use super::shared_state::Running;
use crate::sync::lock;

/// How long a command that pauses or resumes a plugin waits until that is written: 2 s. It holds in this process at
/// once; while the API server fails, it is written later.
const PAUSE_WRITTEN_MAX: Duration = Duration::from_secs(2);

/// How often it looks: 5 ms.
const PAUSE_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The key of the row of a pause.
const PAUSE: &str = "command";

/// The shared state of one term of this process, once it was read. Clones share it.
#[derive(Clone)]
pub(super) struct SharedTerm(Arc<Inner>);

struct Inner {
    running: Arc<Running>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The plugins that have begun to act, by name.
    plugins: BTreeMap<String, KeptPlugin>,
    /// Dead letters that may not be written yet.
    unwritten: Vec<Written>,
    /// What is published once these are written.
    next: Option<(PublishedWatermarks, Vec<Written>)>,
    published: PublishedWatermarks,
}

struct KeptPlugin {
    listener: ListenerHandle,
    /// The sources that were seen attached.
    sources: BTreeMap<SourceId, KeptSource>,
}

struct KeptSource {
    /// What the keys of its rows begin with.
    prefix: String,
    /// How far its dead letters were read.
    seen: u64,
}

/// Watermarks as text, with the digest of the configuration to which they belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PublishedWatermarks {
    pub(super) configuration: String,
    pub(super) text: String,
}

/// Whether a change is written.
type Written = Arc<AtomicBool>;

impl SharedTerm {
    pub(super) fn of(running: Arc<Running>) -> Self {
        let kept = Mutex::default();
        Self(Arc::new(Inner { running, kept }))
    }

    /// The plugin begins to act: it is paused if it was, and from now on what changes is kept. Call it before the
    /// plugin is called.
    pub(super) async fn begin(&self, plugin: &Plugin) {
        if let Some(pauses) = self.space(plugin.name(), RowKind::Pause) {
            plugin.set_paused_by_command(pauses.get(PAUSE).is_some()).await;
        }
        let kept = KeptPlugin {
            listener: plugin.listener(),
            sources: BTreeMap::new(),
        };
        lock(&self.0.kept).plugins.insert(plugin.name().to_owned(), kept);
    }

    /// The dead letters of a plugin and a source that the predecessor has left, oldest first.
    pub(super) fn letters(&self, plugin: &str, source: &SourceInfo) -> Vec<DeadLetter> {
        let Some(space) = self.space(plugin, RowKind::Letter) else {
            return Vec::new();
        };
        let prefix = prefix_of(source);
        let rows = space.keys(&prefix, "", usize::MAX).into_iter();
        // One that cannot be read is deleted once the source is attached.
        let letter = |row: String| decode_letter(&Key::parse(&row[prefix.len()..]).ok()?, &space.get(&row)?);
        let mut letters: Vec<DeadLetter> = rows.filter_map(letter).collect();
        letters.sort_by_key(|letter| std::cmp::Reverse(letter.age_before));
        letters
    }

    /// Lets the rows be what the plugins are. `sources` are those of an informer.
    pub(super) fn keep(&self, plugins: impl Iterator<Item = Plugin>, sources: impl Fn(&str) -> Vec<Arc<Source>>) {
        let mut kept = lock(&self.0.kept);
        for plugin in plugins {
            if !kept.has(&plugin) {
                continue;
            }
            // Its section may have ended the pause.
            let _ = self.write_pause(&plugin);
            let changes = self.changed_letters(&plugin, &mut kept, &sources);
            let space = self.space(plugin.name(), RowKind::Letter);
            if let Some(space) = space.filter(|_| !changes.is_empty()) {
                kept.unwritten.push(commit(&space, changes));
            }
        }
    }

    /// What may be published once these watermarks are known: they, or earlier ones. Call it after
    /// [`keep`](Self::keep), and that after the watermarks were read.
    pub(super) fn publish(&self, watermarks: PublishedWatermarks) -> PublishedWatermarks {
        let mut guard = lock(&self.0.kept);
        let kept = &mut *guard;
        kept.unwritten.retain(|written| !is_written(written));
        if let Some((next, _)) = kept.next.take_if(|(_, letters)| letters.iter().all(is_written)) {
            kept.published = next;
        }
        if kept.unwritten.is_empty() {
            kept.published = watermarks;
        } else if kept.next.is_none() {
            kept.next = Some((watermarks, kept.unwritten.clone()));
        }
        kept.published.clone()
    }

    /// Keeps whether the plugin is paused by command. Returns when it is written, at the latest after
    /// [`PAUSE_WRITTEN_MAX`].
    pub(super) async fn keep_pause(&self, plugin: &Plugin, environment: &dyn Environment) {
        let Some(written) = self.write_pause(plugin) else {
            return;
        };
        let until = environment.now() + PAUSE_WRITTEN_MAX;
        while !is_written(&written) {
            if environment.now() >= until {
                let plugin = plugin.name();
                tracing::warn!(plugin, "pause or resume of a plugin is not written to shared state yet");
                return;
            }
            environment.sleep(PAUSE_LOOK_INTERVAL).await;
        }
    }

    /// Writes whether the plugin is paused by command, if that differs.
    pub(super) fn write_pause(&self, plugin: &Plugin) -> Option<Written> {
        let space = self.space(plugin.name(), RowKind::Pause)?;
        let is_paused = plugin.is_paused_by_command();
        let differs = space.get(PAUSE).is_some() != is_paused;
        let value = is_paused.then(|| Arc::from(&b""[..]));
        differs.then(|| commit(&space, vec![(PAUSE.to_owned(), value)]))
    }

    /// How the rows of a plugin's dead letters differ from what its listener has.
    fn changed_letters(
        &self,
        plugin: &Plugin,
        kept: &mut Kept,
        sources: &impl Fn(&str) -> Vec<Arc<Source>>,
    ) -> Vec<KeyChange> {
        let (listener, spec) = (plugin.listener(), plugin.spec());
        let Some(space) = self.space(plugin.name(), RowKind::Letter) else {
            return Vec::new();
        };
        let Some(known) = kept.plugins.get_mut(plugin.name()) else {
            return Vec::new();
        };
        let mut changes: BTreeMap<String, Option<Arc<[u8]>>> = BTreeMap::new();
        let mut room = space.room();
        // It is detached, with its dead letters.
        known.sources.retain(|source, KeptSource { prefix, .. }| {
            let is_attached = listener.feed().is_attached(*source);
            if !is_attached {
                let gone = space.keys(prefix, "", usize::MAX).into_iter();
                changes.extend(gone.map(|row| (row, None)));
            }
            is_attached
        });
        for source in spec.informers.iter().flat_map(|(_, informer)| sources(informer)) {
            let seen = known.sources.get(&source.id()).map(|source| source.seen);
            let Some(letters) = listener.ledger().dead_letter_changes(source.id(), seen) else {
                continue;
            };
            let prefix = prefix_of(source.info());
            let rows = space.keys(&prefix, "", usize::MAX).into_iter();
            let is_gone = |row: &String| !Key::parse(&row[prefix.len()..]).is_ok_and(|key| letters.keys.contains(&key));
            changes.extend(rows.filter(is_gone).map(|row| (row, None)));
            for letter in letters.added {
                let row = format!("{prefix}{}", letter.key);
                // Its row is the one that it was restored from.
                if !letter.age_before.is_zero() && space.get(&row).is_some() && !changes.contains_key(&row) {
                    continue;
                }
                let value = encode_letter(&letter, content_of(source.info()));
                match room.checked_sub(row.len() + value.len()) {
                    Some(left) => room = left,
                    None => {
                        self.0.running.metrics.count_dropped_letter();
                        continue;
                    }
                }
                changes.insert(row, Some(value));
            }
            let seen = letters.seen;
            known.sources.insert(source.id(), KeptSource { prefix, seen });
        }
        changes.into_iter().collect()
    }

    fn space(&self, plugin: &str, kind: RowKind) -> Option<KeySpace> {
        self.0.running.space(plugin, kind)
    }
}

impl Kept {
    /// Whether the plugin has begun to act. One of this name that was removed is another one.
    fn has(&self, plugin: &Plugin) -> bool {
        let kept = self.plugins.get(plugin.name());
        kept.is_some_and(|kept| kept.listener.ptr_eq(&plugin.listener()))
    }
}

/// Of the same term.
impl PartialEq for SharedTerm {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.running, &other.0.running)
    }
}

impl Eq for SharedTerm {}

impl std::fmt::Debug for SharedTerm {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SharedTerm").finish_non_exhaustive()
    }
}

fn commit(space: &KeySpace, changes: Vec<KeyChange>) -> Written {
    let written = Written::default();
    let report = Arc::clone(&written);
    let end = EventEnd {
        source: SourceId(0),
        key: None,
        report: Box::new(move || report.store(true, Ordering::Release)),
    };
    space.commit(changes, Some(end));
    written
}

fn is_written(written: &Written) -> bool {
    written.load(Ordering::Acquire)
}

fn prefix_of(source: &SourceInfo) -> String {
    format!("{}\0", source_key(source))
}

/// What is stored of the last object of a delete.
fn content_of(source: &SourceInfo) -> StoredContent {
    match (&*source.api_version, &*source.kind) {
        ("v1", "Secret") => StoredContent::Metadata,
        _ => StoredContent::Whole,
    }
}
