//! The queue against a literal port of client-go's, on plain lists.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::DeltaType;

/// One delta as the model sees it: type, whether it is a tombstone, and the version of the state it carries.
type Seen = (DeltaType, bool, u64);

/// client-go v0.31 `DeltaFIFO`, line by line, with what Informant decided otherwise: deletions first, unchanged items
/// left out, and the count lowered after processing.
#[derive(Default)]
struct Model {
    items: BTreeMap<String, Vec<Seen>>,
    queue: Vec<String>,
    populated: bool,
    initial_population_count: usize,
}

impl Model {
    fn queue_action(&mut self, key: &str, delta: Seen) {
        let deltas = self.items.entry(key.to_owned()).or_default();
        deltas.push(delta);
        if let [.., older, newer] = deltas[..]
            && older.0 == DeltaType::Deleted
            && newer.0 == DeltaType::Deleted
        {
            deltas.truncate(deltas.len() - 2);
            deltas.push(if older.1 { newer } else { older });
        }
        if !self.queue.iter().any(|queued| queued == key) {
            self.queue.push(key.to_owned());
        }
    }

    fn delete(&mut self, key: &str, version: u64, known: &BTreeMap<String, Object>) {
        self.populated = true;
        if self.items.contains_key(key) || known.contains_key(key) {
            self.queue_action(key, (DeltaType::Deleted, false, version));
        }
    }

    fn replace(&mut self, list: &[Object], known: &BTreeMap<String, Object>) {
        let waited: Vec<String> = self.queue.clone();
        let is_listed = |key: &str| list.iter().any(|object| object.name() == key);
        for key in waited.iter().filter(|key| !is_listed(key)) {
            let newest = self.items[key].last().unwrap().2;
            self.queue_action(key, (DeltaType::Deleted, true, newest));
        }
        for (key, object) in known.iter().filter(|(key, _)| !is_listed(key) && !waited.contains(key)) {
            self.queue_action(key, (DeltaType::Deleted, true, number(object)));
        }
        for object in list {
            let is_known = known.get(object.name()).is_some_and(|known| known.ptr_eq(object));
            if !is_known || waited.iter().any(|key| key == object.name()) {
                self.queue_action(object.name(), (DeltaType::Replaced, false, number(object)));
            }
        }
        if !self.populated {
            self.populated = true;
            self.initial_population_count = self.queue.len();
        }
    }

    fn pop(&mut self) -> Option<(String, Vec<Seen>, bool)> {
        if self.queue.is_empty() {
            return None;
        }
        let key = self.queue.remove(0);
        let deltas = self.items.remove(&key).unwrap();
        let initial = !(self.populated && self.initial_population_count == 0);
        self.initial_population_count = self.initial_population_count.saturating_sub(1);
        Some((key, deltas, initial))
    }
}

/// An operation on the queue. Four names, so that keys collide.
#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    Update(u8),
    Delete(u8),
    DeleteUnseen(u8),
    /// Per name: absent, the known object itself, or a new version.
    Replace([u8; 4]),
    Pop,
    PopBatch(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let name = 0..4_u8;
    prop_oneof![
        2 => name.clone().prop_map(Step::Add),
        4 => name.clone().prop_map(Step::Update),
        3 => name.clone().prop_map(Step::Delete),
        1 => name.prop_map(Step::DeleteUnseen),
        2 => any::<[u8; 4]>().prop_map(Step::Replace),
        4 => Just(Step::Pop),
        2 => (1..4_usize).prop_map(Step::PopBatch),
    ]
}

fn number(object: &Object) -> u64 {
    object.version().number().unwrap()
}

fn name(number: u8) -> String {
    format!("pod-{number}")
}

fn seen(deltas: &[Delta]) -> Vec<Seen> {
    let one = |delta: &Delta| {
        (
            delta.kind,
            delta.object.is_tombstone(),
            number(delta.object.object().unwrap()),
        )
    };
    deltas.iter().map(one).collect()
}

/// Both queues, and the objects their consumer has processed.
struct Twins {
    fifo: DeltaFifo,
    model: Model,
    known: BTreeMap<String, Object>,
    version: u64,
}

impl Twins {
    fn next(&mut self, number: u8) -> Object {
        self.version += 1;
        pod(&name(number), self.version)
    }

    fn known(&self) -> StoreWriter {
        stored(self.known.values().cloned())
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Add(number) => {
                let object = self.next(number);
                self.model.populated = true;
                self.model
                    .queue_action(object.name(), (DeltaType::Added, false, self.version));
                add(&mut self.fifo, object);
            }
            Step::Update(number) => {
                let object = self.next(number);
                self.model.populated = true;
                self.model
                    .queue_action(object.name(), (DeltaType::Updated, false, self.version));
                update(&mut self.fifo, object);
            }
            Step::Delete(number) => {
                let object = self.next(number);
                self.model.delete(object.name(), self.version, &self.known);
                let known = self.known();
                delete(&mut self.fifo, object, &known);
            }
            Step::DeleteUnseen(number) => self.delete_unseen(&name(number)),
            Step::Replace(choices) => self.replace(choices),
            Step::Pop => self.pop(),
            Step::PopBatch(max) => self.pop_batch(max),
        }
    }

    fn delete_unseen(&mut self, key: &str) {
        let Some(object) = self.known.get(key).cloned() else {
            return;
        };
        self.model.populated = true;
        self.model
            .queue_action(key, (DeltaType::Deleted, true, number(&object)));
        let known = self.known();
        delete(&mut self.fifo, tombstone(object), &known);
    }

    fn replace(&mut self, choices: [u8; 4]) {
        let mut list = Vec::new();
        for (number, choice) in (0_u8..).zip(choices) {
            match (choice % 3, self.known.get(&name(number))) {
                (0, _) => {}
                (1, Some(known)) => list.push(known.clone()),
                _ => list.push(self.next(number)),
            }
        }
        self.model.replace(&list, &self.known);
        let known = self.known();
        super::replace(&mut self.fifo, list, &known);
    }

    /// The consumer keeps the newest state, as the informer loop does.
    fn process(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            let key = delta.key().name.to_owned();
            match (delta.kind, delta.object.object()) {
                (DeltaType::Deleted, _) | (_, None) => drop(self.known.remove(&key)),
                (_, Some(object)) => drop(self.known.insert(key, object.clone())),
            }
        }
    }

    fn pop(&mut self) {
        let popped = pop_one(&mut self.fifo);
        let got = popped
            .as_ref()
            .map(|(deltas, initial)| (deltas[0].key().name.to_owned(), seen(deltas), *initial));
        assert_eq!(got, self.model.pop());
        if let Some((deltas, _)) = popped {
            self.process(&deltas);
        }
    }

    fn pop_batch(&mut self, max: usize) {
        let mut batch = Batch::new();
        self.fifo.pop_batch(max, &mut batch);
        let mut keys = 0;
        for deltas in by_key(&batch) {
            let expected = self.model.pop().unwrap();
            assert_eq!((deltas[0].key().name, seen(deltas)), (expected.0.as_str(), expected.1));
            assert_eq!(
                batch.is_in_initial_list(),
                expected.2,
                "a batch is of the initial list or not"
            );
            keys += 1;
        }
        assert_eq!(keys, batch.len());
        assert!(keys <= 1 || batch.deltas().len() <= max);
        let deltas = batch.deltas().to_vec();
        self.process(&deltas);
        self.fifo.batch_done(&mut batch);
    }

    fn check(&self) {
        let queued: Vec<&str> = self.fifo.queue.iter().map(|deltas| deltas.key().name).collect();
        assert_eq!(queued, self.model.queue);
        for number in 0..4 {
            let key = name(number);
            let waiting = self
                .fifo
                .get_by_key(KeyRef::new("default", &key))
                .map(|deltas| seen(deltas));
            assert_eq!(waiting.as_ref(), self.model.items.get(&key));
        }
        assert_eq!(
            self.fifo.has_synced(),
            self.model.populated && self.model.initial_population_count == 0
        );
    }
}

proptest! {
    /// Whatever is written and popped in whatever order, the queue does what client-go's would.
    #[test]
    fn queue_agrees_with_the_client_go_model(steps in vec(any_step(), 0..60)) {
        let mut twins = Twins { fifo: fifo(), model: Model::default(), known: BTreeMap::new(), version: 0 };
        for step in steps {
            twins.take(step);
            twins.check();
        }
    }
}
