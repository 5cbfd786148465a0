//! Kills and power cuts at any moment: after each step of a handler, and within each transaction after each write.

use super::disk::{Disk, Platter, start_on};
use super::property::{Handler, Step, World, step_of, verify};
use super::*;

/// A schedule with everything in it: changes while the handler is busy, failures, a replay, an object that is
/// recreated.
fn life() -> Vec<Step> {
    use Step::{Accept, CommitOnly, Delete, Fail, Recreate, Replace, Replay, RunOnce, Take, Write};
    let first_list = [
        RunOnce, Take, Accept, Take, RunOnce, Accept, Take, Accept, Take, Accept, RunOnce, RunOnce,
    ];
    let changes = [
        Write(0),
        Write(3),
        RunOnce,
        Take,
        Write(0),
        RunOnce,
        Accept,
        Take,
        Fail,
        RunOnce,
    ];
    let delete = [Delete(1), CommitOnly, RunOnce, Take, RunOnce, Accept, RunOnce];
    let comes_again = [
        Replace(2),
        RunOnce,
        Take,
        Accept,
        RunOnce,
        Take,
        RunOnce,
        Accept,
        RunOnce,
    ];
    // Delivered together, and the next incarnation before anything is known to be acknowledged.
    let incarnations = [
        Recreate(2),
        RunOnce,
        Take,
        Accept,
        Take,
        Accept,
        Recreate(2),
        Recreate(2),
        RunOnce,
        Take,
        Accept,
        Take,
        Accept,
        RunOnce,
        Take,
        Accept,
        Take,
    ];
    let replay = [Replay, RunOnce, Take, Accept, Delete(0), RunOnce];
    let rest = [Take, Accept].repeat(8);
    let mut life = Vec::new();
    life.extend(
        first_list
            .into_iter()
            .chain(changes)
            .chain(delete)
            .chain(comes_again)
            .chain(incarnations),
    );
    life.extend(replay.into_iter().chain(rest).chain([RunOnce, RunOnce]));
    life
}

/// A world, and what a handler knows of it.
struct Scene {
    world: World,
    handler: Handler,
    /// How many kills were tried.
    ends: usize,
    /// The handler has received something: from here on nothing may be lost.
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

    /// Runs a whole [`life`], and examines the disk after each write within a step, and after each step.
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

    /// Asserts that the handler received everything while the process ran.
    fn knows_all(&self) {
        assert!(self.handler.knows_all(&self.world), "{:?}", self.handler);
    }

    /// Verifies the next process on what is left on the disk; every other time with objects deleted meanwhile.
    fn end(&mut self, left: Vec<u8>, how: &str) {
        self.ends += 1;
        let mut world = self.world.clone();
        if self.ends.is_multiple_of(2) {
            world.objects.pop_first();
            world.objects.pop_last();
        }
        let on_start = if self.ends.is_multiple_of(3) {
            OnStart::Replay
        } else {
            OnStart::Continue
        };
        let next = match start_on(&Disk::of(left)) {
            Some(next) => next,
            None if !self.has_begun => start_on(&Disk::default()).unwrap(),
            None => panic!("{how}: the file is not accepted"),
        };
        verify(next, &world, &self.handler, on_start).unwrap_or_else(|error| panic!("{how}: {error}"));
    }
}

#[test]
fn kill_after_any_write_leads_to_the_same_state() {
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
fn power_cut_loses_no_delivered_event() {
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
fn full_disk_at_any_write_loses_nothing_after_recovery() {
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
        failed += usize::from(!process.recorder.store().is_open());
        disk.set_room(None);
        process.recorder.reopen();
        process.recorder.run_once();
        process.recorder.run_once();
        let mut platter = Platter::default();
        disk.ops().into_iter().for_each(|op| platter.apply(op));
        scene.has_begun = true;
        scene.end(platter.after_kill(), &format!("room for {room}"));
    }
    assert!(failed > 50, "{failed} times it was full");
}
