//! The runs of timers that have ended, in the plugin's keys. Guests see no key that begins with NUL.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::plugin::KvPlugin;
use crate::bindings::informant::plugin::types::HostError;
use crate::observed::EffectKind;

/// The key: a JSON object from the names of timers to when the last run that has ended was due.
const RUNS: &str = "\0timers";

/// The first cursor behind which a guest sees keys.
pub(super) const FIRST_SEEN: &str = "\0\u{10ffff}";

impl KvPlugin {
    /// When the last run of each timer was due that has ended. Empty without a state database.
    /// Errors: the keys cannot be read.
    pub(crate) async fn recorded_runs(&self) -> Result<BTreeMap<String, Timestamp>, HostError> {
        if !self.is_persisted() {
            return Ok(BTreeMap::new());
        }
        let keys = self.open().await?;
        let recorded = keys.get(RUNS);
        // Nothing else writes there.
        let written: Option<BTreeMap<String, String>> = recorded.and_then(|json| serde_json::from_slice(&json).ok());
        let runs = written.into_iter().flatten();
        Ok(runs
            .filter_map(|(timer, due)| Some((timer, due.parse().ok()?)))
            .collect())
    }

    /// Records them, unless nothing is to be remembered: in dry run, while another replica acts, or without a state
    /// database.
    pub(crate) fn record_runs(&self, runs: &BTreeMap<String, Timestamp>) {
        let Some(keys) = self.stored().filter(|_| !self.dry_run.is_dry_run()) else {
            return;
        };
        if self.dry_run.admit(EffectKind::Kv, None).is_err() {
            return;
        }
        let written: BTreeMap<&String, String> = runs.iter().map(|(timer, due)| (timer, due.to_string())).collect();
        if let Ok(json) = serde_json::to_vec(&written) {
            keys.commit(vec![(RUNS.to_owned(), Some(json.into()))], None);
        }
    }
}
