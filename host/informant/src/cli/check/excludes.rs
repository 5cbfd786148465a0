//! Entries of `exclude` that leave nothing out.

use std::collections::BTreeMap;

use informant_informer::{Exclusion, Idle};

use crate::config::{Config, InformerSection, Problem};

/// One problem for each entry that leaves nothing out in any cluster of its informer. `said` has an item for each
/// informer and cluster that was asked; where a cluster, or the entry's group in it, did not answer, there is no
/// verdict.
pub(super) fn judge(config: &Config, said: &[(String, BTreeMap<String, Exclusion>)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, section) in &config.informers {
        let of_informer: Vec<_> = said.iter().filter(|(informer, _)| informer == name).collect();
        if of_informer.len() < config.clusters_of(section).count() {
            continue;
        }
        for entry in &section.exclude_entries {
            let verdicts = of_informer.iter().map(|(_, exclusions)| exclusions.get(&entry.value));
            let idle: Option<Vec<&Idle>> = verdicts
                .map(|verdict| match verdict {
                    Some(Exclusion::Idle(idle)) => Some(idle),
                    Some(Exclusion::LeavesOut) | None => None,
                })
                .collect();
            if let Some(idle) = idle.and_then(|idle| idle.into_iter().max_by_key(|idle| idle.candidates.len())) {
                let message = message(name, section, &entry.value, idle);
                let problem = config.problem(entry.place, message).warning();
                problems.push(problem.help("write what is meant, or leave the entry out"));
            }
        }
    }
    problems
}

fn message(name: &str, section: &InformerSection, entry: &str, idle: &Idle) -> String {
    format!(
        "[informer.{name}] `exclude`: of {}, `{entry}` {idle}",
        section.resource.value
    )
}
