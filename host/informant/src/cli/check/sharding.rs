//! What runs once although the work is divided among replicas.

use informant_config::{Config, Problem};

/// A note for each plugin that runs once, with the reason.
pub(super) fn notes(config: &Config) -> Vec<Problem> {
    let notes = config.runs_once().iter().filter_map(|(name, why)| {
        let position = config.plugins.get(name)?.positions.section;
        let message = format!("[plugin.{name}] runs once, on the replica that holds the first shard: {why}");
        Some(config.problem(position, message).note())
    });
    notes.collect()
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
