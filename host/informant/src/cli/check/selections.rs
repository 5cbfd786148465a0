//! Checks what a plugin's section selects against its manifest: what no rule can select is a typo.

use informant_object::LabelSelector;
use informant_plugin_host::{EventRule, Inspection};
use informant_spec::EventSelection;

use informant_config::{Config, PluginSection, Problem};

/// A warning for each namespace that no rule of the manifest selects, and for a label selector that contradicts all.
pub(super) fn check(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Vec<Problem> {
    let rules: Vec<EventSelection> = inspection.manifest.events.iter().map(EventRule::selection).collect();
    if rules.is_empty() {
        return Vec::new();
    }
    let selection = &section.spec.selection;
    let problems = never_selected(selection, &rules)
        .into_iter()
        .chain(contradicted(selection, &rules));
    let warn = |(message, help): (String, String)| {
        let problem = config.problem(section.positions.selection, format!("[plugin.{name}] {message}"));
        problem.help(help).warning()
    };
    problems.map(warn).collect()
}

fn never_selected(selection: &EventSelection, rules: &[EventSelection]) -> Vec<(String, String)> {
    let mut known: Vec<&str> = rules
        .iter()
        .flat_map(|rule| &rule.namespaces)
        .map(String::as_str)
        .collect();
    known.sort_unstable();
    known.dedup();
    let known = known.join(", ");
    let is_never = |namespace: &&String| !rules.iter().any(|rule| rule.selects_namespace(namespace));
    let problem = |namespace: &String| {
        let message = format!("`namespaces` has \"{namespace}\", which no rule of its manifest selects");
        (message, format!("remove it; the rules select the namespaces: {known}"))
    };
    selection.namespaces.iter().filter(is_never).map(problem).collect()
}

fn contradicted(selection: &EventSelection, rules: &[EventSelection]) -> Option<(String, String)> {
    let own = selection.label_selector.as_ref()?;
    let everything = LabelSelector::everything();
    let selectors: Vec<&LabelSelector> = rules
        .iter()
        .map(|rule| rule.label_selector.as_ref().unwrap_or(&everything))
        .collect();
    if selectors.iter().any(|selector| own.is_compatible_with(selector)) {
        return None;
    }
    if !own.is_compatible_with(own) {
        let help = "its requirements contradict each other; change it, or remove it";
        return Some((format!("`label-selector` \"{own}\" matches no object"), help.to_owned()));
    }
    let message = format!("no object matches both `label-selector` \"{own}\" and a rule of its manifest");
    let of_rules: Vec<String> = selectors.iter().map(|selector| format!("\"{selector}\"")).collect();
    Some((
        message,
        format!("change it, or remove it; the rules select: {}", of_rules.join(", ")),
    ))
}
