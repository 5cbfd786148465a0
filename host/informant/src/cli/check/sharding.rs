//! What runs once although the work is divided among replicas, and what has to.

use informant_config::{Config, KeyStore, PluginSection, Problem};
use informant_plugin_host::Inspection;

use super::components::imports_keys;

/// A note for each plugin that runs on one replica, with the reason.
pub(super) fn notes(config: &Config) -> Vec<Problem> {
    let notes = config.runs_once().iter().filter_map(|(name, why)| {
        let position = config.plugins.get(name)?.positions.section;
        let message = format!("[plugin.{name}] runs once, on the replica that holds the first shard: {why}");
        Some(config.problem(position, message).note())
    });
    notes.collect()
}

/// A plugin that is called in every replica has nothing that exists once. Only its manifest and imports show whether it
/// has. Keys are no reason where they are denied.
pub(super) fn check(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let uses_keys = config.key_store() == KeyStore::Secrets && imports_keys(inspection);
    let why = match (inspection.manifest.timers.is_empty(), uses_keys) {
        _ if !section.spec.is_divided => return None,
        (false, _) => "has timers",
        (true, true) => "uses kv",
        (true, false) => return None,
    };
    let message = format!("[plugin.{name}] {why}, and its objects are divided among the replicas");
    let problem = config.problem(section.positions.section, message);
    Some(problem.help(format!("add this line to [plugin.{name}]: run-once = true")))
}

#[cfg(test)]
mod tests {
    use informant_config::SourceFile;

    use super::*;

    #[test]
    fn plugins_that_run_once_are_noted_with_the_reason() {
        let sections = "[informer.pods]\nresource = \"v1/pods\"\n\
                        [plugin.report]\nscript = \"report.js\"\ninformers = [\"pods\"]\nrun-once = true\n";
        let found = |ha: &str| {
            let config = Config::parse(&SourceFile::new("config.toml", format!("{ha}{sections}"))).unwrap();
            let lines: Vec<_> = notes(&config).iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        assert_eq!(found("[ha]\n"), "");
        insta::assert_snapshot!(found("[ha]\nshards = 4\n"), @"note: config.toml:5:9: [plugin.report] runs once, on the replica that holds the first shard: `run-once` is set");
    }
}
