//! Compares with a naive model while killed at any moment: before, between and after the halves of a run.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::disk::{Disk, start_on};
use super::*;

/// A step of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Write(u8),
    Delete(u8),
    /// The object is deleted and recreated, unseen.
    Replace(u8),
    /// The object is deleted and recreated; both are seen.
    Recreate(u8),
    Take,
    Accept,
    Fail,
    RunOnce,
    /// Commits only; the next run delivers.
    CommitOnly,
    Replay,
    /// The disk is full from now on.
    Full,
    /// The database is reopened.
    Room,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8).prop_map(Step::Write),
        3 => (0..6u8).prop_map(Step::Delete),
        1 => (0..6u8).prop_map(Step::Replace),
        2 => (0..3u8).prop_map(Step::Recreate),
        6 => Just(Step::Take),
        5 => Just(Step::Accept),
        1 => Just(Step::Fail),
        4 => Just(Step::RunOnce),
        2 => Just(Step::CommitOnly),
        1 => Just(Step::Replay),
        1 => Just(Step::Full),
        1 => Just(Step::Room),
    ]
}

/// What the handler knows: the incarnations it received, and the state of each key that it accepted last.
#[derive(Clone, Debug, Default)]
pub(super) struct Handler {
    /// By name and uid. A delete that it refused for good may not be repeated: another event of the key may discard its
    /// dead letter.
    received: BTreeMap<String, BTreeMap<String, Delete>>,
    accepted: BTreeMap<String, (String, String)>,
    pub(super) in_flight: Vec<Delivery>,
}

/// What became of the delete of an incarnation that a handler received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delete {
    NotReceived,
    Refused,
}

impl Handler {
    /// A delivery begins.
    fn begin(&mut self, delivery: &Delivery) {
        // Until it accepts this, what it accepted before is outdated.
        match &delivery.notification {
            Notification::Add(object) | Notification::Update { new: object, .. } => {
                let of_name = self.received.entry(object.name().to_owned()).or_default();
                of_name.insert(object.uid().to_owned(), Delete::NotReceived);
                self.accepted.remove(object.name());
            }
            Notification::Delete {
                key, last: Some(last), ..
            } => {
                let accepted = self.accepted.get(key.name());
                if accepted.is_some_and(|(uid, _)| uid == last.uid()) {
                    self.accepted.remove(key.name());
                }
            }
            _ => {}
        }
    }

    fn accepted(&mut self, delivery: &Delivery) {
        match &delivery.notification {
            Notification::Add(object) | Notification::Update { new: object, .. } => {
                let state = (object.uid().to_owned(), object.version().to_string());
                self.accepted.insert(object.name().to_owned(), state);
            }
            Notification::Delete { key, last, .. } => {
                let uid = last.as_ref().expect("last states are readable").uid();
                if let Some(of_name) = self.received.get_mut(key.name()) {
                    of_name.remove(uid);
                }
            }
            Notification::Synced | Notification::Tick(_) => {}
        }
    }

    fn refused(&mut self, delivery: &Delivery) {
        if let Notification::Delete {
            key, last: Some(last), ..
        } = &delivery.notification
            && let Some(of_name) = self.received.get_mut(key.name())
            && let Some(delete) = of_name.get_mut(last.uid())
        {
            *delete = Delete::Refused;
        }
    }

    /// The incarnations whose deletes it has to receive yet, or that exist.
    fn known(&self) -> BTreeSet<(&str, &str)> {
        let all = self
            .received
            .iter()
            .flat_map(|(name, uids)| uids.iter().map(move |(uid, delete)| (name, uid, delete)));
        let known = all.filter(|(.., delete)| **delete == Delete::NotReceived);
        known.map(|(name, uid, _)| (name.as_str(), uid.as_str())).collect()
    }

    /// Whether the newest incarnation of each name it received is the one that exists.
    pub(super) fn knows_all(&self, world: &World) -> bool {
        let present: BTreeSet<_> = world
            .objects
            .iter()
            .map(|(name, object)| (name.as_str(), object.uid()))
            .collect();
        self.in_flight.is_empty() && self.known() == present
    }
}

/// The objects that both processes see.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    version: u64,
    pub(super) objects: BTreeMap<String, Object>,
}

impl World {
    pub(super) fn write(&mut self, number: u8, new_incarnation: bool) -> Object {
        self.version += 1;
        let name = format!("p{number}");
        let uid = match self.objects.get(&name) {
            Some(old) if !new_incarnation => old.uid().to_owned(),
            _ => format!("u{}", self.version),
        };
        let object = object(&name, &uid, self.version);
        self.objects.insert(name, object.clone());
        object
    }
}

/// One run of the process: the steps until it is killed, and what happens until the next one.
#[derive(Clone, Debug)]
struct Life {
    steps: Vec<Step>,
    meanwhile: Vec<Step>,
    continues: bool,
}

fn life() -> impl Strategy<Value = Life> {
    let parts = (vec(step(), 0..50), vec(step(), 0..8), any::<bool>());
    parts.prop_map(|(steps, meanwhile, continues)| Life {
        steps,
        meanwhile,
        continues,
    })
}

fn on_start(continues: bool) -> OnStart {
    if continues { OnStart::Continue } else { OnStart::Replay }
}

fn run(lives: &[Life], last_continues: bool) -> Result<(), TestCaseError> {
    let mut disk = Disk::default();
    let (mut world, mut handler) = (World::default(), Handler::default());
    for number in 0..3 {
        world.write(number, false);
    }
    for life in lives {
        let mut process = start_on(&disk).unwrap();
        process.sync(world.objects.values().cloned());
        process.attach(on_start(life.continues));
        let mut half = None;
        for step in &life.steps {
            step_of(step, &mut process, &mut world, &mut handler, &mut half);
        }
        if process.recorder.is_behind() {
            // Killed before delivered changes are persisted, it forgets them, as documented.
            if let Some(batches) = half.take() {
                process.recorder.deliver(batches);
            }
            process.recorder.reopen();
            process.recorder.run_once();
        }
        disk = disk.after_kill();
        handler.in_flight.clear();
        meanwhile(&life.meanwhile, &mut world);
    }
    let process = start_on(&disk).unwrap();
    verify(process, &world, &handler, on_start(last_continues)).map_err(TestCaseError::fail)
}

fn meanwhile(steps: &[Step], world: &mut World) {
    for step in steps {
        match step {
            Step::Write(number) => drop(world.write(*number, false)),
            Step::Replace(number) | Step::Recreate(number) => drop(world.write(*number, true)),
            Step::Delete(number) => drop(world.objects.remove(&format!("p{number}"))),
            _ => {}
        }
    }
}

/// Verifies that a handler with this knowledge ends up knowing exactly the present objects after `next` has delivered.
pub(super) fn verify(mut next: Process, world: &World, knew: &Handler, on_start: OnStart) -> Result<(), String> {
    next.sync(world.objects.values().cloned());
    next.attach(on_start);
    next.recorder.run_once();
    let mut knows = Handler {
        in_flight: Vec::new(),
        ..knew.clone()
    };
    while let Some(delivery) = next.take() {
        if let Notification::Delete {
            key, last: Some(last), ..
        } = &delivery.notification
            && world
                .objects
                .get(key.name())
                .is_some_and(|object| object.uid() == last.uid())
        {
            return Err(format!(
                "{} was deleted, but exists; it knew {knew:?}",
                shown(&delivery)
            ));
        }
        knows.begin(&delivery);
        knows.accepted(&delivery);
        next.done(&delivery, DeliveryOutcome::Ok);
    }
    let state = |object: &Object| (object.uid().to_owned(), object.version().to_string());
    let objects = || world.objects.iter();
    let mut now: BTreeMap<_, _> = objects().map(|(name, object)| (name.clone(), state(object))).collect();
    // What failed for good in the earlier process is not delivered again, but listed.
    let letters = next.listener.ledger().dead_letters();
    for letter in letters.iter().filter(|_| on_start == OnStart::Continue) {
        let is_about = |(_, version): &(String, String)| Some(version) == letter.resource_version.as_ref();
        if now.get(letter.key.name()).is_some_and(is_about) {
            now.remove(letter.key.name());
            knows.accepted.remove(letter.key.name());
        }
    }
    // Everything present was accepted as it is, and the handler received the end of everything else.
    if knows.accepted != now || !knows.knows_all(world) {
        return Err(format!("{knows:?} is not {now:?}; it knew {knew:?}"));
    }
    Ok(())
}

pub(super) fn step_of(
    step: &Step,
    process: &mut Process,
    world: &mut World,
    handler: &mut Handler,
    half: &mut Option<Vec<crate::batch::SourceBatch>>,
) {
    match step {
        Step::Write(number) => {
            let object = world.write(*number, false);
            process.write(object);
        }
        Step::Replace(number) => {
            let object = world.write(*number, true);
            process.write(object);
        }
        Step::Recreate(number) => {
            for step in [Step::Delete(*number), Step::Write(*number)] {
                step_of(&step, process, world, handler, half);
            }
        }
        Step::Delete(number) => {
            let name = format!("p{number}");
            if world.objects.remove(&name).is_some() {
                world.version += 1;
                process.delete(&name, world.version);
            }
        }
        Step::Take => {
            if let Some(delivery) = process.take() {
                handler.begin(&delivery);
                handler.in_flight.push(delivery);
            }
        }
        Step::Accept | Step::Fail => {
            let Some(delivery) = handler.in_flight.pop() else {
                return;
            };
            if matches!(step, Step::Accept) {
                handler.accepted(&delivery);
                process.done(&delivery, DeliveryOutcome::Ok);
            } else {
                handler.refused(&delivery);
                process.done(&delivery, DeliveryOutcome::Permanent("no".to_owned()));
            }
        }
        Step::CommitOnly if half.is_none() => *half = Some(process.recorder.commit()),
        Step::RunOnce | Step::CommitOnly => match half.take() {
            Some(batches) => process.recorder.deliver(batches),
            None => drop(process.recorder.run_once()),
        },
        Step::Replay => process.listener.control().replay(Moment::ZERO),
        Step::Full if process.recorder.store().is_open() => process.recorder.store().fail_disk_full(),
        Step::Full => {}
        Step::Room => process.recorder.reopen(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whenever and however often the process was killed, a handler that continues in the next process ends up knowing
    /// exactly the present objects.
    #[test]
    fn continued_handler_knows_the_present_objects(lives in vec(life(), 1..4)) {
        run(&lives, true)?;
    }

    /// So does a handler that receives a replay.
    #[test]
    fn replayed_handler_misses_no_delete(lives in vec(life(), 1..4)) {
        run(&lives, false)?;
    }
}
