//! Against a naive model, killed at any moment: before, between and after the halves of a turn.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Delete(u8),
    /// The object is deleted and made again, unseen.
    Replace(u8),
    Take,
    Accept,
    Fail,
    Turn,
    /// A turn is begun; the next one ends it.
    HalfTurn,
    Replay,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8).prop_map(Step::Write),
        3 => (0..6u8).prop_map(Step::Delete),
        1 => (0..6u8).prop_map(Step::Replace),
        6 => Just(Step::Take),
        5 => Just(Step::Accept),
        1 => Just(Step::Fail),
        4 => Just(Step::Turn),
        2 => Just(Step::HalfTurn),
        1 => Just(Step::Replay),
    ]
}

/// What the handler knows: of each key it was told of, the incarnation, and the state it accepted last.
#[derive(Clone, Debug, Default)]
struct Handler {
    told: BTreeMap<String, String>,
    accepted: BTreeMap<String, (String, String)>,
    in_flight: Vec<Delivery>,
}

impl Handler {
    /// It is being told.
    fn told(&mut self, delivery: &Delivery) {
        if let What::Add(object) | What::Update { new: object, .. } = &delivery.what {
            self.told.insert(object.name().to_owned(), object.uid().to_owned());
            // Until it accepts this, what it accepted before is not how it is.
            self.accepted.remove(object.name());
        }
    }

    fn accepted(&mut self, delivery: &Delivery) {
        match &delivery.what {
            What::Add(object) | What::Update { new: object, .. } => {
                let state = (object.uid().to_owned(), object.version().to_string());
                self.accepted.insert(object.name().to_owned(), state);
            }
            What::Delete { key, .. } => {
                self.told.remove(key.name());
                self.accepted.remove(key.name());
            }
            What::Synced => {}
        }
    }
}

/// The world that both processes see.
#[derive(Clone, Debug, Default)]
struct World {
    version: u64,
    objects: BTreeMap<String, Object>,
}

impl World {
    fn write(&mut self, number: u8, new_incarnation: bool) -> Object {
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

fn run(steps: &[Step], crash_at: usize, meanwhile: &[Step], on_start: OnStart) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let (path, crashed) = (folder.path().join("state.redb"), folder.path().join("crashed"));
    let (mut world, mut handler) = (World::default(), Handler::default());
    let first: Vec<Object> = (0..3).map(|number| world.write(number, false)).collect();
    let mut process = Process::start(&path, options());
    process.sync(first);
    process.attach(on_start);
    let mut half = None;
    for step in &steps[..crash_at.min(steps.len())] {
        step_of(step, &mut process, &mut world, &mut handler, &mut half);
    }
    process.crash(&crashed);
    for step in meanwhile {
        match step {
            Step::Write(number) => drop(world.write(*number, false)),
            Step::Replace(number) => drop(world.write(*number, true)),
            Step::Delete(number) => drop(world.objects.remove(&format!("p{number}"))),
            _ => {}
        }
    }
    let mut next = Process::start(&crashed, options());
    next.sync(world.objects.values().cloned());
    next.attach(on_start);
    next.recorder.turn();
    let mut knows = Handler {
        in_flight: Vec::new(),
        ..handler.clone()
    };
    while let Some(delivery) = next.take() {
        knows.told(&delivery);
        knows.accepted(&delivery);
        next.done(&delivery, Outcome::Ok);
    }
    let now: BTreeMap<_, _> = world
        .objects
        .iter()
        .map(|(name, object)| (name.clone(), (object.uid().to_owned(), object.version().to_string())))
        .collect();
    // Everything that is there was accepted as it is, and of nothing else does the handler think that it is there.
    prop_assert_eq!(&knows.accepted, &now);
    let thinks: Vec<_> = knows.told.iter().collect();
    let is: Vec<_> = world
        .objects
        .iter()
        .map(|(name, object)| (name.clone(), object.uid().to_owned()))
        .collect();
    prop_assert_eq!(thinks, is.iter().map(|(name, uid)| (name, uid)).collect::<Vec<_>>());
    Ok(())
}

fn step_of(
    step: &Step,
    process: &mut Process,
    world: &mut World,
    handler: &mut Handler,
    half: &mut Option<Vec<crate::group::Group>>,
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
        Step::Delete(number) => {
            let name = format!("p{number}");
            if world.objects.remove(&name).is_some() {
                world.version += 1;
                process.delete(&name, world.version);
            }
        }
        Step::Take => {
            if let Some(delivery) = process.take() {
                handler.told(&delivery);
                handler.in_flight.push(delivery);
            }
        }
        Step::Accept | Step::Fail => {
            let Some(delivery) = handler.in_flight.pop() else {
                return;
            };
            if matches!(step, Step::Accept) {
                handler.accepted(&delivery);
                process.done(&delivery, Outcome::Ok);
            } else {
                process.done(&delivery, Outcome::Permanent("no".to_owned()));
            }
        }
        Step::HalfTurn if half.is_none() => *half = Some(process.recorder.commit()),
        Step::Turn | Step::HalfTurn => match half.take() {
            Some(groups) => process.recorder.hand_on(groups),
            None => drop(process.recorder.turn()),
        },
        Step::Replay => process.listener.replay(Moment::ZERO),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Wherever it was killed, a handler that goes on in the next process knows in the end what there is, and nothing else.
    #[test]
    fn a_handler_that_continues_knows_what_there_is(
        steps in vec(step(), 0..60),
        crash_at in 0..60usize,
        meanwhile in vec(step(), 0..8),
    ) {
        run(&steps, crash_at, &meanwhile, OnStart::Continue)?;
    }

    /// So does one that is shown everything.
    #[test]
    fn a_handler_that_is_shown_everything_misses_no_delete(
        steps in vec(step(), 0..60),
        crash_at in 0..60usize,
        meanwhile in vec(step(), 0..8),
    ) {
        run(&steps, crash_at, &meanwhile, OnStart::Replay)?;
    }
}
