//! What of the log is shown: `--log-level`, which the admin server can replace.

use std::sync::{Mutex, MutexGuard, OnceLock};

use anyhow::{Context, Result, anyhow, bail};
use informant_spec::suggest::did_you_mean;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{EnvFilter, reload};

use super::AUDIT_TARGET;
use crate::sync::lock;

/// Informant's crates, whose names begin the targets of their lines.
const CRATES: [&str; 10] = [
    "informant",
    "informant_apiserver",
    "informant_cache",
    "informant_config",
    "informant_informer",
    "informant_lease",
    "informant_object",
    "informant_plugin_host",
    "informant_spec",
    "informant_state",
];

/// The target of kube's client for failed requests. It is off by default, because Informant logs each failure itself,
/// with its consequence. Naming it in `--log-level` turns it on.
const REDUNDANT_TARGET: &str = "kube_client::client::builder";

/// The filter of the log of this process, once it was started.
static FILTER: OnceLock<LogFilter> = OnceLock::new();

/// The filter of a log, which can be replaced while it is written.
pub(super) struct LogFilter {
    text: Mutex<String>,
    replace: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
}

impl LogFilter {
    pub(super) fn new(
        text: &str,
        replace: impl Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            text: Mutex::new(text.to_owned()),
            replace: Box::new(replace),
        }
    }

    /// Makes it the filter of this process.
    pub(super) fn keep(self) {
        // There is one.
        let _ = FILTER.set(self);
    }

    pub(super) fn text(&self) -> MutexGuard<'_, String> {
        lock(&self.text)
    }

    /// Returns the previous filter.
    pub(super) fn set(&self, text: &str, user: Option<&str>) -> Result<String> {
        let filter = parse(text)?;
        let mut current = self.text();
        tracing::info!(target: AUDIT_TARGET, level = text, previous = *current, user, "log level changed");
        (self.replace)(filter).context("the log cannot be changed")?;
        Ok(std::mem::replace(&mut current, text.to_owned()))
    }
}

/// The filter of the log; none if the log was not started.
pub(crate) fn level() -> Option<String> {
    FILTER.get().map(|filter| filter.text().clone())
}

/// Replaces the filter of the log, on behalf of `user` if that is known. Returns the previous one.
/// Errors: when the filter is invalid, or the log was not started.
pub(crate) fn set_level(text: &str, user: Option<&str>) -> Result<String> {
    FILTER
        .get()
        .context("this process has no log of its own")?
        .set(text, user)
}

pub(super) fn parse(level: &str) -> Result<EnvFilter> {
    let advice = || format!("\"{level}\" is not a log level or filter; examples: debug, info,informant_informer=debug");
    // A directive of the same target could name fields, too, and then overrides the one below.
    if level.contains(AUDIT_TARGET) {
        bail!("\"{level}\" names {AUDIT_TARGET}: who did what on the admin port is always logged");
    }
    if let Some(word) = level.split(',').find(|part| is_unknown_word(part)) {
        let error = anyhow!("\"{word}\" is none of off, error, warn, info, debug, trace; a crate needs a level, too");
        return Err(error.context(advice()));
    }
    if let Some(unknown) = level.split(',').find_map(unknown_crate) {
        let hint = did_you_mean(unknown, &CRATES, "crates");
        return Err(anyhow!("\"{unknown}\" is no crate of Informant; {hint}").context(advice()));
    }
    let redundant = if level.contains("kube_client") {
        String::new()
    } else {
        format!("{REDUNDANT_TARGET}=off,")
    };
    let filter = EnvFilter::builder().parse(format!("{redundant}{level},{AUDIT_TARGET}=info"));
    filter.with_context(advice)
}

/// Whether a part of a filter is a bare word that is no level. The library takes one for the name of a crate, so that a
/// typo would silence all others.
fn is_unknown_word(part: &str) -> bool {
    !part.contains(['=', '[', ']', '{', '}']) && (part.is_empty() || part.parse::<LevelFilter>().is_err())
}

/// The crate of Informant's that a part of a filter names, if there is none. The library ignores such a part.
fn unknown_crate(part: &str) -> Option<&str> {
    let target = part.split(['=', '[']).next().unwrap_or_default();
    let named = target.split("::").next().unwrap_or_default().trim();
    // What a target begins with is enough.
    let is_known = CRATES.iter().any(|known| known.starts_with(named));
    (named.starts_with(CRATES[0]) && !is_known).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_word_that_is_no_level_is_refused() {
        for level in [
            "debgu",
            "verbose",
            "",
            "bogus,,",
            "info,",
            "informant_informer",
            "informant_lease",
            "debgu,a[b{c=1,d}]=info",
        ] {
            let error = format!("{:#}", parse(level).unwrap_err());
            assert!(
                error.contains("is not a log level or filter; examples: debug"),
                "{error}"
            );
        }
        insta::assert_snapshot!(format!("{:#}", parse("info,debgu").unwrap_err()), @r#""info,debgu" is not a log level or filter; examples: debug, info,informant_informer=debug: "debgu" is none of off, error, warn, info, debug, trace; a crate needs a level, too"#);
        for level in [
            "DEBUG",
            "off",
            "3",
            "warn,informant_informer=debug",
            "info,a[b]=debug",
            "[a]",
        ] {
            parse(level).unwrap();
        }
    }

    #[test]
    fn an_unknown_crate_in_a_filter_is_refused() {
        let refused = |level| format!("{:#}", parse(level).unwrap_err());
        insta::assert_snapshot!(refused("info,informant_informr=debug"), @r#""info,informant_informr=debug" is not a log level or filter; examples: debug, info,informant_informer=debug: "informant_informr" is no crate of Informant; did you mean `informant_informer`?"#);
        assert!(refused("informant_nosuch::a[b]=debug").contains("is no crate of Informant"));
        for level in [
            "informant=debug",
            "info,informant_inform=trace",
            "hyper=debug,informant::admin=debug",
        ] {
            parse(level).unwrap();
        }
    }

    #[test]
    fn each_crate_of_the_program_is_known_to_filters() {
        let manifests = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let names = manifests.map(|folder| {
            let manifest = std::fs::read_to_string(folder.unwrap().path().join("Cargo.toml")).unwrap();
            let name = manifest
                .lines()
                .find_map(|line| line.strip_prefix("name = \""))
                .unwrap();
            name.trim_end_matches('"').replace('-', "_")
        });
        let mut names: Vec<String> = names.filter(|name| name != "informant_client_go").collect();
        names.sort();
        assert_eq!(names, CRATES);
    }
}
