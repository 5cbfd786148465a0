//! Measures what 1,000 idle plugins of 20 components in Rust cost: the time until all of them run, and their memory
//! besides linear memory. `cargo xtask bench plugins` runs it. Linux only: it reads what is resident from `/proc`.
//!
//! The components are in the cache of compiled components before, as after a restart. The plugins are loaded side by
//! side, as `informant run` loads them, and attached to a source without objects.
//!
//! Exits with an error if a bound is missed.

#![expect(clippy::print_stdout, reason = "it prints its results")]

#[path = "shared/setup.rs"]
mod setup;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use informant_cache::{Catalog, Environment};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{Compiler, HostOptions, Plugin, PluginHost, PluginMetrics, RunnerSources, Services};
use informant_spec::{Content, PluginSpec};
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::setup::{built, synced};

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PLUGINS: usize = 1_000;

const COMPONENTS: usize = 20;

/// The most memory of one plugin besides its linear memory.
const PLUGIN_BYTES_MAX: usize = 64 << 10;

/// The most time until all plugins run.
const START_TIME_MAX: Duration = Duration::from_secs(3);

/// The address space of the pool of linear memories is larger: 3,000 memories of 4 GiB. Nothing else is.
const POOL_BYTES_MIN: usize = 1 << 40;

/// Bytes of this process that are resident.
#[derive(Clone, Copy)]
struct Resident {
    linear: usize,
    other: usize,
}

fn main() -> Result<ExitCode> {
    // As in the program: guests have a runtime of their own.
    let (informers, guests) = (Runtime::new()?, Runtime::new()?);
    let is_met = informers.block_on(measure(&informers, &guests))?;
    guests.shutdown_background();
    Ok(match is_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn measure(informers: &Runtime, guests: &Runtime) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let components = components(folder.path())?;
    // It stays, so that what it frees does not count.
    let compiles = host(folder.path(), Catalog::new(), informers, guests)?;
    for component in &components {
        let content = Content::new(component.clone(), std::fs::read(component)?);
        compiles.inspect(&content, serde_json::json!({})).await?;
    }
    let catalog = Catalog::new();
    let (source, snapshot) = synced(&catalog, "pods", "Pod", Vec::new())?;
    let before = pools()?;
    let host = host(folder.path(), catalog, informers, guests)?;
    let pool = pools()?.into_iter().find(|pool| !before.contains(pool));
    let pool = pool.context("there is no pool of linear memories: is the address space limited (ulimit -v)?")?;
    let (before, began) = (resident(&pool)?, Instant::now());
    let mut starting = JoinSet::new();
    for number in 0..PLUGINS {
        let component = components[number % COMPONENTS].clone();
        starting.spawn(start(host.clone(), format!("plugin-{number}"), component));
    }
    let mut plugins = Vec::with_capacity(PLUGINS);
    while let Some(plugin) = starting.join_next().await {
        plugins.push(plugin??);
    }
    let took = began.elapsed();
    let clock = TokioEnvironment::new(informers.handle().clone(), 1);
    for plugin in &plugins {
        let listener = plugin.listener();
        listener.feed().attach(source, &snapshot, clock.now());
        while !listener.feed().has_synced(source) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let after = resident(&pool)?;
    let linear: usize = plugins.iter().map(|plugin| plugin.status().memory_bytes).sum();
    let kib = |bytes: usize| bytes as f64 / 1_024.0 / PLUGINS as f64;
    println!(
        "each plugin: {:.0} KiB of linear memory, of which {:.1} KiB are resident",
        kib(linear),
        kib(after.linear.saturating_sub(before.linear))
    );
    let each = after.other.saturating_sub(before.other) / PLUGINS;
    let is_small = each < PLUGIN_BYTES_MAX;
    println!(
        "{}: {:.1} KiB besides that, below {} KiB",
        verdict(is_small),
        each as f64 / 1_024.0,
        PLUGIN_BYTES_MAX >> 10
    );
    let is_quick = took < START_TIME_MAX;
    println!(
        "{}: {PLUGINS} plugins of {COMPONENTS} components run after {took:.2?}, below {START_TIME_MAX:.0?}",
        verdict(is_quick)
    );
    Ok(is_small && is_quick)
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "ok" } else { "missed" }
}

async fn start(host: PluginHost, name: String, component: PathBuf) -> Result<Plugin> {
    let spec = PluginSpec::new(&name, &component);
    let content = Content::new(component.clone(), std::fs::read(&component)?);
    let plugin = host.load(spec, content).await?;
    plugin.start().await;
    Ok(plugin)
}

fn host(folder: &Path, catalog: Catalog, informers: &Runtime, guests: &Runtime) -> Result<PluginHost> {
    let clock = TokioEnvironment::new(informers.handle().clone(), 1);
    let env: Arc<dyn Environment> = Arc::new(clock.on(guests.handle().clone()));
    let host = PluginHost::new(HostOptions {
        cache_dir: folder.join("artifacts"),
        env,
        handle: guests.handle().clone(),
        compiler: Compiler::InProcess,
        services: Services {
            catalog,
            kube: None,
            key_value: None,
            http: None,
            observer: None,
            gate: None,
        },
        metrics: PluginMetrics::register(&mut Registry::default()),
        script_runners: RunnerSources::new(),
    })?;
    Ok(host)
}

/// Components that differ in a section that nothing reads, so that each has code of its own.
fn components(folder: &Path) -> Result<Vec<PathBuf>> {
    let component = std::fs::read(built("crash_loop.wasm")?)?;
    let copy = |number: usize| {
        let path = folder.join(format!("{number}.wasm"));
        // A custom section of five bytes: the length of its name, its name, and its content.
        let section = [0, 5, 3, b'n', b'o', b'.', number as u8];
        std::fs::write(&path, [&component[..], &section].concat())?;
        Ok(path)
    };
    (0..COMPONENTS).map(copy).collect()
}

/// The address spaces that are as large as a pool of linear memories.
fn pools() -> Result<Vec<Range<usize>>> {
    let maps = std::fs::read_to_string("/proc/self/maps").context("cannot read what is mapped")?;
    let ranges = maps.lines().filter_map(mapped);
    Ok(ranges.filter(|range| range.len() >= POOL_BYTES_MIN).collect())
}

/// What is resident within the pool, which has been split into many parts since, and elsewhere.
fn resident(pool: &Range<usize>) -> Result<Resident> {
    // Line by line: the whole text has some megabytes, which would be part of the result.
    let file = File::open("/proc/self/smaps").context("cannot read what is resident")?;
    let (mut resident, mut is_linear) = (Resident { linear: 0, other: 0 }, false);
    for line in BufReader::new(file).lines() {
        let line = line?;
        if let Some(range) = mapped(&line) {
            is_linear = pool.contains(&range.start);
        } else if let Some(kilobytes) = line.strip_prefix("Rss:") {
            let bytes = kilobytes.trim().trim_end_matches(" kB").parse::<usize>()? * 1_024;
            let part = if is_linear {
                &mut resident.linear
            } else {
                &mut resident.other
            };
            *part += bytes;
        }
    }
    Ok(resident)
}

/// The addresses at the beginning of a line: `7f0000000000-7f0000001000 rw-p …`.
fn mapped(line: &str) -> Option<Range<usize>> {
    let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(begin)?..address(end)?)
}
