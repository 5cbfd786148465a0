//! config.toml: read strictly, validated as a whole, with all problems reported by file, line and column.
//!
//! ```text
//! text ──toml──▶ spanned tree ──cluster, admin, informer, plugin──▶ sections ──references──▶ Config
//!                                                          └──────▶ Problems (all of them, not only the first)
//! ```
//!
//! Guarantees: an unknown key is an error with a suggestion, a planned key is reported as not supported yet, a
//! deprecated one is read with a warning, every number has a stated range, and environment variables are not expanded.
//! Reads no file, contacts no cluster and opens no component.
//!
//! ```layers
//! source units name
//! problem deprecated
//! table
//! listen pointers resources script_runners state cache http allow_http plugins timers
//! allow cluster health informer
//! admin ha plugin
//! references sharding
//! ```
//!
//! - `source`, `problem`: a text with positions, and what is wrong in it.
//! - `table`, `units`, `name`: typed access to a table, whose getters are the list of its keys; `deprecated`: keys of
//!   the version before that are still accepted.
//! - One module for each section, with what belongs to it: `admin`, `cache`, `cluster`, `ha`, `health`, `http`,
//!   `informer`, `plugin`, `plugins`, `script_runners`, `state`; `allow`, `allow_http`, `listen`, `pointers` and
//!   `resources` read parts of them.
//! - `references`: checks across sections; `sharding`: what is divided among several replicas.

mod admin;
mod allow;
mod allow_http;
mod cache;
mod cluster;
mod deprecated;
mod ha;
mod health;
mod http;
mod informer;
mod listen;
mod name;
mod plugin;
mod plugins;
mod pointers;
mod problem;
mod references;
mod resources;
mod script_runners;
mod sharding;
mod source;
mod state;
mod table;
mod timers;
mod units;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

pub use admin::{
    ADMIN_LISTEN_DEFAULT, ADMIN_SOCKET_DEFAULT, AdminListen, AdminSection, AdminTls, EXPOSED_HELP, exposed,
};
pub use allow::InformerGrantPositions;
pub use cache::CacheSection;
pub use cluster::ClusterSection;
pub use ha::{HaHash, HaSection, HaSpeed};
pub use health::{HEALTH_LISTEN_DEFAULT, HealthSection};
pub use http::HttpSection;
pub use informer::{InformerSection, ShardKey};
pub use name::validate_name;
pub use plugin::{PluginPositions, PluginSection};
pub use plugins::PluginsSection;
pub use problem::{Problem, Problems, Severity};
pub use references::WATCHES_MAX;
pub use resources::Resources;
pub use script_runners::ScriptRunnersSection;
pub use source::{FilePosition, Located, SourceFile, TextHash};
pub use state::{Durable, KeyStore, StateSection, StateStore};
pub use units::{parse_duration, show_duration, show_size};

pub use sharding::WorkDivision;
use sharding::WrittenKeys;
use table::{Reporter, Table};

#[derive(Debug, Clone)]
pub struct Config {
    /// The file, as passed to Informant.
    pub path: PathBuf,
    /// The clusters by name; the single one of `[cluster]` has the empty name. Never empty.
    pub clusters: BTreeMap<String, Located<ClusterSection>>,
    pub admin: AdminSection,
    /// None: one process acts alone.
    pub ha: Option<HaSection>,
    pub health: HealthSection,
    pub http: HttpSection,
    pub cache: CacheSection,
    pub state: StateSection,
    pub script_runners: ScriptRunnersSection,
    /// `[plugins]`
    pub all_plugins: PluginsSection,
    pub informers: BTreeMap<String, InformerSection>,
    pub plugins: BTreeMap<String, PluginSection>,
    /// See [`runs_once`](Self::runs_once).
    runs_once: BTreeMap<String, String>,
    pub hash: TextHash,
    /// Problems that do not make the configuration invalid.
    pub warnings: Vec<Problem>,
}

impl Config {
    /// The address of the admin server, as far as the file can be parsed. A client of the daemon needs it even if the
    /// rest of the file is invalid.
    #[must_use]
    pub fn admin_listen_of(file: &SourceFile) -> AdminListen {
        let (document, syntax) = DeTable::parse_recoverable(file.text());
        let reporter = Reporter::new(file);
        let (listen, tls, socket) = admin::listen_of(&Table::root(&reporter, document.get_ref()));
        let syntax = syntax.iter().map(|error| malformed(file, error));
        let mut errors = Problems(syntax.chain(reporter.finish().0).collect());
        errors.0.retain(|problem| problem.severity == Severity::Error);
        AdminListen {
            listen,
            tls,
            socket,
            errors,
        }
    }

    /// Where plugins remember keys.
    #[must_use]
    pub fn key_store(&self) -> KeyStore {
        match self.state.store {
            StateStore::Kubernetes => KeyStore::Secrets,
            StateStore::File if self.ha.is_some() => KeyStore::FileOfEachReplica,
            StateStore::File if self.state.is_set => KeyStore::File,
            StateStore::File => KeyStore::Nowhere,
        }
    }

    /// Validates a text.
    ///
    /// # Errors
    /// [`Problems`]: everything that is wrong, each with its place.
    pub fn parse(file: &SourceFile) -> Result<Self, Problems> {
        Self::parse_with(file, None)
    }

    /// The same in a process that runs with another `[ha]`, or with none: that says how the work is divided, because
    /// that of the file takes effect after a restart.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_for(file: &SourceFile, running: Option<&HaSection>) -> Result<Self, Problems> {
        Self::parse_with(file, Some(running))
    }

    fn parse_with(file: &SourceFile, running: Option<Option<&HaSection>>) -> Result<Self, Problems> {
        let (document, syntax) = DeTable::parse_recoverable(file.text());
        if !syntax.is_empty() {
            // What the parser guesses after a syntax error would only cause follow-up errors.
            return Err(Problems(syntax.iter().map(|error| malformed(file, error)).collect()));
        }
        let reporter = Reporter::new(file);
        let config = read(&Table::root(&reporter, document.get_ref()), running);
        let problems = reporter.finish();
        if problems.has_errors() {
            return Err(problems);
        }
        Ok(Self {
            warnings: problems.0,
            ..config
        })
    }

    /// The sections of a kind (`plugin`, `informer`) as they are written, by name, as far as the text is valid.
    #[must_use]
    pub fn written(file: &SourceFile, kind: &str) -> serde_json::Map<String, serde_json::Value> {
        let (document, _) = DeTable::parse_recoverable(file.text());
        let reporter = Reporter::new(file);
        match Table::root(&reporter, document.get_ref()).json(kind) {
            Some(serde_json::Value::Object(sections)) => sections,
            _ => serde_json::Map::new(),
        }
    }

    /// The folder that relative paths in the file are relative to.
    #[must_use]
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// The clusters of an informer: those it lists, or all.
    pub fn clusters_of<'a>(&'a self, informer: &'a InformerSection) -> impl Iterator<Item = &'a str> {
        let named = |name: &str| informer.clusters.iter().any(|cluster| cluster.value == name);
        let all = self.clusters.keys().map(String::as_str);
        all.filter(move |name| informer.clusters.is_empty() || named(name))
    }

    /// How the work is divided among the replicas.
    #[must_use]
    pub fn work_division(&self) -> WorkDivision {
        WorkDivision::of(&self.informers, &self.plugins)
    }

    /// The plugins that run on one replica for all objects although `[ha]` has `shards`, each with the reason: "it has
    /// timers".
    #[must_use]
    pub fn runs_once(&self) -> &BTreeMap<String, String> {
        &self.runs_once
    }

    /// Whether clusters have names.
    #[must_use]
    pub fn has_named_clusters(&self) -> bool {
        !self.clusters.contains_key("")
    }

    #[must_use]
    pub fn problem(&self, position: FilePosition, message: impl Into<String>) -> Problem {
        Problem::at(&self.path, position, message)
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn read(root: &Table<'_>, running: Option<Option<&HaSection>>) -> Config {
    let (mut informers, shard_keys) = read_informers(root);
    let has_durable = informers.values().any(|informer| informer.durable.is_some());
    let state = state::read(root, has_durable);
    let script_runners = script_runners::read(root);
    let mut plugins: BTreeMap<_, _> = sections(root, "plugin")
        .into_iter()
        .filter_map(|(name, table)| {
            plugin::read(&name, &table, &script_runners, state.store).map(|section| (name, section))
        })
        .collect();
    let clusters = cluster::read(root);
    references::validate(root, &clusters, &informers, &plugins);
    for PluginSection { spec, .. } in plugins.values_mut() {
        // Without a resync period of its own, a plugin has the shortest of its informers.
        let of_informers = spec
            .informers
            .iter()
            .filter_map(|(_, name)| informers.get(name)?.resync);
        spec.resync = spec.resync.or_else(|| of_informers.min());
    }
    let admin = admin::read(root, &clusters);
    let ha = ha::read(root, &clusters);
    references::check_state(root, &state, ha.is_some(), has_durable);
    let in_force = running.unwrap_or(ha.as_ref());
    let runs_once = sharding::divide(root, in_force, &shard_keys, &mut informers, &mut plugins);
    let config = Config {
        path: root.reporter().file().path().to_owned(),
        health: health::read(root, admin.listen),
        ha,
        admin,
        clusters,
        http: http::read(root),
        cache: cache::read(root),
        state,
        script_runners,
        all_plugins: plugins::read(root),
        informers,
        plugins,
        runs_once,
        hash: root.reporter().file().hash(),
        warnings: Vec::new(),
    };
    root.finish(&[]);
    config
}

fn read_informers(root: &Table<'_>) -> (BTreeMap<String, InformerSection>, WrittenKeys) {
    let (mut informers, mut shard_keys) = (BTreeMap::new(), WrittenKeys::new());
    for (name, table) in sections(root, "informer") {
        shard_keys.extend(informer::read_shard_by(&table).map(|key| (name.clone(), key)));
        informers.extend(informer::read(&table).map(|section| (name, section)));
    }
    (informers, shard_keys)
}

/// The tables `[kind.NAME]`; reports invalid names.
fn sections<'t>(root: &Table<'t>, kind: &str) -> Vec<(String, Table<'t>)> {
    let Some(table) = root.table(kind) else {
        return Vec::new();
    };
    let mut sections = Vec::new();
    for key in table.keys() {
        if !table.is_table(key.value) {
            let message = format!("`{}` is set in [{kind}] itself", key.value);
            let help = format!("use a section with a name: [{kind}.NAME]");
            table.refuse(key.position, message, help);
            continue;
        }
        if let Err(rule) = name::validate_name(key.value) {
            let message = format!("\"{}\" is not a valid NAME for [{kind}.NAME]", key.value);
            table.refuse(key.position, message, rule);
        }
        sections.extend(table.table(key.value).map(|section| (key.value.to_owned(), section)));
    }
    sections
}

fn malformed(file: &SourceFile, error: &toml::de::Error) -> Problem {
    let Some(span) = error.span() else {
        return Problem::of_file(file.path(), error.message());
    };
    let what = file.text().get(span.clone()).unwrap_or_default();
    let message = match error.message() {
        "duplicate key" => format!("`{what}` is defined twice"),
        message => message.to_owned(),
    };
    Problem::at(file.path(), file.position(span.start), message)
}

#[cfg(test)]
mod tests;
