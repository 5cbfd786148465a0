//! `[ha]`: several replicas of one Informant, of which one acts.

use std::collections::BTreeMap;

use informant_spec::suggest;

use crate::cluster::ClusterSection;
use crate::name::validate_name;
use crate::source::{FilePosition, Located};
use crate::table::Table;

/// The replicas, and the Leases that say which of them acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaSection {
    pub position: FilePosition,
    pub speed: HaSpeed,
    /// What the names of the Leases begin with. `None`: the name of the pod's StatefulSet.
    pub group: Option<String>,
    /// Where the Leases are. `None`: the namespace of the pod, or of the kubeconfig.
    pub namespace: Option<String>,
    /// Informant's own cluster. `None`: that of the pod, or the only one.
    pub cluster: Option<String>,
}

/// How soon a replica that is lost is replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HaSpeed {
    /// As client-go: a Lease of 15 s.
    #[default]
    Normal,
    /// A Lease of 4 s.
    Fast,
}

const SPEEDS: [(&str, HaSpeed); 2] = [("normal", HaSpeed::Normal), ("fast", HaSpeed::Fast)];

/// Reads `[ha]`; without it, one process acts alone.
pub(crate) fn read(root: &Table<'_>, clusters: &BTreeMap<String, Located<ClusterSection>>) -> Option<HaSection> {
    let table = root.table("ha")?;
    let name = |key: &str| {
        let name = table.string(key)?;
        let is_member = key == "group" && name.value.contains("-member-");
        let rule = validate_name(&name.value).err();
        let rule = rule.or(is_member.then_some("a Lease of that name is one of a replica: do without \"-member-\""));
        if let Some(rule) = rule {
            table.refuse(name.position, format!("`{key}` cannot be \"{}\"", name.value), rule);
        }
        rule.is_none().then_some(name.value)
    };
    let section = HaSection {
        position: table.position(),
        speed: table.choice("speed", &SPEEDS).unwrap_or_default(),
        group: name("group"),
        namespace: name("namespace"),
        cluster: read_cluster(&table, clusters),
    };
    table.finish(&[]);
    Some(section)
}

fn read_cluster(table: &Table<'_>, clusters: &BTreeMap<String, Located<ClusterSection>>) -> Option<String> {
    let name = table.string("cluster")?;
    if clusters.contains_key(&name.value) && !name.value.is_empty() {
        return Some(name.value);
    }
    let message = format!("[ha] names a cluster that does not exist: \"{}\"", name.value);
    let known: Vec<&str> = clusters
        .keys()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    let help = match suggest::nearest(&name.value, known.iter().copied()) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None if known.is_empty() => "remove it: no [cluster.NAME] has a name".to_owned(),
        None => suggest::known_values(&known, "known clusters"),
    };
    table.refuse(name.position, message, help);
    None
}

#[cfg(test)]
mod tests {
    use crate::{Config, HaSpeed, SourceFile};

    const INFORMER: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

    fn parse(text: &str) -> Result<Config, crate::Problems> {
        Config::parse(&SourceFile::new("config.toml", format!("{text}\n{INFORMER}")))
    }

    #[test]
    fn without_the_section_one_process_acts() {
        assert_eq!(parse("").unwrap().ha, None);
        let section = parse("[ha]").unwrap().ha.unwrap();
        assert_eq!(
            (section.speed, section.group, section.cluster),
            (HaSpeed::Normal, None, None)
        );
    }

    #[test]
    fn group_and_own_cluster_are_read() {
        let text = "[ha]\nspeed = \"fast\"\ngroup = \"informant\"\nnamespace = \"informant\"\ncluster = \"home\"\n\
                    [cluster.home]\nin-cluster = true";
        let section = parse(text).unwrap().ha.unwrap();
        assert_eq!(section.speed, HaSpeed::Fast);
        assert_eq!(section.group.as_deref(), Some("informant"));
        assert_eq!(section.namespace.as_deref(), Some("informant"));
        assert_eq!(section.cluster.as_deref(), Some("home"));
    }

    #[test]
    fn invalid_values_are_reported_with_their_places() {
        let text = "[ha]\nspeed = \"quick\"\ngroup = \"In/formant\"\ncluster = \"hone\"\nreplicas = 3\n\
                    [cluster.home]\nin-cluster = true";
        insta::assert_snapshot!(parse(text).unwrap_err(), @r#"
        error: config.toml:2:9: `speed` cannot be "quick"
          help: possible values: `normal`, `fast`
        error: config.toml:3:9: `group` cannot be "In/formant"
          help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
        error: config.toml:4:11: [ha] names a cluster that does not exist: "hone"
          help: did you mean "home"?
        error: config.toml:5:1: unknown key `replicas` in [ha]
          help: keys of [ha]: cluster, group, namespace, speed
        "#);
    }
}
