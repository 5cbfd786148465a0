//! config.toml: read strictly, judged whole, reported with file, line and column.
//!
//! ```text
//! file ──source──▶ text ──toml──▶ spanned tree ──cluster, admin, informer, plugin──▶ sections ──references──▶ Config
//!                                                          └──────▶ Problems (all that is wrong, not only the first)
//! ```
//!
//! Promises: a key that means nothing is an error with a suggestion, a key the design knows and this version does not
//! says so, every number has a stated range, and nothing is read from the environment. Touches no cluster and opens no
//! component.

mod admin;
mod allow;
mod cluster;
mod durable;
mod informer;
mod name;
mod plugin;
mod pointers;
mod problem;
mod references;
mod resources;
mod source;
mod state;
mod suggest;
mod table;
mod units;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

pub(crate) use admin::AdminListen;
pub use admin::{ADMIN_LISTEN_DEFAULT, AdminSection};
pub use cluster::ClusterSection;
pub use durable::Durable;
pub use informer::{InformerSection, Required};
pub(crate) use name::judge_name;
pub use plugin::PluginSection;
pub use problem::{Problem, Problems, Severity};
pub use references::WATCHES_MAX;
pub use resources::Resources;
pub use source::{CONFIG_BYTES_MAX, Located, Place, ReadError, SourceFile, TextHash};
pub use state::StateSection;
pub(crate) use suggest::{did_you_mean, there_is};
pub(crate) use units::show_size;

use table::{Keys, Reporter, Table};

const KEYS: Keys = Keys {
    known: &["admin", "cluster", "informer", "plugin", "state"],
    planned: &[],
};

/// A configuration that may be used.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it came from, as it was named to us.
    pub path: PathBuf,
    /// The clusters by name; the only one of `[cluster]` has the empty name. Never none.
    pub clusters: BTreeMap<String, Located<ClusterSection>>,
    /// The admin server.
    pub admin: AdminSection,
    /// Where what outlives the process is kept.
    pub state: StateSection,
    /// The informers by name.
    pub informers: BTreeMap<String, InformerSection>,
    /// The plugins by name.
    pub plugins: BTreeMap<String, PluginSection>,
    /// Of the file's text.
    pub hash: TextHash,
    /// What is not wrong but worth a look.
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Reads and judges a file.
    ///
    /// # Errors
    /// [`Problems`] with everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let file = SourceFile::read(path).map_err(|error| Problems::of_unreadable(path, &error))?;
        Self::parse(&file)
    }

    /// Where the admin server of a daemon with this file listens, as far as the file can be read: who looks for that
    /// daemon, perhaps because it refuses the file, is not helped by hearing what else is wrong with it.
    ///
    /// # Errors
    /// [`Problems`] when the file cannot be read at all.
    pub(crate) fn admin_listen_of(path: &Path) -> Result<AdminListen, Problems> {
        let file = SourceFile::read(path).map_err(|error| Problems::of_unreadable(path, &error))?;
        let (document, syntax) = DeTable::parse_recoverable(file.text());
        let reporter = Reporter::new(&file);
        let listen = admin::listen_of(&Table::root(&reporter, document.get_ref()));
        let syntax = syntax.iter().map(|error| malformed(&file, error));
        let mut errors = Problems(syntax.chain(reporter.finish().0).collect());
        errors.0.retain(|problem| problem.severity == Severity::Error);
        Ok(AdminListen { listen, errors })
    }

    /// Judges a text.
    ///
    /// # Errors
    /// [`Problems`] with everything that is wrong with it.
    pub fn parse(file: &SourceFile) -> Result<Self, Problems> {
        let (document, syntax) = DeTable::parse_recoverable(file.text());
        if !syntax.is_empty() {
            // What the parser guessed behind a syntax error would only bring errors about errors.
            return Err(Problems(syntax.iter().map(|error| malformed(file, error)).collect()));
        }
        let reporter = Reporter::new(file);
        let config = read(&Table::root(&reporter, document.get_ref()));
        let problems = reporter.finish();
        if problems.has_errors() {
            return Err(problems);
        }
        Ok(Self {
            warnings: problems.0,
            ..config
        })
    }

    /// The folder that relative paths in the file start from.
    #[must_use]
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// The clusters that an informer is in: those it names, or all.
    pub fn clusters_of<'a>(&'a self, informer: &'a InformerSection) -> impl Iterator<Item = &'a str> {
        let named = |name: &str| informer.clusters.iter().any(|cluster| cluster.value == name);
        let all = self.clusters.keys().map(String::as_str);
        all.filter(move |name| informer.clusters.is_empty() || named(name))
    }

    /// Whether clusters have names.
    #[must_use]
    pub fn has_named_clusters(&self) -> bool {
        !self.clusters.contains_key("")
    }

    /// An error at a place of this file.
    #[must_use]
    pub fn problem(&self, place: Place, message: impl Into<String>) -> Problem {
        Problem::at(&self.path, place, message)
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn read(root: &Table<'_>) -> Config {
    root.only(&KEYS);
    let informers: BTreeMap<_, _> = sections(root, "informer")
        .into_iter()
        .filter_map(|(name, table)| Some((name, informer::read(&table)?)))
        .collect();
    let plugins: BTreeMap<_, _> = sections(root, "plugin")
        .into_iter()
        .filter_map(|(name, table)| Some((name, plugin::read(&table)?)))
        .collect();
    let clusters = cluster::read(root);
    references::judge(root, &clusters, &informers, &plugins);
    Config {
        path: root.reporter().file().path().to_owned(),
        clusters,
        admin: admin::read(root),
        state: state::read(root),
        informers,
        plugins,
        hash: root.reporter().file().hash(),
        warnings: Vec::new(),
    }
}

/// The tables `[kind.NAME]`, with a word about each name that cannot be one.
fn sections<'t>(root: &Table<'t>, kind: &str) -> Vec<(String, Table<'t>)> {
    let Some(table) = root.has(kind).then(|| root.table(kind)).flatten() else {
        return Vec::new();
    };
    let mut sections = Vec::new();
    for key in table.keys() {
        if !table.is_table(key.value) {
            let problem = table.error(key.place, format!("`{}` stands in [{kind}] itself", key.value));
            root.reporter()
                .report(problem.help(format!("each has a name of its own: [{kind}.NAME]")));
            continue;
        }
        if let Err(rule) = name::judge_name(key.value) {
            let problem = table.error(
                key.place,
                format!("\"{}\" cannot be the NAME of [{kind}.NAME]", key.value),
            );
            root.reporter().report(problem.help(rule));
        }
        sections.extend(table.table(key.value).map(|section| (key.value.to_owned(), section)));
    }
    sections
}

impl Problems {
    /// What is wrong with a file that has no text.
    pub(crate) fn of_unreadable(path: &Path, error: &ReadError) -> Self {
        Self(vec![unreadable(path, error)])
    }
}

fn unreadable(path: &Path, error: &ReadError) -> Problem {
    let problem = Problem::of_file(path, error.to_string());
    match error {
        ReadError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            problem.help("name the configuration with -c FILE; the default is config.toml in the current folder")
        }
        ReadError::NotUtf8 { .. } => problem.help("save the file as UTF-8"),
        _ => problem,
    }
}

fn malformed(file: &SourceFile, error: &toml::de::Error) -> Problem {
    let Some(span) = error.span() else {
        return Problem::of_file(file.path(), error.message());
    };
    let what = file.text().get(span.clone()).unwrap_or_default();
    let message = match error.message() {
        "duplicate key" => format!("`{what}` is there twice"),
        message => message.to_owned(),
    };
    Problem::at(file.path(), file.place(span.start), message)
}

#[cfg(test)]
mod tests;
