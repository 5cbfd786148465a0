//! Cuts: which bytes of an object are left out when it is copied, or replaced by their digest.
//!
//! A cut takes a member or element together with one comma, so that what remains is well-formed. A digest replaces a
//! value and leaves its name and the commas.

use std::ops::Range;

use crate::digest::DIGEST_BYTES;
use crate::error::ObjectError;
use crate::paths::{Level, Matcher};
use crate::scanner::JsonCursor;

/// The cuts of one object: ascending and disjoint.
#[derive(Debug, Default)]
pub(crate) struct Cuts(Vec<Cut>);

/// Bytes that are not copied.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) range: Range<usize>,
    /// Whether they are a value that its digest replaces.
    pub(crate) has_digest: bool,
}

/// Extends cuts so that commas stay correct within one object or array.
#[derive(Default)]
pub(crate) struct CommaTracker {
    kept_any: bool,
    /// Where the last item ended.
    last_end: usize,
    /// Where the leading items to cut began; their end is not known yet.
    leading: Option<usize>,
}

impl Cuts {
    pub(crate) const fn new() -> Cuts {
        Cuts(Vec::new())
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes held for cuts.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Cut>()
    }

    /// Adds a cut that begins where the last one ended or later.
    pub(crate) fn push(&mut self, cut: Range<usize>) {
        if cut.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.range.end == cut.start && !last.has_digest => last.range.end = cut.end,
            _ => self.0.push(Cut {
                range: cut,
                has_digest: false,
            }),
        }
    }

    /// Adds a value that its digest replaces. Begins where the last cut ended or later.
    fn push_digest(&mut self, value: Range<usize>) {
        self.0.push(Cut {
            range: value,
            has_digest: true,
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cut> {
        self.0.iter()
    }

    /// Where the byte at `at`, which is not cut, is in the copy.
    pub(crate) fn moved(&self, at: usize) -> usize {
        let before = self.0.iter().take_while(|cut| cut.range.start < at);
        let (digests, cut) = before.fold((0, 0), |(digests, cut), this| {
            let bytes = this.range.end.min(at) - this.range.start;
            (digests + usize::from(this.has_digest), cut + bytes)
        });
        at + DIGEST_BYTES * digests - cut
    }
}

impl CommaTracker {
    /// An item begins at `start`.
    pub(crate) fn begin(&mut self, start: usize, cuts: &mut Cuts) {
        if let Some(leading) = self.leading.take() {
            cuts.push(leading..start);
        }
    }

    /// The item that began at `start` ended at `end` and is kept or cut.
    pub(crate) fn end(&mut self, start: usize, end: usize, is_cut: bool, cuts: &mut Cuts) {
        match is_cut {
            true if self.kept_any => cuts.push(self.last_end..end),
            true => self.leading = Some(start),
            false => self.kept_any = true,
        }
        self.last_end = end;
    }

    /// The object or array ends.
    pub(crate) fn close(self, cuts: &mut Cuts) {
        if let Some(leading) = self.leading {
            cuts.push(leading..self.last_end);
        }
    }
}

/// Skips the value at the cursor and records what `level` cuts from it. Returns whether that is all of it.
pub(crate) fn walk(
    cursor: &mut JsonCursor<'_>,
    matcher: &mut Matcher<'_>,
    level: Level,
    cuts: &mut Cuts,
) -> Result<bool, ObjectError> {
    if level.is_empty() || matcher.ends(level) {
        cursor.skip_value()?;
        return Ok(!level.is_empty());
    }
    if matcher.digests(level) {
        let begin = cursor.at();
        cursor.skip_value()?;
        cuts.push_digest(begin..cursor.at());
        return Ok(false);
    }
    match cursor.peek() {
        Some(b'{') => walk_object(cursor, matcher, level, cuts)?,
        Some(b'[') => walk_array(cursor, matcher, level, cuts)?,
        _ => cursor.skip_value()?,
    }
    Ok(false)
}

fn walk_object(
    cursor: &mut JsonCursor<'_>,
    matcher: &mut Matcher<'_>,
    level: Level,
    cuts: &mut Cuts,
) -> Result<(), ObjectError> {
    let mut members = cursor.enter_object()?;
    let mut commas = CommaTracker::default();
    while let Some(name) = cursor.next_member(&mut members)? {
        let start = name.start() - 1;
        commas.begin(start, cuts);
        let below = matcher.member(level, name, cursor.text());
        let is_cut = walk(cursor, matcher, below, cuts)?;
        matcher.leave(below);
        commas.end(start, cursor.at(), is_cut, cuts);
    }
    commas.close(cuts);
    Ok(())
}

fn walk_array(
    cursor: &mut JsonCursor<'_>,
    matcher: &mut Matcher<'_>,
    level: Level,
    cuts: &mut Cuts,
) -> Result<(), ObjectError> {
    let mut elements = cursor.enter_array()?;
    let mut commas = CommaTracker::default();
    let mut index = 0;
    while cursor.next_element(&mut elements)? {
        let start = cursor.at();
        commas.begin(start, cuts);
        let below = matcher.element(level, index);
        let is_cut = walk(cursor, matcher, below, cuts)?;
        matcher.leave(below);
        commas.end(start, cursor.at(), is_cut, cuts);
        index += 1;
    }
    commas.close(cuts);
    Ok(())
}
