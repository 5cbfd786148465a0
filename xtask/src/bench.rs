//! Benchmarks of a release build.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::{
    base, browser, c_plugins, cargo, cluster_tools, dashboard, go_plugins, guests, npm, peers, python_runner, report,
    script_runner, workspace, zig,
};

/// What to measure.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// Measure only Informant, without client-go (which requires Go) and kube-rs.
    #[arg(long)]
    without_peers: bool,
    /// Measure the crates as a library instead: a store with 40 reader threads, and 100 native handlers on one
    /// informer.
    #[arg(long, conflicts_with = "without_peers")]
    library: bool,
    /// Compare with the release build of an earlier commit, instead of with other programs: five rounds, both at the
    /// same time on the same pods. Fails if CPU per object or per event grew by more than 3 %.
    #[arg(long, value_name = "COMMIT", conflicts_with = "library")]
    against: Option<String>,
    /// Arguments for the benchmark (`--objects N,N --events N --rounds N --sync list,watch-list --tls --swaps N
    /// --report FILE …`; `-- --help` lists all).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// A part that is measured on its own.
#[derive(clap::Subcommand)]
enum Part {
    /// Measure plugins, and fail if a bound is missed: what one call of a handler costs in each language and how much
    /// memory it takes, what calls of reconcilers and runs of timers cost, how many writes a reconciler makes for 500
    /// objects, how fast the writes are made that a handler defers, what waiting for HTTP costs other plugins, and what
    /// 1,000 idle plugins cost. Requires Python, for the script runners; what is written in Go requires Go.
    ///
    /// `cargo xtask bench --against COMMIT` compares CPU and memory of the whole program with an earlier commit.
    Plugins {
        /// Measure only this.
        #[arg(long)]
        only: Option<Measured>,
    },
    /// Measure the admin port, and fail if a bound is missed: how long events wait while it is busy, compared with
    /// another server that is as busy, and how long an authorized `get` takes.
    Admin,
    /// Measure the budget of the caches, and fail if a bound is missed: a million pods with 2 GiB, of which most are
    /// kept as heads, and what a namespace full of large objects costs the others. The API server takes 10 GB of memory
    /// for the pods. Requires Python, for the script runner.
    Budget,
    /// Measure what it costs to see what happens, and fail if a bound is missed: answers of `why` with a full record,
    /// the first view of the dashboard with 200 plugins and 500 sources, and 20 clients of its stream. Requires npm,
    /// and Chromium with its driver.
    See {
        /// Measure only `why`, `page` or `streams`.
        #[arg(long)]
        only: Option<String>,
    },
    /// Measure one handler and ten, by Informant, client-go, kube-rs, Kopf and shell-operator, as they come and with
    /// the settings that make them cheapest. Fails if ten handlers cost more than a bound allows. Those are left out
    /// whose tools are missing: Go, Python with pip, or shell-operator and jq. Takes about twenty minutes.
    Handlers {
        /// Pods.
        #[arg(long, default_value = HANDLED_PODS)]
        pods: String,
        /// Seconds of updates.
        #[arg(long, default_value = "10")]
        seconds: String,
        /// Rounds.
        #[arg(long, default_value = "1")]
        rounds: String,
    },
    /// Measure three replicas on a real kube-apiserver, and fail if a bound is missed: how long it takes from the end
    /// of the replica that acts to the first call of its successor, what a takeover repeats, whether a rolling update
    /// loses something, the memory of a standby, and what it costs to keep `kv` in Secrets. Requires Go, for
    /// kube-apiserver.
    Ha {
        /// How often the replica that acts is killed, at each speed.
        #[arg(long, default_value_t = 100)]
        kills: u32,
        /// How often a replica that has a part of the objects is killed, at each speed and with each hash.
        #[arg(long, default_value_t = 3)]
        shard_kills: u32,
        /// Measure only replicas that divide this number of pods.
        #[arg(long, num_args = 0..=1, default_missing_value = DIVIDED_PODS)]
        shards: Option<String>,
        /// Print the model of 1,000 replicas and 10 million objects, without measuring.
        #[arg(long, conflicts_with = "shards")]
        model: bool,
    },
}

/// What is measured about plugins.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Measured {
    /// One call of a handler.
    Calls,
    /// One call of a reconciler, and how long related objects take.
    Reconcilers,
    /// Timers: those that are due, and those that are not.
    Timers,
    /// The writes of `plugins/website`, and its restart.
    Websites,
    /// Deferred writes.
    Writes,
    /// Waiting for HTTP.
    Http,
    /// Idle plugins, on Linux.
    Idle,
}

/// Pods whose label a handler sets in a measurement of deferred writes.
const WRITTEN_PODS: &str = "10000";

/// Websites in a measurement of a reconciler's writes.
const WEBSITES: &str = "500";

/// Pods in the cache in a measurement of the admin port.
const CACHED_PODS: &str = "1000";

/// Pods in a measurement of the budget of the caches.
const SHED_PODS: &str = "1000000";

/// Pods in a measurement of one handler and ten.
const HANDLED_PODS: &str = "5000";

/// Pods in a measurement of replicas.
const REPLICATED_PODS: &str = "20000";

/// Pods that replicas divide.
const DIVIDED_PODS: &str = "200000";

/// Seconds of an attack, and of the time before it.
const ATTACK_SECONDS: &str = "60";

/// Builds a release of Informant and measures it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.part {
        Some(Part::Plugins { only }) => return plugins(*only),
        Some(Part::Admin) => return cached("the admin port", &["--admin", CACHED_PODS]),
        Some(Part::Budget) => return budget(),
        Some(Part::See { only }) => return see(only.as_deref()),
        Some(Part::Ha { model: true, .. }) => return model(),
        Some(Part::Ha {
            kills,
            shard_kills,
            shards,
            ..
        }) => return ha(*kills, *shard_kills, shards.as_deref()),
        Some(Part::Handlers { pods, seconds, rounds }) => return handlers(pods, seconds, rounds),
        None => {}
    }
    if args.library {
        return library();
    }
    report::step("building the plugins and a release build of informant");
    guests::add_target(guests::TARGET)?;
    guests::build_packages(&["crash-loop".to_owned(), "guest-measured".to_owned()])?;
    let mut command = benchmark()?;
    let mut is_met = true;
    if let Some(commit) = &args.against {
        command.arg("--against").arg(base::build(commit)?);
        // Given again, an option of the same name overrides these.
        command.args(["--rounds", "5", "--events", "60000", "--sync", "list", "--swaps", "0"]);
    } else if !args.without_peers {
        let programs = peers::build()?;
        add_programs(&mut command, &programs);
        report::step("ten handlers");
        let mut ten = benchmark()?;
        ten.args(["--handlers", HANDLED_PODS, "--rounds", "1"]);
        add_programs(&mut ten, &programs);
        is_met = cargo::status(&mut ten)?.success();
        report::step("one handler, in detail");
    }
    command.args(&args.rest);
    Ok(exit_code(cargo::status(&mut command)?.success() && is_met))
}

/// Measures one handler and ten, by all programs.
fn handlers(pods: &str, seconds: &str, rounds: &str) -> Result<ExitCode> {
    report::step("one handler and ten (release build)");
    guests::add_target(guests::TARGET)?;
    guests::build_packages(&["guest-measured".to_owned()])?;
    let mut command = benchmark()?;
    command.args([
        "--handlers",
        pods,
        "--tuned",
        "--lag-seconds",
        seconds,
        "--rounds",
        rounds,
    ]);
    add_programs(&mut command, &peers::build_those_possible()?);
    if let Some(packages) = peers::kopf()? {
        command.arg("--kopf").arg(packages);
    }
    Ok(exit_code(cargo::status(&mut command)?.success()))
}

fn add_programs(command: &mut Command, programs: &[(&str, PathBuf)]) {
    for (name, program) in programs {
        command.arg("--program").arg(format!("{name}={}", program.display()));
    }
}

/// Measures calls and waits by examples, and deferred writes by the benchmark.
fn plugins(only: Option<Measured>) -> Result<ExitCode> {
    if let Some(why) = zig::missing() {
        bail!("cannot build the script runner, whose calls are measured: {why}");
    }
    script_runner::build()?;
    let mut is_met = true;
    let wants = |part| only.is_none_or(|only| only == part);
    let parts = [
        (Measured::Calls, "languages,waits"),
        (Measured::Reconcilers, "reconcilers"),
        (Measured::Timers, "timers"),
    ];
    let parts: Vec<&str> = parts
        .iter()
        .filter(|(part, _)| wants(*part))
        .map(|(_, name)| *name)
        .collect();
    if !parts.is_empty() {
        measured_guests()?;
        is_met &= run_example("informant", "plugin_calls", &["--only", &parts.join(",")])?;
    }
    if wants(Measured::Http) {
        guests::build_packages(&["guest-no-op".to_owned(), "guest-http".to_owned()])?;
        is_met &= run_example("informant", "http_waits", &[])?;
    }
    if wants(Measured::Idle) && cfg!(target_os = "linux") {
        guests::build_packages(&["crash-loop".to_owned()])?;
        is_met &= run_example("informant", "idle_plugins", &[])?;
    }
    if wants(Measured::Websites) {
        is_met &= websites()?;
    }
    if wants(Measured::Writes) {
        report::step("deferred writes (release build)");
        let mut command = benchmark()?;
        is_met &= cargo::status(command.args(["--writes", WRITTEN_PODS]))?.success();
    }
    Ok(exit_code(is_met))
}

/// Measures a reconciler that writes, by the benchmark.
fn websites() -> Result<bool> {
    if let Some(why) = go_plugins::missing() {
        report::skipped("websites", why);
        return Ok(true);
    }
    go_plugins::build_components()?;
    let kopf = peers::kopf()?;
    report::step("websites (release build)");
    let mut command = benchmark()?;
    command.args(["--websites", WEBSITES, "--rounds", "1"]);
    if let Some(packages) = kopf {
        command.arg("--kopf").arg(packages);
    }
    Ok(cargo::status(&mut command)?.success())
}

/// Builds the handlers of the table of languages. Those whose tool is missing are in the table as not measured.
fn measured_guests() -> Result<()> {
    let packages = [
        "guest-no-op",
        "guest-measured",
        "guest-measured-reconciler",
        "guest-timers",
    ];
    guests::build_packages(&packages.map(str::to_owned))?;
    c_plugins::build()?;
    match go_plugins::missing() {
        Some(why) => report::skipped("plugins in Go", why),
        None => go_plugins::build_components()?,
    }
    match python_runner::missing() {
        Some(why) => report::skipped("the runner of Python scripts", why),
        None => drop(python_runner::build()?),
    }
    Ok(())
}

/// Measures a part that needs one plugin.
fn cached(what: &str, arguments: &[&str]) -> Result<ExitCode> {
    report::step(&format!("{what} (release build)"));
    guests::add_target(guests::TARGET)?;
    guests::build_packages(&["guest-measured".to_owned()])?;
    let mut command = benchmark()?;
    Ok(exit_code(cargo::status(command.args(arguments))?.success()))
}

/// Measures a million pods, then an attack on the budget.
fn budget() -> Result<ExitCode> {
    if let Some(why) = zig::missing() {
        bail!("cannot build the script runner, which the attack needs: {why}");
    }
    script_runner::build()?;
    let pods = cached("the budget of the caches", &["--budget", SHED_PODS, "--rounds", "1"])?;
    let attack = cached("an attack on the budget", &["--attack", ATTACK_SECONDS])?;
    Ok(match pods == ExitCode::SUCCESS {
        true => attack,
        false => pods,
    })
}

/// Measures what it costs to see what happens: medians of five rounds.
fn see(only: Option<&str>) -> Result<ExitCode> {
    if let Some(why) = npm::missing().or_else(browser::missing) {
        bail!("cannot measure the dashboard: {why}");
    }
    browser::install_if_missing()?;
    report::step("building the dashboard");
    dashboard::build()?;
    report::step("why, dashboard and streams (release build)");
    guests::add_target(guests::TARGET)?;
    let packages = ["guest-measured", "guest-kube", "image-mark"];
    guests::build_packages(&packages.map(str::to_owned))?;
    let mut command = benchmark()?;
    command.args(["--see", "--rounds", "5"]);
    command.args(only.map(|only| format!("--only={only}")));
    Ok(exit_code(cargo::status(&mut command)?.success()))
}

/// Measures replicas.
fn ha(kills: u32, shard_kills: u32, shards: Option<&str>) -> Result<ExitCode> {
    cluster_tools::build()?;
    report::step("replicas (release build)");
    guests::add_target(guests::TARGET)?;
    guests::build_packages(&["guest-measured".to_owned(), "guest-kv".to_owned()])?;
    let mut is_met = true;
    if shards.is_none() {
        let mut command = benchmark()?;
        command.args(["--ha", REPLICATED_PODS, "--kills", &kills.to_string()]);
        is_met = cargo::status(&mut command)?.success();
    }
    let mut command = benchmark()?;
    command.args(["--shards", shards.unwrap_or(DIVIDED_PODS)]);
    command.args(["--shard-kills", &shard_kills.to_string()]);
    is_met &= cargo::status(&mut command)?.success();
    Ok(exit_code(is_met))
}

/// Prints what a group of replicas costs, computed.
fn model() -> Result<ExitCode> {
    let run = ["run", "--locked", "--package", "informant-tests", "--bin", "bench"];
    let status = cargo::status(cargo::cargo()?.args(run).args(["--", "--model"]))?;
    Ok(exit_code(status.success()))
}

/// Builds a release of Informant and the benchmark, which measures it.
fn benchmark() -> Result<Command> {
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--release", "--package", "informant"]))?;
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--workspace", "--bins"]))?;
    let target = workspace::target()?;
    let mut command = Command::new(target.join("debug").join("bench"));
    command.env("INFORMANT_BINARY", target.join("release").join("informant"));
    Ok(command)
}

/// Runs the examples that measure the crates. Each exits with an error if it misses its limits.
fn library() -> Result<ExitCode> {
    let mut within_limits = true;
    for (package, example) in [
        ("informant-client-go", "store_under_readers"),
        ("informant-informer", "many_handlers"),
    ] {
        within_limits &= run_example(package, example, &[])?;
    }
    Ok(exit_code(within_limits))
}

/// Whether the example ended without an error.
fn run_example(package: &str, example: &str, arguments: &[&str]) -> Result<bool> {
    report::step(&format!("{example} (release build)"));
    let run = [
        "run",
        "--locked",
        "--release",
        "--package",
        package,
        "--example",
        example,
    ];
    Ok(cargo::status(cargo::cargo()?.args(run).arg("--").args(arguments))?.success())
}

fn exit_code(is_success: bool) -> ExitCode {
    match is_success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
