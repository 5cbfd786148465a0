//! Changes of related objects lead to calls about others.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Snapshot;

/// Objects of [`NODES`] lead to the pod whose name is theirs up to the dash; `-` leads to all pods, and `=` to those
/// of an index that does not exist.
#[derive(Debug)]
struct ByName;

impl Relations for ByName {
    fn of(&self, source: SourceId) -> Option<Arc<dyn Relation>> {
        (source == NODES).then(|| Arc::new(ByName) as Arc<dyn Relation>)
    }

    fn is_as_before(&self, _: SourceId, snapshot: &Snapshot) -> bool {
        snapshot.get(key("before")).is_some()
    }
}

impl Relation for ByName {
    fn leads_to(&self, source: SourceId) -> bool {
        source == PODS
    }

    fn map(&self, change: &ChangeKind, found: &mut dyn FnMut(RelatedTo<'_>)) {
        let key = match change {
            ChangeKind::Add(object) | ChangeKind::Update { new: object, .. } => object.key(),
            ChangeKind::Delete { key, .. } | ChangeKind::Forget { key } => key.as_ref(),
        };
        match key.name.split_once('-') {
            Some(("", _)) => found(RelatedTo::All),
            Some((name, _)) => found(RelatedTo::Object(self::key(name))),
            None => found(RelatedTo::Index {
                name: "none",
                value: key.name,
            }),
        }
    }
}

/// Two synced sources: pods, and nodes that lead to them.
fn rig() -> Rig {
    let mut rig = Rig::bare(options());
    rig.listener.control().set_relations(Some(Arc::new(ByName)));
    rig.attach(PODS);
    rig.attach(NODES);
    assert_eq!(rig.drain(), "synced initial\n");
    rig
}

fn set_node(rig: &mut Rig, name: &str, version: u64) {
    rig.write(NODES, state(name, name, version, 0));
}

#[test]
fn a_related_change_calls_the_object_it_leads_to() {
    let mut rig = rig();
    rig.sets("a b", 1);
    rig.drain();
    set_node(&mut rig, "a-1", 2);
    assert_eq!(rig.drain(), "update a@->1 related\n");
    rig.delete_in(NODES, "a-1", false);
    assert_eq!(rig.drain(), "update a@->1 related\n");
    let counters = rig.counters();
    assert_eq!((counters.related, counters.unrelated), (2, 0));
}

#[test]
fn causes_before_a_call_are_one_with_the_first_reason() {
    let mut rig = rig();
    rig.set("a", 1);
    set_node(&mut rig, "a-1", 2);
    rig.set("a", 3);
    assert_eq!(rig.drain(), "add a@3 watch\n");
    set_node(&mut rig, "a-1", 4);
    rig.set("a", 5);
    set_node(&mut rig, "a-2", 6);
    assert_eq!(rig.drain(), "update a@3->5 related\n");
}

#[test]
fn the_first_related_change_is_the_cause_of_a_call() {
    let mut rig = rig();
    rig.set("a", 1);
    rig.drain();
    set_node(&mut rig, "a-1", 2);
    rig.set("a", 3);
    set_node(&mut rig, "a-2", 4);
    assert_eq!(rig.take(), "update a@1->3 related");
    let cause = rig
        .last_taken()
        .cause
        .clone()
        .expect("a related change led to the call");
    assert_eq!((cause.source, cause.key.name(), cause.event), (NODES, "a-1", "add"));
    assert_eq!(cause.version.as_str(), "2");
    rig.answer(DeliveryOutcome::Ok);
    rig.set("a", 5);
    rig.take();
    assert_eq!(rig.last_taken().cause, None, "the object itself has changed");
}

#[test]
fn cause_during_a_failing_call_is_that_of_its_retry() {
    let mut rig = rig();
    rig.set("a", 1);
    assert_eq!(rig.take(), "add a@1 watch");
    set_node(&mut rig, "a-1", 2);
    rig.answer(retryable());
    rig.pass(seconds(10));
    rig.take();
    let cause = rig.last_taken().cause.clone().expect("the related change");
    assert_eq!(cause.version.as_str(), "2");
    rig.set("a", 3);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "update a@1->3 watch");
    assert_eq!(rig.last_taken().cause, None, "the object itself has changed");
}

#[test]
fn a_related_change_during_a_call_leads_to_another() {
    let mut rig = rig();
    rig.set("a", 1);
    assert_eq!(rig.take(), "add a@1 watch");
    set_node(&mut rig, "a-1", 2);
    set_node(&mut rig, "a-2", 3);
    assert_eq!(rig.take(), "idle");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.drain(), "update a@->1 related\n");
}

#[test]
fn a_related_change_leads_to_nothing_that_is_gone() {
    let mut rig = rig();
    set_node(&mut rig, "a-1", 1);
    assert_eq!(rig.drain(), "");
    rig.set("a", 2);
    rig.drain();
    rig.delete("a");
    set_node(&mut rig, "a-1", 3);
    assert_eq!(rig.drain(), "delete a@2 watch\n");
    assert_eq!(rig.counters().unrelated, 2);
}

#[test]
fn a_related_change_gives_a_failing_object_new_attempts() {
    let mut rig = rig();
    rig.set("a", 1);
    rig.fail();
    rig.pass(seconds(2));
    assert_eq!(rig.fail(), "add a@1 watch try 1");
    set_node(&mut rig, "a-1", 2);
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "add a@1 watch\n");
}

#[test]
fn a_change_behind_a_cause_has_the_state_before() {
    let mut rig = rig();
    rig.set("a", 1);
    rig.drain();
    set_node(&mut rig, "a-1", 2);
    rig.set("a", 3);
    assert_eq!(rig.take(), "update a@1->3 related");
    set_node(&mut rig, "a-1", 4);
    rig.set("a", 5);
    rig.set("a", 6);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "update a@3->6 related");
    assert!(!rig.last_taken().exact_old);
    rig.set("a", 7);
    set_node(&mut rig, "a-2", 8);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "update a@6->7 watch");
    assert!(!rig.last_taken().exact_old, "a call is due for the cause");
}

#[test]
fn a_recovery_keeps_the_causes_of_dead_letters() {
    let mut rig = rig();
    rig.set("a", 1);
    rig.take();
    rig.answer(permanent());
    set_node(&mut rig, "a-1", 2);
    rig.listener.consumer().recover(0, rig.now);
    assert!(rig.drain().contains("a@"));
}

#[test]
fn an_interval_begins_with_the_end_of_a_call() {
    let mut rig = Rig::bare(ListenerOptions {
        min_interval: Some(seconds(10)),
        ..options()
    });
    rig.listener.control().set_relations(Some(Arc::new(ByName)));
    rig.attach(PODS);
    rig.attach(NODES);
    rig.drain();
    rig.set("a", 1);
    assert_eq!(rig.take(), "add a@1 watch");
    rig.pass(seconds(8));
    set_node(&mut rig, "a-1", 2);
    rig.answer(DeliveryOutcome::Ok);
    rig.pass(seconds(9));
    assert_eq!(rig.take(), "wait 1s");
    rig.pass(seconds(1));
    assert_eq!(rig.drain(), "update a@->1 related\n");
}

#[test]
fn what_may_be_anything_calls_all_again() {
    let mut rig = rig();
    rig.sets("a b", 1);
    rig.drain();
    set_node(&mut rig, "-", 2);
    assert_eq!(rig.drain(), "update a@->1 related\nupdate b@->1 related\n");
    // The index is not there.
    set_node(&mut rig, "node", 3);
    assert_eq!(rig.drain(), "update a@->1 related\nupdate b@->1 related\n");
    assert_eq!(rig.counters().related_to_all, 2);
}

#[test]
fn a_cursor_ends_however_often_something_changes() {
    let mut rig = rig();
    rig.sets("a b c", 1);
    rig.drain();
    let mut called = String::new();
    for version in 2..8 {
        set_node(&mut rig, "-", version);
        called += &rig.take();
        rig.answer(DeliveryOutcome::Ok);
    }
    for name in ["a", "b", "c"] {
        assert!(
            called.matches(&format!("update {name}@->1 related")).count() >= 2,
            "{called}"
        );
    }
}

#[test]
fn a_delete_during_a_list_after_a_change_is_delivered() {
    let mut rig = Rig::bare(options());
    rig.listener.control().set_relations(Some(Arc::new(ByName)));
    rig.sets("a b c", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    rig.answer(DeliveryOutcome::Ok);
    rig.attach(NODES);
    rig.delete("a");
    assert_eq!(
        rig.drain(),
        "add b@1 initial\ndelete a@1 watch\nadd c@1 initial\nsynced initial\nupdate b@->1 related\nupdate c@->1 related\n"
    );
}

#[test]
fn a_source_that_is_attached_later_calls_all_again() {
    let mut rig = Rig::bare(options());
    rig.listener.control().set_relations(Some(Arc::new(ByName)));
    rig.attach(PODS);
    rig.sets("a b", 1);
    rig.drain();
    rig.attach(NODES);
    assert_eq!(rig.drain(), "update a@->1 related\nupdate b@->1 related\n");
    assert!(rig.listener.feed().has_synced(NODES));
}

#[test]
fn a_source_in_which_nothing_has_changed_calls_nothing_again() {
    let mut rig = Rig::bare(options());
    rig.listener.control().set_relations(Some(Arc::new(ByName)));
    rig.attach(PODS);
    rig.sets("a b", 1);
    rig.drain();
    set_node(&mut rig, "before", 2);
    rig.attach(NODES);
    assert_eq!(rig.drain(), "");
}

#[test]
fn a_cursor_delivers_what_is_ahead_of_it_once() {
    let mut rig = Rig::bare(options());
    rig.listener.control().set_relations(Some(Arc::new(ByName)));
    rig.attach(NODES);
    rig.sets("a b", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    set_node(&mut rig, "b-1", 2);
    assert_eq!(rig.drain(), "add b@1 initial\nsynced initial\n");
}

#[test]
fn related_sources_are_neither_delivered_nor_requeued() {
    let mut rig = rig();
    set_node(&mut rig, "a-1", 1);
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "synced replay\n");
    let requeued = rig.listener.control().requeue(NODES, key("a-1"), rig.now);
    assert_eq!(requeued, RequeueResult::Unknown);
    let triggered = rig
        .listener
        .control()
        .trigger(NODES, &[Key::new("default", "a-1")], rig.now);
    assert_eq!(triggered, Triggered::default());
}

#[derive(Clone, Debug)]
enum Op {
    Pod(usize),
    DeletePod(usize),
    Node(usize),
    DeleteNode(usize),
    All,
    Take,
    Answer(bool),
    Pass,
    AttachNodes,
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..3_usize).prop_map(Op::Pod),
        1 => (0..3_usize).prop_map(Op::DeletePod),
        3 => (0..3_usize).prop_map(Op::Node),
        1 => (0..3_usize).prop_map(Op::DeleteNode),
        1 => Just(Op::All),
        6 => Just(Op::Take),
        5 => any::<bool>().prop_map(Op::Answer),
        2 => Just(Op::Pass),
        1 => Just(Op::AttachNodes),
    ]
}

/// Pods, and of each the last moment at which something changed that it has to be called for, and at which a call
/// began that was accepted.
struct Model {
    rig: Rig,
    moment: u64,
    changed: BTreeMap<String, u64>,
    called: BTreeMap<String, u64>,
    /// What is in flight, oldest first, with the moment at which it was taken.
    running: Vec<(String, u64)>,
    has_nodes: bool,
}

impl Model {
    fn new() -> Model {
        let rig = Rig::bare(options());
        rig.listener.control().set_relations(Some(Arc::new(ByName)));
        let mut model = Model {
            rig,
            moment: 0,
            changed: BTreeMap::new(),
            called: BTreeMap::new(),
            running: Vec::new(),
            has_nodes: false,
        };
        model.rig.attach(PODS);
        model
    }

    fn apply(&mut self, op: &Op) {
        self.moment += 1;
        let name = |at: usize| ["a", "b", "c"][at].to_owned();
        let node = |at: usize| format!("{}-1", name(at));
        match *op {
            Op::Pod(at) => {
                self.rig.set(&name(at), self.moment);
                self.changed.insert(name(at), self.moment);
            }
            Op::DeletePod(at) if self.changed.remove(&name(at)).is_some() => self.rig.delete(&name(at)),
            Op::Node(at) => {
                set_node(&mut self.rig, &node(at), self.moment);
                self.related(&[name(at)]);
            }
            Op::DeleteNode(at) if self.rig.store(NODES).published().get(key(&node(at))).is_some() => {
                self.rig.delete_in(NODES, &node(at), false);
                self.related(&[name(at)]);
            }
            Op::All => {
                set_node(&mut self.rig, "-", self.moment);
                self.related(&[name(0), name(1), name(2)]);
            }
            Op::AttachNodes if !self.has_nodes => {
                self.has_nodes = true;
                self.rig.attach(NODES);
                self.related(&[name(0), name(1), name(2)]);
            }
            Op::Take => self.take(),
            Op::Answer(is_ok) => self.answer(is_ok),
            Op::Pass => self.rig.pass(seconds(1)),
            Op::DeletePod(_) | Op::DeleteNode(_) | Op::AttachNodes => {}
        }
        self.rig.listener.check();
    }

    fn related(&mut self, names: &[String]) {
        for name in names.iter().filter(|_| self.has_nodes) {
            if let Some(changed) = self.changed.get_mut(name) {
                *changed = self.moment;
            }
        }
    }

    fn take(&mut self) {
        let before = self.rig.in_flight.len();
        self.rig.take();
        if self.rig.in_flight.len() == before {
            return;
        }
        let delivery = self.rig.last_taken();
        let name = delivery.key().map_or(String::new(), |key| key.name.to_owned());
        assert!(name.is_empty() || self.running.iter().all(|(other, _)| *other != name));
        if let Notification::Add(object) | Notification::Update { new: object, .. } = &delivery.notification {
            let object = object.version().to_string();
            let stored = self
                .rig
                .store(PODS)
                .published()
                .get(key(&name))
                .map(|object| object.version().to_string());
            assert!(
                stored.is_none_or(|stored| stored == object),
                "{name}@{object} is not the last state"
            );
        }
        self.running.push((name, self.moment));
    }

    fn answer(&mut self, is_ok: bool) {
        if self.running.is_empty() {
            return;
        }
        let (name, began) = self.running.remove(0);
        match is_ok || name.is_empty() {
            true => {
                self.called.insert(name, began);
                self.rig.answer(DeliveryOutcome::Ok);
            }
            false => self.rig.answer(retryable()),
        }
    }

    fn check_all_called(&mut self) {
        for _ in 0..200 {
            self.moment += 1;
            self.take();
            self.answer(true);
            self.rig.pass(seconds(60));
        }
        for (name, changed) in &self.changed {
            assert!(
                self.called.get(name).is_some_and(|called| called >= changed),
                "{name} changed at {changed}"
            );
        }
    }
}

proptest! {
    /// One call at a time, about the last state, and one that begins after the last cause.
    #[test]
    fn each_cause_is_followed_by_a_call(ops in vec(any_op(), 0..120)) {
        let mut model = Model::new();
        ops.iter().for_each(|op| model.apply(op));
        model.check_all_called();
    }
}
