//! Does an informer keep what any user may write, in any size? One tenant could then fill the cache for all.

use informant_config::{Config, InformerSection, Problem, Resources};
use informant_object::Payload;
use informant_plugin_host::{EventRule, Inspection};
use informant_spec::ResourceName;

use super::components::Inspections;

/// Kinds whose whole content belongs to users, by each of their names.
const OF_USERS: &[(&str, &[&str])] = &[
    ("ConfigMaps", &["configmaps", "configmap", "cm"]),
    ("Secrets", &["secrets", "secret"]),
];

/// A warning for each informer that keeps all ConfigMaps or Secrets as they are, unless it or all caches have a budget.
/// It names the plugins that would miss the old states of shed objects.
pub(super) fn warnings(config: &Config, inspections: &Inspections<'_>) -> Vec<Problem> {
    if config.cache.max_bytes.is_some() {
        return Vec::new();
    }
    let informers = config.informers.iter().filter(|(_, section)| keeps_everything(section));
    let problems = informers.filter_map(|(informer, section)| {
        let kind = kind_of(section)?;
        let message = format!(
            "[informer.{informer}] keeps whole {kind} of all namespaces: one user can fill the cache, and then it has \
             only the metadata of the largest namespaces"
        );
        let problem = config.problem(section.position, message).warning();
        let mut help =
            "keep less with `digest = [\"/data\"]`, `drop`, `namespaces` or a selector, or set `max-bytes` here or \
             in [cache]"
                .to_owned();
        let losing = that_want_old(config, inspections, informer, kind);
        if !losing.is_empty() {
            help.push_str("; without their data there is no old state of an update, which is asked for by ");
            help.push_str(&losing.join(", "));
        }
        Some(problem.help(help))
    });
    problems.collect()
}

/// The plugins that read `informer` and ask for old states of its objects.
fn that_want_old(config: &Config, inspections: &Inspections<'_>, informer: &str, kind: &str) -> Vec<String> {
    let reads = |plugin: &str| {
        let section = config.plugins.get(plugin);
        section.is_some_and(|section| section.spec.informers.iter().any(|(_, name)| name == informer))
    };
    let wants_old = |inspection: &Inspection| {
        let of_kind = |rule: &&EventRule| rule.kind == "*" || kind.strip_suffix('s') == Some(rule.kind.as_str());
        let mut rules = inspection.manifest.events.iter().filter(of_kind);
        rules.any(|rule| rule.old && matches!(rule.payload, Payload::Whole | Payload::Fields(_)))
    };
    let plugins = inspections
        .iter()
        .filter(|(plugin, inspection)| reads(plugin) && wants_old(inspection));
    plugins.map(|(plugin, _)| format!("[plugin.{plugin}]")).collect()
}

fn keeps_everything(section: &InformerSection) -> bool {
    section.namespaces.is_empty()
        && section.label_selector.is_none()
        && section.field_selector.is_none()
        && section.drop.is_empty()
        && section.digest.is_empty()
        && !section.metadata_only
        && section.cache_bytes_max.is_none()
}

fn kind_of(section: &InformerSection) -> Option<&'static str> {
    let Resources::One(name) = &section.resource.value else {
        return None;
    };
    let name = match name {
        ResourceName::Exact(resource) if resource.group.is_empty() => &resource.plural,
        ResourceName::Loose { name, rest } if rest.is_empty() || rest == "v1" => name,
        _ => return None,
    };
    let lower = name.to_ascii_lowercase();
    let mut kinds = OF_USERS.iter();
    kinds.find_map(|(kind, names)| names.contains(&lower.as_str()).then_some(*kind))
}

#[cfg(test)]
mod tests {
    use informant_config::SourceFile;

    use super::*;

    fn found(config: &str) -> String {
        let config = Config::parse(&SourceFile::new("config.toml", config.to_owned())).unwrap();
        let lines = warnings(&config, &Inspections::new())
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        lines.join("\n")
    }

    #[test]
    fn whole_objects_of_users_are_warned_of() {
        insta::assert_snapshot!(found("[informer.maps]\nresource = \"v1/configmaps\"\n"), @r#"
        warning: config.toml:1:11: [informer.maps] keeps whole ConfigMaps of all namespaces: one user can fill the cache, and then it has only the metadata of the largest namespaces
          help: keep less with `digest = ["/data"]`, `drop`, `namespaces` or a selector, or set `max-bytes` here or in [cache]
        "#);
        for resource in ["cm", "ConfigMap", "secrets", "secret.v1"] {
            assert!(
                !found(&format!("[informer.x]\nresource = \"{resource}\"\n")).is_empty(),
                "{resource}"
            );
        }
        for without in [
            "namespaces = [\"a\"]",
            "label-selector = \"app=web\"",
            "drop = [\"/data\"]",
            "digest = [\"/data\"]",
            "metadata-only = true",
            "max-bytes = \"100MiB\"",
            "[cache]\nmax-bytes = \"100MiB\"",
        ] {
            let config = format!("[informer.x]\nresource = \"v1/secrets\"\n{without}\n");
            assert_eq!(found(&config), "", "{without}");
        }
        assert_eq!(found("[informer.x]\nresource = \"v1/pods\"\n"), "");
    }
}
