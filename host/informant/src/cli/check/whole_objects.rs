//! Does an informer keep what any user may write, in any size? One tenant could then fill the cache for all.

use informant_config::{Config, InformerSection, Problem, Resources};
use informant_spec::ResourceName;

/// Kinds whose whole content belongs to users, by each of their names.
const OF_USERS: &[(&str, &[&str])] = &[
    ("ConfigMaps", &["configmaps", "configmap", "cm"]),
    ("Secrets", &["secrets", "secret"]),
];

/// A warning for each informer that keeps all ConfigMaps or Secrets as they are, unless the caches have a budget.
pub(super) fn warnings(config: &Config) -> Vec<Problem> {
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
        Some(problem.help(
            "keep less with `digest = [\"/data\"]`, `drop`, `namespaces` or a selector, or set `max-bytes` in [cache]",
        ))
    });
    problems.collect()
}

fn keeps_everything(section: &InformerSection) -> bool {
    section.namespaces.is_empty()
        && section.label_selector.is_none()
        && section.field_selector.is_none()
        && section.drop.is_empty()
        && section.digest.is_empty()
        && !section.metadata_only
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
        let lines = warnings(&config).iter().map(ToString::to_string).collect::<Vec<_>>();
        lines.join("\n")
    }

    #[test]
    fn whole_objects_of_users_are_warned_of() {
        insta::assert_snapshot!(found("[informer.maps]\nresource = \"v1/configmaps\"\n"), @r#"
        warning: config.toml:1:11: [informer.maps] keeps whole ConfigMaps of all namespaces: one user can fill the cache, and then it has only the metadata of the largest namespaces
          help: keep less with `digest = ["/data"]`, `drop`, `namespaces` or a selector, or set `max-bytes` in [cache]
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
            "[cache]\nmax-bytes = \"100MiB\"",
        ] {
            let config = format!("[informer.x]\nresource = \"v1/secrets\"\n{without}\n");
            assert_eq!(found(&config), "", "{without}");
        }
        assert_eq!(found("[informer.x]\nresource = \"v1/pods\"\n"), "");
    }
}
