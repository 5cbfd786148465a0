//! Pages of objects, their cursors and their projections.

use informant_object::{KeyRef, Object, Payload, Pointer, SourceId};

use super::Answer;
use crate::bindings::informant::plugin::store::{Item, Page};
use crate::bindings::informant::plugin::types::ErrorCode;
use crate::capability::error;

/// Bytes of the objects of one page: 1 MiB. A larger object is returned alone.
pub(crate) const PAGE_BYTES_MAX: usize = 1 << 20;

/// Most objects of one page: 10,000.
pub(crate) const PAGE_ITEMS_MAX: usize = 10_000;

/// Most JSON pointers of one call: 256.
pub(crate) const POINTERS_MAX: usize = 256;

/// Where a page starts: after the last key of the previous page. Written `SOURCE/NAMESPACE/NAME`; neither of the names
/// can contain a slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageCursor<'a>(Option<(SourceId, KeyRef<'a>)>);

/// Whether an object was added to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageAdd {
    Added,
    /// The page is full: the object belongs on the next one.
    Full,
}

/// A page under construction.
pub(super) struct PageBuilder {
    payload: Payload,
    items_max: usize,
    items: Vec<Item>,
    bytes: usize,
    last: Option<(SourceId, Object)>,
}

impl<'a> PageCursor<'a> {
    pub(super) fn parse(cursor: &'a str) -> Answer<PageCursor<'a>> {
        if cursor.is_empty() {
            return Ok(PageCursor(None));
        }
        let mut parts = cursor.splitn(3, '/');
        let source = parts.next().and_then(|source| source.parse().ok());
        let position = match (source, parts.next(), parts.next()) {
            (Some(source), Some(namespace), Some(name)) => (SourceId(source), KeyRef::new(namespace, name)),
            _ => {
                return Err(error(
                    ErrorCode::Invalid,
                    format!("cursor: {cursor:?} was not returned with a page"),
                ));
            }
        };
        Ok(PageCursor(Some(position)))
    }

    /// The key after which to start in `source`; None if the source is before the cursor.
    #[expect(clippy::option_option, reason = "where to start, if at all")]
    pub(super) fn start_in(self, source: SourceId) -> Option<Option<KeyRef<'a>>> {
        match self.0 {
            Some((at, _)) if source < at => None,
            Some((at, key)) if source == at => Some(Some(key)),
            _ => Some(None),
        }
    }
}

impl PageBuilder {
    /// A page of at most `limit` items; 0: only the limits of a page apply.
    pub(super) fn new(payload: Payload, limit: u32) -> PageBuilder {
        let items_max = match usize::try_from(limit).unwrap_or(usize::MAX) {
            0 => PAGE_ITEMS_MAX,
            limit => limit.min(PAGE_ITEMS_MAX),
        };
        PageBuilder {
            payload,
            items_max,
            items: Vec::new(),
            bytes: 0,
            last: None,
        }
    }

    /// What the page has of each object.
    pub(super) fn payload(&self) -> &Payload {
        &self.payload
    }

    pub(super) fn add(&mut self, source: SourceId, object: &Object) -> PageAdd {
        if self.items.len() == self.items_max {
            return PageAdd::Full;
        }
        let mut document = Vec::new();
        self.payload.write(object, &mut document);
        let bytes = self.bytes.saturating_add(document.len());
        if bytes > PAGE_BYTES_MAX && !self.items.is_empty() {
            return PageAdd::Full;
        }
        self.bytes = bytes;
        self.last = Some((source, object.clone()));
        self.items.push(Item {
            source: source.0,
            object: document,
        });
        PageAdd::Added
    }

    /// The page, with the cursor of the next one.
    pub(super) fn unfinished(self) -> Page {
        let cursor = self
            .last
            .map(|(source, object)| format!("{source}/{}/{}", object.namespace(), object.name()));
        Page {
            items: self.items,
            cursor: cursor.unwrap_or_default(),
        }
    }

    /// The last page.
    pub(super) fn finished(self) -> Page {
        Page {
            items: self.items,
            cursor: String::new(),
        }
    }
}

/// The last projection that the guest used. Guests repeat the same pointers, so it is cached.
#[derive(Default)]
pub(super) struct ProjectionCache {
    last: Option<(Vec<String>, Payload)>,
}

impl ProjectionCache {
    /// The projection of `pointers`; none of them means the whole object.
    pub(super) fn of(&mut self, pointers: &[String]) -> Answer<Payload> {
        if pointers.is_empty() {
            return Ok(Payload::Whole);
        }
        if let Some((_, payload)) = self.last.as_ref().filter(|(asked, _)| asked == pointers) {
            return Ok(payload.clone());
        }
        if pointers.len() > POINTERS_MAX {
            return Err(error(
                ErrorCode::Invalid,
                format!(
                    "pointers: {} were given, at most {POINTERS_MAX} are allowed",
                    pointers.len()
                ),
            ));
        }
        let parsed: Result<Vec<Pointer>, _> = pointers.iter().map(|text| Pointer::parse(text)).collect();
        let parsed = parsed.map_err(|problem| error(ErrorCode::Invalid, format!("pointers: {problem}")))?;
        let payload = Payload::fields(&parsed);
        self.last = Some((pointers.to_vec(), payload.clone()));
        Ok(payload)
    }
}
