//! What a Lease says: [`LeaseContent`], and with its version [`LeaseRecord`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant_object::ResourceVersion;

use crate::layout::Layout;

/// The prefix of the annotations that belong to Informant. Others are left as they are.
pub const ANNOTATION_PREFIX: &str = "informant/";

/// The longest duration of a Lease that counts: 60 s, four times what Informant writes. A Lease that was edited by
/// hand, or is another tool's, may say years; it is acquired after this time without a change.
pub const LEASE_DURATION_MAX: Duration = Duration::from_secs(60);

/// The largest number of transitions that is believed: a billion. Nothing acquires a Lease that often, but somebody may
/// write any number into it. A larger one counts as none, so that there is always a next one.
pub const TRANSITIONS_MAX: u32 = 1_000_000_000;

/// The size of [`Notes`], keys and values: 64 KiB, a quarter of what Kubernetes allows for all annotations of an
/// object. Larger ones are refused when they are written. Of a Lease that somebody else wrote, what exceeds it is left
/// out, and counted in [`Notes::left_out`].
pub const NOTES_BYTES_MAX: usize = 64 << 10;

const PREFERRED: &str = "preferred";
const RELEASED_BY: &str = "released-by";
const LAYOUT: &str = "shards";
const NEXT_LAYOUT: &str = "next-shards";

/// Small texts by name that a Lease carries for its readers, as annotations. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    texts: Arc<BTreeMap<Box<str>, Box<str>>>,
    left_out: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the notes of a Lease have {bytes} bytes; at most {NOTES_BYTES_MAX} are written: publish less")]
pub struct NotesTooLarge {
    pub bytes: usize,
}

impl Notes {
    /// Notes to write.
    ///
    /// # Errors
    /// Above [`NOTES_BYTES_MAX`].
    pub fn new<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Notes, NotesTooLarge> {
        let texts: BTreeMap<Box<str>, Box<str>> = texts
            .into_iter()
            .map(|(name, text)| (name.into(), text.into()))
            .collect();
        let bytes = texts.iter().map(|(name, text)| name.len() + text.len()).sum();
        if bytes > NOTES_BYTES_MAX {
            return Err(NotesTooLarge { bytes });
        }
        Ok(Notes {
            texts: Arc::new(texts),
            left_out: 0,
        })
    }

    /// The note `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(|text| &**text)
    }

    /// All notes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (&**name, &**text))
    }

    /// How many notes of a Lease were left out because they exceed [`NOTES_BYTES_MAX`].
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// What is written into a Lease, and read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseContent {
    /// The identity of the process that holds it; empty if none does.
    pub holder: Arc<str>,
    /// Whole seconds. Zero if the Lease has no duration that makes sense; at most [`LEASE_DURATION_MAX`].
    pub duration: Duration,
    /// How often the Lease was acquired: the epoch of its holder.
    pub transitions: u32,
    /// Who should acquire it next, in the opinion of the process that released it.
    pub preferred: Option<Arc<str>>,
    /// The process that has released it. A Lease without a holder that lacks this was emptied by hand, or has just been
    /// created: somebody may still act.
    pub released_by: Option<Arc<str>>,
    /// The division of the work that the Lease belongs to. That of the first shard names the one in force.
    pub layout: Layout,
    /// The layout that the group changes to; only the Lease of the first shard says that.
    pub next_layout: Option<Layout>,
    pub notes: Notes,
}

/// A Lease at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRecord {
    pub version: ResourceVersion,
    pub uid: Arc<str>,
    pub content: LeaseContent,
}

impl LeaseContent {
    /// The content of an API object: `holderIdentity`, `leaseDurationSeconds`, `leaseTransitions` and all annotations.
    pub fn from_parts<'a>(
        holder: Option<&str>,
        duration_seconds: Option<i32>,
        transitions: Option<i32>,
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> LeaseContent {
        let seconds = u64::try_from(duration_seconds.unwrap_or_default()).unwrap_or_default();
        let mut content = LeaseContent {
            holder: holder.unwrap_or_default().into(),
            duration: Duration::from_secs(seconds).min(LEASE_DURATION_MAX),
            transitions: u32::try_from(transitions.unwrap_or_default()).unwrap_or_default(),
            preferred: None,
            released_by: None,
            layout: Layout::WHOLE,
            next_layout: None,
            notes: Notes::default(),
        };
        let (mut texts, mut bytes) = (BTreeMap::new(), 0);
        for (name, text) in annotations {
            match name.strip_prefix(ANNOTATION_PREFIX) {
                Some(PREFERRED) => content.preferred = Some(text.into()),
                Some(RELEASED_BY) => content.released_by = Some(text.into()),
                Some(LAYOUT) => content.layout = Layout::parse(text).unwrap_or(Layout::WHOLE),
                Some(NEXT_LAYOUT) => content.next_layout = Layout::parse(text),
                Some(name) if bytes + name.len() + text.len() <= NOTES_BYTES_MAX => {
                    bytes += name.len() + text.len();
                    texts.insert(name.into(), text.into());
                }
                Some(_) => content.notes.left_out += 1,
                None => {}
            }
        }
        content.notes.texts = Arc::new(texts);
        content
    }

    /// `leaseDurationSeconds`.
    #[must_use]
    pub fn duration_seconds(&self) -> i32 {
        i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// `leaseTransitions`
    #[must_use]
    pub fn lease_transitions(&self) -> i32 {
        i32::try_from(self.transitions).unwrap_or(i32::MAX)
    }

    /// The annotations to write, with their prefix; `None` removes one. Others of the object stay as they are.
    pub fn annotations(&self) -> impl Iterator<Item = (String, Option<Cow<'_, str>>)> {
        let layout = (self.layout != Layout::WHOLE).then_some(self.layout);
        let own = [
            (PREFERRED, self.preferred.as_deref().map(Cow::from)),
            (RELEASED_BY, self.released_by.as_deref().map(Cow::from)),
            (LAYOUT, layout.map(|layout| layout.to_string().into())),
            (NEXT_LAYOUT, self.next_layout.map(|layout| layout.to_string().into())),
        ];
        let notes = self.notes.iter().map(|(name, text)| (name, Some(text.into())));
        own.into_iter()
            .chain(notes)
            .map(|(name, text)| (format!("{ANNOTATION_PREFIX}{name}"), text))
    }

    /// The epoch that this Lease shows of others: none above [`TRANSITIONS_MAX`].
    pub(crate) fn known_epoch(&self) -> u32 {
        match self.transitions <= TRANSITIONS_MAX {
            true => self.transitions,
            false => 0,
        }
    }

    /// Whether the process that held it has said that it no longer acts.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.holder.is_empty() && self.released_by.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_returns_from_its_annotations() {
        let content = LeaseContent {
            holder: "a".into(),
            duration: Duration::from_secs(15),
            transitions: 3,
            preferred: Some("b".into()),
            released_by: None,
            layout: Layout::parse("2:4-raw").expect("it is one"),
            next_layout: None,
            notes: Notes::new([("watermark", "17")]).expect("it is short"),
        };
        let written: Vec<_> = content.annotations().collect();
        let removed = written.iter().find(|(_, text)| text.is_none());
        assert_eq!(removed.map(|(name, _)| name.as_str()), Some("informant/released-by"));
        let kept = written
            .iter()
            .filter_map(|(name, text)| Some((name.as_str(), text.as_deref()?)));
        let foreign = [("other.io/note", "x")];
        let seconds = Some(content.duration_seconds());
        let transitions = Some(content.lease_transitions());
        let read = LeaseContent::from_parts(Some("a"), seconds, transitions, kept.chain(foreign));
        assert_eq!(read, content);
    }

    #[test]
    fn strange_numbers_are_clamped() {
        for (seconds, duration) in [
            (None, 0),
            (Some(0), 0),
            (Some(-5), 0),
            (Some(i32::MAX), 60),
            (Some(4), 4),
        ] {
            let content = LeaseContent::from_parts(None, seconds, None, []);
            assert_eq!(content.duration.as_secs(), duration, "{seconds:?}");
        }
        for (written, read) in [
            (None, 0),
            (Some(-1), 0),
            (Some(7), 7),
            (Some(i32::MAX), i32::MAX.unsigned_abs()),
        ] {
            let content = LeaseContent::from_parts(None, None, written, []);
            assert_eq!(content.transitions, read, "{written:?}");
            assert_eq!(content.lease_transitions().unsigned_abs(), read, "{written:?}");
        }
    }

    #[test]
    fn notes_above_the_limit_are_refused_or_left_out() {
        let long = "x".repeat(NOTES_BYTES_MAX);
        assert_eq!(
            Notes::new([("a", &*long)]),
            Err(NotesTooLarge {
                bytes: NOTES_BYTES_MAX + 1
            })
        );
        let annotations = [("informant/a", &*long), ("informant/b", "y")];
        let notes = LeaseContent::from_parts(None, None, None, annotations).notes;
        assert_eq!((notes.left_out(), notes.get("b")), (1, Some("y")));
    }
}
