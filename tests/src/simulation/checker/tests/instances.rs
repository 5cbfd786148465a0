//! Several instances of one handler.

use super::*;

#[test]
fn another_instance_for_the_same_key_is_detected() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let mut entries = vec![
        handler_added(false),
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        synced(),
        written(&two),
    ];
    if let Entry::Begin(call) = begin(EventKind::Update, &two, Some(2)) {
        entries.push(Entry::Begin(Call { instance: 1, ..call }));
    }
    entries.extend([end(&two, Ended::Ok), at_rest(&[&two])]);
    assert_eq!(clauses(entries), [Clause::InstanceKept]);
}
