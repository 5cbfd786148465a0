//! A walk over the bodies of one namespace. A handler that needs many asks for them in the order of their names, as
//! LIST returns them.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_cache::Moment;
use informant_object::Object;

use super::pages::BodyPage;
use super::{BODY_PAGE_HELD_MAX, is_body_of};

/// So many requests for bodies of one namespace within [`WALK_BEGINS_WITHIN`] begin to read pages of it.
pub(crate) const WALK_READS_MIN: u32 = 8;

/// See [`WALK_READS_MIN`].
pub(crate) const WALK_BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// So many pages are read at most until they reach the name that is asked for. Then the walk ends: a single read costs
/// less.
pub(crate) const PAGES_SKIPPED_MAX: usize = 8;

pub(super) struct Walk {
    namespace: Box<str>,
    began: Moment,
    requests: u32,
    /// Bodies behind a page that was cut are read singly.
    page: Option<HeldPage>,
    /// Pages that were read for the last request.
    skipped: usize,
    has_ended: bool,
}

struct HeldPage {
    objects: BTreeMap<Box<str>, Object>,
    last: Box<str>,
    continuation: String,
    read: Moment,
}

impl Walk {
    /// A walk that begins with a request for `head`.
    pub(super) fn new(head: &Object, now: Moment) -> Self {
        Self {
            namespace: head.namespace().into(),
            began: now,
            requests: 0,
            page: None,
            skipped: 0,
            has_ended: false,
        }
    }

    /// Whether it may continue at `now`.
    pub(super) fn is_recent(&self, now: Moment) -> bool {
        match &self.page {
            Some(page) => now - page.read < BODY_PAGE_HELD_MAX,
            None => now - self.began < WALK_BEGINS_WITHIN,
        }
    }

    /// Whether a request for `head` belongs to this walk.
    pub(super) fn is_of(&self, head: &Object) -> bool {
        head.namespace() == &*self.namespace
    }

    pub(super) fn count(&mut self) {
        self.requests += 1;
        self.skipped = 0;
    }

    /// The continue token of the page to read next, so that `head` may be on it. None if no page is to be read.
    pub(super) fn next_page(&mut self, head: &Object) -> Option<String> {
        if self.requests < WALK_READS_MIN || self.has_ended {
            return None;
        }
        let next = match &self.page {
            None => String::new(),
            Some(page) if head.name() <= &*page.last || page.continuation.is_empty() => return None,
            Some(page) => page.continuation.clone(),
        };
        self.has_ended = self.skipped == PAGES_SKIPPED_MAX;
        self.skipped += 1;
        (!self.has_ended).then_some(next)
    }

    pub(super) fn hold(&mut self, page: BodyPage, now: Moment) {
        let last = page
            .objects
            .last()
            .map_or_else(Box::default, |object| object.name().into());
        // A page without objects has been passed.
        let last = self
            .page
            .as_ref()
            .map_or_else(Box::default, |page| page.last.clone())
            .max(last);
        let objects = page.objects.into_iter();
        self.page = Some(HeldPage {
            objects: objects.map(|object| (object.name().into(), object)).collect(),
            last,
            continuation: page.continuation,
            read: now,
        });
    }

    /// The body of `head`, if it is on the page.
    pub(super) fn get(&self, head: &Object, now: Moment) -> Option<Object> {
        let page = self.page.as_ref().filter(|page| now - page.read < BODY_PAGE_HELD_MAX)?;
        let body = page.objects.get(head.name()).filter(|body| is_body_of(body, head));
        body.cloned()
    }
}

#[cfg(test)]
mod tests {
    use informant_object::Shape;

    use super::*;

    fn object(name: &str, version: u64) -> Object {
        let json = format!(
            r#"{{"metadata":{{"namespace":"a","name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}}}}"#
        );
        Object::parse(json.as_bytes(), &Shape::verbatim()).unwrap()
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn page(names: &[&str], continuation: &str) -> BodyPage {
        BodyPage {
            objects: names.iter().map(|name| object(name, 5)).collect(),
            continuation: continuation.to_owned(),
            is_cut: false,
        }
    }

    /// A walk that reads pages.
    fn begun() -> Walk {
        let mut walk = Walk::new(&object("b", 5), at(0));
        (0..WALK_READS_MIN).for_each(|_| walk.count());
        walk
    }

    #[test]
    fn pages_are_read_once_many_bodies_are_asked_for() {
        let head = object("b", 5);
        let mut walk = Walk::new(&head, at(0));
        for _ in 1..WALK_READS_MIN {
            walk.count();
            assert_eq!(walk.next_page(&head), None);
        }
        walk.count();
        assert_eq!(walk.next_page(&head).as_deref(), Some(""));
        walk.hold(page(&["a", "b"], "next"), at(1));
        assert_eq!(walk.next_page(&head), None);
        assert!(walk.get(&head, at(1)).is_some());
        assert_eq!(walk.next_page(&object("c", 5)).as_deref(), Some("next"));
        walk.hold(page(&["c"], ""), at(2));
        assert_eq!(walk.next_page(&object("d", 5)), None, "it was the last page");
    }

    #[test]
    fn a_page_answers_neither_newer_heads_nor_for_long() {
        let mut walk = begun();
        walk.hold(page(&["a", "b"], ""), at(1));
        assert!(walk.get(&object("b", 6), at(1)).is_none());
        assert!(walk.get(&object("b", 4), at(1)).is_some());
        assert!(walk.get(&object("b", 5), at(11)).is_none());
        assert!(walk.is_recent(at(10)) && !walk.is_recent(at(11)));
    }

    #[test]
    fn a_walk_far_before_the_name_ends() {
        let (mut walk, far) = (begun(), object("z", 5));
        for number in 0..PAGES_SKIPPED_MAX {
            assert!(walk.next_page(&far).is_some(), "{number}");
            walk.hold(page(&["a"], "next"), at(1));
        }
        assert_eq!(walk.next_page(&far), None);
        walk.count();
        assert_eq!(walk.next_page(&far), None, "single reads from now on");
    }
}
