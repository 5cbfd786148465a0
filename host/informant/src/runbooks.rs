//! The runbooks in `docs/runbooks/`, by code. Alerts, log events, readiness and `informant status` name the codes;
//! `informant explain CODE` prints the pages.

use informant_cache::SourceState;

/// What to do about one kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runbook {
    /// Its name, kebab-case.
    pub(crate) code: &'static str,
    /// The page, in Markdown.
    pub(crate) page: &'static str,
}

/// Embeds the page of each code.
macro_rules! runbooks {
    ($($name:ident = $code:literal),* $(,)?) => {
        $(pub(crate) const $name: Runbook = Runbook {
            code: $code,
            page: include_str!(concat!("../../../docs/runbooks/", $code, ".md")),
        };)*

        /// All runbooks, by code.
        pub(crate) const RUNBOOKS: &[Runbook] = &[$($name),*];
    };
}

runbooks! {
    ADMIN_CERTIFICATE = "admin-certificate",
    CACHE_SHED = "cache-shed",
    CALLERS_NOT_CHECKED = "callers-not-checked",
    CONFIG_NOT_APPLIED = "config-not-applied",
    CONFIGURATIONS_DIFFER = "configurations-differ",
    DEAD_LETTERS = "dead-letters",
    EVENTS_LOST = "events-lost",
    EVENTS_STUCK = "events-stuck",
    FILE_DESCRIPTORS = "file-descriptors",
    HANDLER_SLOW = "handler-slow",
    HTTP_HOST_CLOSED = "http-host-closed",
    INDEX_NOT_READY = "index-not-ready",
    INFORMANT_ABSENT = "informant-absent",
    INFORMANT_RESTARTING = "informant-restarting",
    LAYOUT_CHANGE_STUCK = "layout-change-stuck",
    LEASE_FLAPPING = "lease-flapping",
    NO_HOLDER = "no-holder",
    NOT_SYNCED = "not-synced",
    PLUGIN_FAILING = "plugin-failing",
    PLUGIN_NOT_READY = "plugin-not-ready",
    PLUGIN_NOT_RELOADED = "plugin-not-reloaded",
    PLUGIN_QUARANTINED = "plugin-quarantined",
    PLUGIN_REFUSED = "plugin-refused",
    REPLICA_NOT_READY = "replica-not-ready",
    SHARD_SKEW = "shard-skew",
    SHARD_WITHOUT_HOLDER = "shard-without-holder",
    STATE_FAILING = "state-failing",
    TWO_PROCESSES = "two-processes",
    WATCH_NOT_LIVE = "watch-not-live",
}

impl Runbook {
    /// What is wrong, in one line: the first sentence of the page.
    pub(crate) fn summary(&self) -> &'static str {
        let bold = self.page.split("**").nth(1);
        bold.unwrap_or_default().trim_end_matches('.')
    }
}

/// What follows a line about a problem.
pub(crate) fn hint(code: Option<&str>) -> String {
    code.map_or_else(String::new, |code| format!(" (informant explain {code})"))
}

pub(crate) fn of_source(state: SourceState) -> Option<Runbook> {
    match state {
        SourceState::Live => None,
        SourceState::Syncing => Some(NOT_SYNCED),
        _ => Some(WATCH_NOT_LIVE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_code_and_sections() {
        let mut codes: Vec<_> = RUNBOOKS.iter().map(|runbook| runbook.code).collect();
        assert!(codes.is_sorted());
        for Runbook { code, page } in RUNBOOKS {
            assert!(page.starts_with(&format!("# {code}\n\n**")), "{code}");
            for section in ["\n## Symptom\n", "\n## Look\n", "\n## Decide\n"] {
                assert!(page.contains(section), "{code} lacks {section:?}");
            }
            let named = page.split("informant explain ").skip(1);
            for other in named.filter_map(|rest| rest.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next()) {
                assert!(codes.contains(&other), "{code} names {other:?}");
            }
        }
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks");
        let pages = std::fs::read_dir(folder).unwrap();
        let mut pages: Vec<_> = pages
            .map(|page| page.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "README.md")
            .map(|name| name.trim_end_matches(".md").to_owned())
            .collect();
        pages.sort();
        codes.sort_unstable();
        assert_eq!(codes, pages);
    }

    #[test]
    fn summary_is_one_line_of_the_page() {
        assert_eq!(
            PLUGIN_QUARANTINED.summary(),
            "A plugin crashed or timed out too often and is not called"
        );
        assert!(
            RUNBOOKS
                .iter()
                .all(|runbook| (20..80).contains(&runbook.summary().len()))
        );
    }
}
