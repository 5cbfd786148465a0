//! One handler and ten, by Informant and by other programs, on the same pods and in one run.
//!
//! ```text
//!                         ┌─▶ Informant, Kopf, shell-operator: one process with 1 or 10 handlers
//! embedded API server ────┤
//!                         └─▶ client-go, kube-rs: 1 or 10 processes with one handler each
//! ```
//!
//! Each subject is started again, gets updates at a steady rate, then bursts. One that does not keep up with the rate
//! is measured again at a lower one, so that its CPU is that per event it handled, not per event it lost.

mod phases;
mod report;
mod running;
mod setup;
mod sockets;

use anyhow::Result;

use super::Args;
use super::cores::Cores;
use super::rig::Rig;
use report::{Figure, Report};
use setup::Setup;

/// Numbers of handlers.
const ONE: u32 = 1;
const TEN: u32 = 10;

/// Measures `args.rounds` rounds with `objects` pods each, and prints them. Returns whether ten handlers meet the
/// targets.
pub(super) async fn measure(cores: &Cores, objects: u32, args: &Args) -> Result<bool> {
    let setups = setup::all(args)?;
    let counts = if args.tuned { vec![ONE, TEN] } else { vec![TEN] };
    let mut report = Report::default();
    for round in 1..=args.rounds {
        println!("round {round} of {}", args.rounds);
        let mut rig = Rig::filled(cores, false, objects).await?;
        phases::count_requests(&rig).await?;
        phases::update_each(&mut rig).await?;
        for handlers in &counts {
            for setup in &setups {
                let measured = measure_one(&mut rig, setup, *handlers, args.lag_seconds, &mut report).await;
                match measured {
                    // One that takes too long, for example to start with ten handlers, is missing from the tables.
                    Err(error) if !setup.has_bounds() => {
                        println!("{}, {handlers} handler(s): not measured: {error:#}", setup.name);
                    }
                    measured => measured?,
                }
            }
        }
    }
    println!("\n{}", report.tables(objects, cores));
    let bounds = report.bounds();
    bounds.iter().for_each(|(line, _)| println!("{line}"));
    Ok(bounds.iter().all(|(_, is_met)| *is_met))
}

async fn measure_one(rig: &mut Rig, setup: &Setup, handlers: u32, seconds: u32, report: &mut Report) -> Result<()> {
    // The first start fills the caches on disk.
    drop(phases::restart(rig, setup, handlers).await?);
    let before = phases::requests(rig).await?;
    let restarted = phases::restart(rig, setup, handlers).await?;
    let running = &restarted.running;
    let paced = phases::sustained(rig, running, &setup.name, seconds).await?;
    let requests = phases::requests(rig).await? - before;
    let burst = phases::bursts(rig, running, paced.rate).await?;
    let figures = [
        (Figure::Cpu, Some(paced.cpu_us)),
        (Figure::Memory, Some(paced.memory_bytes)),
        (Figure::Rate, Some(f64::from(paced.rate))),
        (Figure::LagP99, paced.lag_p99_us),
        (Figure::Burst, burst),
        (Figure::Requests, Some(requests as f64)),
        (Figure::Received, paced.received_bytes),
        (Figure::FirstCall, Some(restarted.first_call.as_secs_f64())),
        (Figure::AllCalls, Some(restarted.all_calls.as_secs_f64())),
    ];
    report.note(&setup.name, setup.reads, handlers, figures);
    println!("{}", report.line(&setup.name, handlers));
    Ok(())
}
