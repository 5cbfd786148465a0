//! `[ha]`: several replicas of one Informant, of which one acts, or each for its shards.

use std::collections::BTreeMap;

use informant_spec::suggest;

use crate::cluster::ClusterSection;
use crate::name::validate_name;
use crate::source::{FilePosition, Located};
use crate::table::Table;

/// The most shards: each is a Lease that is renewed every two seconds.
const SHARDS_MAX: u64 = 64;

/// What the names of other Leases of a group contain, and why its own may not.
const RESERVED: [(&str, &str); 2] = [
    (
        "-member-",
        "a Lease of that name is one of a replica: do without \"-member-\"",
    ),
    (
        "-shard-",
        "a Lease of that name is one of a shard: do without \"-shard-\"",
    ),
];

/// The replicas, and the Leases that say which of them acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaSection {
    pub position: FilePosition,
    pub speed: HaSpeed,
    /// How many shards the work is divided into, 1 to 64. `None`: one replica acts for all objects. 1 is not the same:
    /// such a replica can hold some of several shards, until the last one with another number has ended.
    pub shards: Option<u8>,
    /// How an object gets into its shard.
    pub hash: HaHash,
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

/// How the name of a namespace becomes the number that falls into the range of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HaHash {
    /// Names with a pattern, such as `team-1` and `team-2`, spread over the shards.
    #[default]
    Mixed,
    /// The hash of the API server, which then sends the objects of the wanted shards only.
    Raw,
}

const SPEEDS: [(&str, HaSpeed); 2] = [("normal", HaSpeed::Normal), ("fast", HaSpeed::Fast)];

const HASHES: [(&str, HaHash); 2] = [("mixed", HaHash::Mixed), ("raw", HaHash::Raw)];

impl HaSection {
    /// Whether replicas may act for a part of the objects.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        self.shards.is_some()
    }
}

/// Reads `[ha]`; without it, one process acts alone.
pub(crate) fn read(root: &Table<'_>, clusters: &BTreeMap<String, Located<ClusterSection>>) -> Option<HaSection> {
    let table = root.table("ha")?;
    let name = |key: &str| {
        let name = table.string(key)?;
        let mut reserved = RESERVED.iter().filter(|_| key == "group");
        let reserved = reserved.find_map(|(part, rule)| name.value.contains(part).then_some(*rule));
        let rule = validate_name(&name.value).err().or(reserved);
        if let Some(rule) = rule {
            table.refuse(name.position, format!("`{key}` cannot be \"{}\"", name.value), rule);
        }
        rule.is_none().then_some(name.value)
    };
    let (shards, hash) = read_division(&table);
    let section = HaSection {
        position: table.position(),
        speed: table.choice("speed", &SPEEDS).unwrap_or_default(),
        shards,
        hash,
        group: name("group"),
        namespace: name("namespace"),
        cluster: read_cluster(&table, clusters),
    };
    table.finish(&[]);
    Some(section)
}

/// `shards`, and `hash`, which only several shards have.
fn read_division(table: &Table<'_>) -> (Option<u8>, HaHash) {
    let shards = table.integer("shards", 1..=SHARDS_MAX);
    let hash = table.choice("hash", &HASHES).unwrap_or_default();
    let is_whole = shards == Some(1) || !table.has("shards");
    if hash == HaHash::Raw && is_whole {
        let message = "hash = \"raw\" has no effect without several shards";
        let help = "set shards = 8, for example, or remove it";
        table.warn(table.value_position("hash"), message, help);
    }
    (shards, hash)
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
    use crate::{Config, HaHash, HaSpeed, Problems, SourceFile};

    const INFORMER: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

    fn parse(text: &str) -> Result<Config, Problems> {
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
    fn work_is_divided_into_as_many_shards_as_configured() {
        let division = |text: &str| {
            let section = parse(text).unwrap().ha.unwrap();
            (section.shards, section.hash, section.is_divided())
        };
        assert_eq!(division("[ha]"), (None, HaHash::Mixed, false));
        assert_eq!(division("[ha]\nshards = 1"), (Some(1), HaHash::Mixed, true));
        assert_eq!(division("[ha]\nshards = 64"), (Some(64), HaHash::Mixed, true));
        let raw = division("[ha]\nshards = 8\nhash = \"raw\"");
        assert_eq!(raw, (Some(8), HaHash::Raw, true));
    }

    #[test]
    fn shards_out_of_range_and_unknown_hashes_are_refused() {
        insta::assert_snapshot!(parse("[ha]\nshards = 0\nhash = \"raw\"").unwrap_err(), @r#"
        error: config.toml:2:10: `shards` = 0 is out of range
          help: from 1 to 64
        "#);
        insta::assert_snapshot!(parse("[ha]\nshards = 65\nhash = \"fnv\"").unwrap_err(), @r#"
        error: config.toml:2:10: `shards` = 65 is out of range
          help: from 1 to 64
        error: config.toml:3:8: `hash` cannot be "fnv"
          help: possible values: `mixed`, `raw`
        "#);
    }

    #[test]
    fn hash_without_shards_is_a_warning() {
        for text in ["[ha]\nhash = \"raw\"", "[ha]\nhash = \"raw\"\nshards = 1"] {
            let warnings = Problems(parse(text).unwrap().warnings);
            insta::allow_duplicates! {
                insta::assert_snapshot!(warnings, @r#"
                warning: config.toml:2:8: hash = "raw" has no effect without several shards
                  help: set shards = 8, for example, or remove it
                "#);
            }
        }
    }

    #[test]
    fn groups_named_like_other_leases_are_refused() {
        for (group, part) in [("a-member-b", "-member-"), ("a-shard-1", "-shard-")] {
            let refused = parse(&format!("[ha]\ngroup = \"{group}\"")).unwrap_err().to_string();
            assert!(refused.contains("2:9") && refused.contains(part), "{refused}");
        }
        let text = "[ha]\ngroup = \"shard-1\"\nnamespace = \"a-shard-1\"";
        assert_eq!(parse(text).unwrap().ha.unwrap().group.as_deref(), Some("shard-1"));
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
          help: keys of [ha]: cluster, group, hash, namespace, shards, speed
        "#);
    }
}
