//! Handlers of replicas, one after the other: the handler 0 of the informer 0, then the handler 1 of the informer 1.

use super::*;

fn took_over(handler: u32, continues: bool, watermark: Option<u64>) -> [Entry; 2] {
    let mut added = handler_added(false);
    if let Entry::HandlerAdded {
        handler: id, informer, ..
    } = &mut added
    {
        (*id, *informer) = (handler, handler);
    }
    let took_over = Entry::TookOver {
        handler,
        after: handler.checked_sub(1),
        continues,
        watermarks: watermark
            .map(|watermark| (String::new(), watermark))
            .into_iter()
            .collect(),
        part: None,
    };
    [added, took_over]
}

/// The call of the handler 1 because it takes over.
fn taken(kind: EventKind, object: &ObjectVersion) -> [Entry; 2] {
    let call = Call {
        handler: 1,
        kind,
        object: object.clone(),
        old: None,
        unknown: false,
        reason: "takeover".into(),
        stored: (kind != EventKind::Delete).then_some(object.version),
        instance: 0,
    };
    [Entry::Begin(call), ended(1, object)]
}

fn ended(handler: u32, object: &ObjectVersion) -> Entry {
    Entry::End {
        handler,
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        ended: Ended::Ok,
    }
}

fn sent(handler: u32, object: &ObjectVersion) -> Entry {
    Entry::Sent {
        handler,
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

fn holds(informer: u32, object: &ObjectVersion) -> Entry {
    Entry::Holds {
        informer,
        uids: vec![object.uid.clone()],
    }
}

/// The handler 0 has accepted `a@1`; then `entries` follow.
fn after_first(entries: impl IntoIterator<Item = Entry>) -> Vec<Entry> {
    let one = object("a", "u1", 1);
    let mut all = Vec::from(took_over(0, true, None));
    all.extend([
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
    ]);
    all.extend(entries);
    all
}

/// Everything is at rest on the second replica.
fn at_rest_of_next(objects: &[&ObjectVersion]) -> [Entry; 3] {
    at_rest_of(1, objects)
}

fn at_rest_of(handler: u32, objects: &[&ObjectVersion]) -> [Entry; 3] {
    let mut at_rest = at_rest(objects);
    if let Entry::AtRest { informer, .. } = &mut at_rest {
        *informer = handler;
    }
    let synced = Entry::Synced {
        handler,
        lane: 0,
        there: vec![],
    };
    let acting = Entry::Acting {
        handlers: vec![handler],
    };
    [synced, acting, at_rest]
}

#[test]
fn former_holder_that_acts_is_detected() {
    let one = object("a", "u1", 1);
    let call = || begin(EventKind::Add, &one, Some(1));
    for late in [call(), ended(0, &one), sent(0, &one)] {
        let early = after_first([late.clone()]);
        assert!(!clauses(early).contains(&Clause::OneReplicaActs));
        let entries = after_first(took_over(1, true, None).into_iter().chain([late]));
        assert_eq!(clauses(entries), [Clause::OneReplicaActs]);
    }
}

#[test]
fn group_in_which_no_replica_acts_at_rest_is_detected() {
    let entries = after_first([Entry::Acting { handlers: vec![] }]);
    assert_eq!(clauses(entries), [Clause::OneReplicaActs]);
}

#[test]
fn object_that_a_takeover_repeats_twice_is_detected() {
    let one = object("a", "u1", 1);
    let once = || taken(EventKind::Add, &one);
    let begun = |repeated: Vec<Entry>| after_first(took_over(1, false, None).into_iter().chain(repeated));
    assert_eq!(clauses(begun(once().into())), NOTHING);
    assert_eq!(
        clauses(begun([once(), once()].concat())),
        [Clause::TakeoverRepeatsLittle]
    );
}

#[test]
fn continuing_handler_repeats_nothing_that_the_watermark_covers() {
    let one = object("a", "u1", 1);
    let of = |continues, watermark| {
        let begun = took_over(1, continues, Some(watermark));
        clauses(after_first(begun.into_iter().chain(taken(EventKind::Add, &one))))
    };
    assert_eq!(of(true, 1), [Clause::TakeoverRepeatsLittle]);
    assert_eq!((of(true, 0), of(false, 1)), (NOTHING.to_vec(), NOTHING.to_vec()));
}

#[test]
fn delete_that_a_takeover_loses_is_detected() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let of = |known: Option<Entry>, delivered: Vec<Entry>| {
        let removed = Entry::Removed { object: gone.clone() };
        let begun = known.into_iter().chain([removed]).chain(took_over(1, true, None));
        clauses(after_first(begun.chain(delivered).chain(at_rest_of_next(&[]))))
    };
    assert_eq!(of(Some(holds(1, &one)), vec![]), [Clause::LastStateNeverLost]);
    assert_eq!(
        of(Some(holds(1, &one)), taken(EventKind::Delete, &gone).into()),
        NOTHING
    );
    assert_eq!(of(None, vec![]), NOTHING, "the replica has never known it");
}

#[test]
fn delete_that_only_the_third_replica_knows_is_its_own() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let of = |watermark: Option<u64>| {
        let begun = took_over(1, true, None)
            .into_iter()
            .chain([holds(2, &one), Entry::Removed { object: gone.clone() }]);
        let next = begun.chain(took_over(2, true, watermark));
        clauses(after_first(next.chain(at_rest_of(2, &[]))))
    };
    assert_eq!(of(None), [Clause::LastStateNeverLost]);
    assert_eq!(of(Some(1)), [Clause::LastStateNeverLost]);
    assert_eq!(of(Some(2)), NOTHING, "the watermark of the second one covers it");
}

#[test]
fn replica_that_is_behind_goes_back_once() {
    let (one, gone, two) = (object("a", "u1", 1), object("a", "u1", 2), object("a", "u2", 3));
    let calls = [(EventKind::Delete, &gone), (EventKind::Add, &two)];
    let accepted = calls
        .into_iter()
        .flat_map(|(kind, object)| [begin(kind, object, Some(3)), ended(0, object)]);
    let ahead: Vec<Entry> = [Entry::Removed { object: gone.clone() }, written(&two)]
        .into_iter()
        .chain(accepted)
        .chain(took_over(1, false, None))
        .collect();
    let behind = || [taken(EventKind::Add, &one), taken(EventKind::Delete, &gone)].concat();
    let of = |delivered: Vec<Entry>| {
        let entries = ahead.clone().into_iter().chain(delivered);
        clauses(after_first(entries.chain(at_rest_of_next(&[&two]))))
    };
    assert_eq!(of([behind(), taken(EventKind::Add, &two).into()].concat()), NOTHING);
    assert_eq!(of(behind()), [Clause::LastStateNeverLost, Clause::AtLeastOnce]);
}

#[test]
fn state_written_by_a_former_term_is_detected() {
    let written = |terms: [u32; 2]| terms.map(|term| Entry::StateWritten { term });
    assert_eq!(clauses(after_first(written([1, 2]))), NOTHING);
    assert_eq!(clauses(after_first(written([2, 1]))), [Clause::OneReplicaActs]);
}

#[test]
fn value_that_a_takeover_does_not_find_is_detected() {
    let of = |watermark, values| {
        let found = Entry::Found { handler: 1, values };
        clauses(after_first(took_over(1, true, watermark).into_iter().chain([found])))
    };
    let value = vec![("default".to_owned(), "a".to_owned(), 1)];
    assert_eq!(of(Some(1), vec![]), [Clause::RememberedWithSuccess]);
    assert_eq!(
        (of(Some(1), value), of(Some(0), vec![])),
        (NOTHING.to_vec(), NOTHING.to_vec())
    );
}
