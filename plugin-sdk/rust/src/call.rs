//! What the current call from Informant is about, and what it has learned of sources.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::event::SourceId;
use crate::store::SourceInfo;

thread_local! {
    /// `None` between calls.
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

struct Call {
    /// `None` in a call about no source.
    about: Option<SourceId>,
    sources: BTreeMap<SourceId, Rc<SourceInfo>>,
    informers: BTreeMap<String, Rc<[SourceInfo]>>,
}

/// Makes a call to the plugin about this source or an object of it.
pub(crate) fn about<T>(source: SourceId, call: impl FnOnce() -> T) -> T {
    make(Some(source), call)
}

/// Makes a call to the plugin that is about no source.
pub(crate) fn about_no_source<T>(call: impl FnOnce() -> T) -> T {
    make(None, call)
}

fn make<T>(about: Option<SourceId>, call: impl FnOnce() -> T) -> T {
    CALL.set(Some(Call {
        about,
        sources: BTreeMap::new(),
        informers: BTreeMap::new(),
    }));
    let answer = call();
    CALL.set(None);
    answer
}

/// The source that the current call is about.
pub(crate) fn source() -> Option<SourceId> {
    CALL.with_borrow(|call| call.as_ref().and_then(|call| call.about))
}

/// What the current call knows of a source, from `ask` if it is the first to want it.
pub(crate) fn source_info<E>(
    id: SourceId,
    ask: impl FnOnce() -> Result<Rc<SourceInfo>, E>,
) -> Result<Rc<SourceInfo>, E> {
    once(|call| &mut call.sources, id, ask)
}

/// As [`source_info`], for the sources of an informer.
pub(crate) fn sources<E>(
    informer: &str,
    ask: impl FnOnce() -> Result<Rc<[SourceInfo]>, E>,
) -> Result<Rc<[SourceInfo]>, E> {
    once(|call| &mut call.informers, informer.to_owned(), ask)
}

/// Asks once for each key during a call. Asks each time between calls, because the answer would never expire.
fn once<K: Ord, V: Clone, E>(
    known: impl Fn(&mut Call) -> &mut BTreeMap<K, V>,
    key: K,
    ask: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    let found = CALL.with_borrow_mut(|call| known(call.as_mut()?).get(&key).cloned());
    if let Some(found) = found {
        return Ok(found);
    }
    let answer = ask()?;
    CALL.with_borrow_mut(|call| call.as_mut().map(|call| known(call).insert(key, answer.clone())));
    Ok(answer)
}
