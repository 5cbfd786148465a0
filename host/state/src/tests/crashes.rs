//! The end at any moment: after each thing that a handler did, and within each transaction after each write, killed or
//! by a power cut.

use super::disk::{Disk, Platter, start_on};
use super::property::{Handler, Step, World, step_of, verify};
use super::*;

/// A life with everything in it: changes while the handler is at something, failures, a replay, an object that comes
/// again.
fn life() -> Vec<Step> {
    use Step::{Accept, Delete, Fail, HalfTurn, Replace, Replay, Take, Turn, Write};
    let first_list = [
        Turn, Take, Accept, Take, Turn, Accept, Take, Accept, Take, Accept, Turn, Turn,
    ];
    let changes = [Write(0), Write(3), Turn, Take, Write(0), Turn, Accept, Take, Fail, Turn];
    let delete = [Delete(1), HalfTurn, Turn, Take, Turn, Accept, Turn];
    let comes_again = [Replace(2), Turn, Take, Accept, Turn, Take, Turn, Accept, Turn];
    let replay = [Replay, Turn, Take, Accept, Delete(0), Turn];
    let rest = [Take, Accept].repeat(8);
    let mut life = Vec::new();
    life.extend(first_list.into_iter().chain(changes).chain(delete).chain(comes_again));
    life.extend(replay.into_iter().chain(rest).chain([Turn, Turn]));
    life
}

/// A world, and what a handler knows of it.
struct Scene {
    world: World,
    handler: Handler,
    /// How many ends were tried.
    ends: usize,
    /// The handler was told something: from here on nothing may be forgotten.
    has_begun: bool,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::default();
        for number in 0..3 {
            world.write(number, false);
        }
        Self {
            world,
            handler: Handler::default(),
            ends: 0,
            has_begun: false,
        }
    }

    /// Lives a whole [`life`], and looks at the disk after each write within a step, and after each step.
    fn live(
        &mut self,
        after_write: impl Fn(&mut Self, &Platter, usize),
        after_step: impl Fn(&mut Self, &Platter, &str),
    ) {
        let (disk, mut platter) = (Disk::default(), Platter::default());
        let mut process = start_on(&disk).unwrap();
        process.sync(self.world.objects.values().cloned());
        process.attach(OnStart::Continue);
        let mut half = None;
        for (place, step) in life().iter().enumerate() {
            step_of(step, &mut process, &mut self.world, &mut self.handler, &mut half);
            for op in disk.ops() {
                platter.apply(op);
                after_write(self, &platter, place);
            }
            self.has_begun |= matches!(step, Step::Take);
            after_step(self, &platter, &format!("{place}, {step:?}"));
        }
    }

    /// That the handler was told all while it lived.
    fn knows_all(&self) {
        let (told, there) = (self.handler.told.keys(), self.world.objects.keys());
        assert!(
            self.handler.in_flight.is_empty() && told.eq(there),
            "{:?}",
            self.handler
        );
    }

    /// What the next process makes of what the end left on the disk; with something deleted meanwhile every other time.
    fn end(&mut self, left: Vec<u8>, how: &str) {
        self.ends += 1;
        let mut world = self.world.clone();
        if self.ends.is_multiple_of(2) {
            world.objects.pop_first();
        }
        let on_start = if self.ends.is_multiple_of(3) {
            OnStart::Replay
        } else {
            OnStart::Continue
        };
        let next = match start_on(&Disk::of(left)) {
            Some(next) => next,
            None if !self.has_begun => start_on(&Disk::default()).unwrap(),
            None => panic!("{how}: what is left is not believed"),
        };
        verify(next, &world, &self.handler, on_start).unwrap_or_else(|error| panic!("{how}: {error}"));
    }
}

#[test]
fn killed_after_any_side_effect_and_any_write_the_next_process_ends_in_the_same_state() {
    let mut scene = Scene::new();
    scene.live(
        |scene, platter, place| {
            scene.end(platter.after_kill(), &format!("killed in step {place}"));
            if let Some(torn) = platter.torn() {
                scene.end(torn, &format!("killed within a write of step {place}"));
            }
        },
        |scene, platter, step| scene.end(platter.after_kill(), &format!("killed after step {step}")),
    );
    scene.knows_all();
    assert!(scene.ends > 200, "{}", scene.ends);
}

#[test]
fn after_a_power_cut_at_any_moment_what_handlers_were_told_is_known() {
    Scene::new().live(
        |scene, platter, place| {
            let cut = format!("power cut in step {place}");
            scene.end(platter.with(|_| false), &cut);
            scene.end(platter.with(|write| write % 2 == 0), &cut);
            scene.end(platter.with(|write| write % 3 != 0), &cut);
        },
        |scene, platter, step| scene.end(platter.with(|_| false), &format!("power cut after step {step}")),
    );
}

#[test]
fn wherever_the_disk_gets_full_handlers_are_told_and_once_there_is_room_nothing_is_missing() {
    let mut failed = 0;
    for room in 0..90 {
        let (disk, mut scene) = (Disk::default(), Scene::new());
        let mut process = start_on(&disk).unwrap();
        disk.set_room(Some(room));
        process.sync(scene.world.objects.values().cloned());
        process.attach(OnStart::Continue);
        let mut half = None;
        for step in life() {
            step_of(&step, &mut process, &mut scene.world, &mut scene.handler, &mut half);
        }
        scene.knows_all();
        failed += usize::from(!process.recorder.store().is_well());
        disk.set_room(None);
        process.recorder.reopen();
        process.recorder.turn();
        process.recorder.turn();
        let mut platter = Platter::default();
        disk.ops().into_iter().for_each(|op| platter.apply(op));
        scene.has_begun = true;
        scene.end(platter.after_kill(), &format!("room for {room}"));
    }
    assert!(failed > 50, "{failed} times it was full");
}
