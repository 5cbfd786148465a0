//! `informant rbac`: prints the least-privilege RBAC of a configuration, as YAML to apply or as values of the chart.

mod helm_values;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use informant_config::{Config, HaSection, InformerSection, KeyStore, Problem, Problems, Resources, validate_name};

use informant_informer::{TokioEnvironment, discover, discover_matching};
use informant_spec::suggest::did_you_mean;
use informant_spec::{GroupVersionResource, ResourceName};
use kube::Client;

use super::{ClusterArgs, ConfigFlag, Exit, in_cluster, output};
use crate::cluster::{Cluster, ClusterFlags};
use crate::config_file;
use crate::escape::Form;
use crate::rbac::{Permissions, Subject, yaml};

/// `informant rbac`.
#[derive(Debug, Args)]
pub(super) struct RbacArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// Namespace of Informant and its ServiceAccount
    #[arg(short, long, default_value = NAME_DEFAULT, value_parser = dns_label)]
    namespace: String,
    /// Name of the ServiceAccount, the roles and the bindings
    #[arg(long, default_value = NAME_DEFAULT, value_parser = dns_label)]
    name: String,
    /// Print RBAC for this cluster, as in [cluster.NAME]; required with more than one
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "yaml")]
    output: Format,
    #[command(flatten)]
    cluster_args: ClusterArgs,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A ServiceAccount, its roles and their bindings, to apply
    Yaml,
    /// Values of the Helm chart: the permissions, config.toml, and the scripts and components next to it
    HelmValues,
}

/// The default of `--namespace` and `--name`.
const NAME_DEFAULT: &str = "informant";

fn dns_label(text: &str) -> Result<String, String> {
    validate_name(text).map(|()| text.to_owned()).map_err(str::to_owned)
}

pub(super) fn run(args: &RbacArgs) -> Result<Exit> {
    if args.output == Format::HelmValues && [&args.namespace, &args.name].iter().any(|name| *name != NAME_DEFAULT) {
        bail!("--namespace and --name have no effect with -o helm-values: pass them to `helm install`");
    }
    let path = &args.config.config;
    let file = config_file::read(path).map_err(|error| config_file::unreadable(path, &error))?;
    let config = Config::parse(&file)?;
    for warning in &config.warnings {
        output::note(&warning.to_string());
    }
    let runtime = super::runtime()?;
    let flags = args.cluster_args.flags();
    flags.validate(&config)?;
    let cluster = select_cluster(&config, args.cluster.as_deref())?;
    let mut permissions = runtime.block_on(permissions(&config, cluster, &flags))?;
    let (what, command, text) = match args.output {
        Format::Yaml => {
            // The chart has a Role of its own for them.
            let section = config.ha.as_ref();
            if let Some(section) = section.filter(|section| has_leases(section, &config, cluster)) {
                let namespace = section.namespace.as_deref().unwrap_or(&args.namespace);
                permissions.add_replicas(namespace, config.key_store() == KeyStore::Secrets);
            }
            let subject = Subject {
                name: &args.name,
                namespace: &args.namespace,
            };
            ("RBAC for", "informant rbac", yaml(&permissions, &subject))
        }
        Format::HelmValues => {
            if config.plugins.values().any(|section| section.spec.identity.is_some()) {
                output::note(
                    "the values hold no ServiceAccounts of plugins (`as`): apply those that `informant rbac` prints, too",
                );
            }
            let values = helm_values::helm_values(&config, file.text(), &permissions)?;
            (
                "Values of the Informant chart for",
                "informant rbac -o helm-values",
                values,
            )
        }
    };
    output::to_stdout_as(Form::Json, |out| {
        let of_cluster = in_cluster(cluster);
        let path = config.path.display();
        let comment = format!(
            "# {what} {path}{of_cluster}, printed by `{command}`. Print and apply it again when the configuration \
             changes."
        );
        output::line(out, &comment)?;
        out.write_all(text.as_bytes())
    })?;
    Ok(Exit::Done)
}

/// Whether the Leases are in `cluster`: in that of the section, or else in that of the pod, which is the only one or is
/// marked as such.
fn has_leases(section: &HaSection, config: &Config, cluster: &str) -> bool {
    let is_own = || config.clusters.len() == 1 || config.clusters[cluster].value.in_cluster;
    section.cluster.as_ref().map_or_else(is_own, |named| named == cluster)
}

/// The cluster to print RBAC for: each has its own, and `kubectl apply` takes one at a time.
fn select_cluster<'c>(config: &'c Config, named: Option<&'c str>) -> Result<&'c str> {
    let known: Vec<&str> = config.clusters.keys().map(String::as_str).collect();
    match (named, &known[..]) {
        (None, &[only]) => Ok(only),
        (None, several) => bail!(
            "RBAC is printed for one cluster at a time: select it with --cluster, one of {}",
            several.join(", ")
        ),
        (Some(name), known) if !name.is_empty() && known.contains(&name) => Ok(name),
        (Some(name), &[""]) => bail!("--cluster {name}: the configuration has one unnamed cluster"),
        (Some(name), known) => bail!(
            "--cluster {name}: no such cluster in the configuration; {}",
            did_you_mean(name, known, "clusters")
        ),
    }
}

/// Collects the permissions that every section needs in a cluster. The cluster is contacted only for informers whose
/// resource is not named exactly.
async fn permissions(config: &Config, cluster: &str, flags: &ClusterFlags) -> Result<Permissions> {
    let mut permissions = Permissions::default();
    let mut connected: Option<Cluster> = None;
    let mut watched: BTreeMap<&str, Vec<GroupVersionResource>> = BTreeMap::new();
    for (name, section) in &config.informers {
        if !config.clusters_of(section).any(|name| name == cluster) {
            continue;
        }
        let found = match &section.resource.value {
            Resources::One(ResourceName::Exact(gvr)) => vec![gvr.clone()],
            not_exact => {
                let client = match &connected {
                    Some(connected) => connected.client.clone(),
                    None => {
                        let section = flags.over(cluster, &config.clusters[cluster].value);
                        connected.insert(Cluster::connect(&section).await?).client.clone()
                    }
                };
                let found = discover_resources(&client, not_exact, section).await;
                found.map_err(|error| unknown_resource(config, name, &error))?
            }
        };
        for found in &found {
            if section.namespaces.is_empty() {
                permissions.add_informer(name, &found.group, &found.plural, None);
            }
            for namespace in &section.namespaces {
                permissions.add_informer(name, &found.group, &found.plural, Some(namespace));
            }
        }
        watched.insert(name, found);
    }
    for (name, section) in &config.plugins {
        let of_plugin = permissions.of_plugin(name, section.spec.identity.as_ref());
        for grant in &section.spec.allow_kube {
            of_plugin.add_grant(name, grant);
        }
        for grant in &section.spec.allow_informers {
            let Some(resources) = watched.get(grant.informer.as_str()) else {
                continue;
            };
            let namespaces = &config.informers[&grant.informer].namespaces;
            for grant in resources
                .iter()
                .filter_map(|resource| grant.of_resource(resource, namespaces))
            {
                of_plugin.add_grant(name, &grant);
            }
        }
        if section.spec.allow_events {
            of_plugin.add_events(name);
        }
    }
    if config.admin.tls.is_some() && config.admin.cluster == cluster {
        permissions.add_reviews();
    }
    Ok(permissions)
}

/// Discovers a resource that is not named exactly, or all that a pattern matches now.
async fn discover_resources(
    client: &Client,
    resources: &Resources,
    section: &InformerSection,
) -> Result<Vec<GroupVersionResource>, String> {
    match resources {
        Resources::One(name) => {
            let found = discover(client, name).await;
            found.map(|found| vec![found.gvr]).map_err(|error| error.to_string())
        }
        Resources::Several(pattern) => {
            let environment = Arc::new(TokioEnvironment::current(0));
            let served = discover_matching(client, environment, pattern, &section.exclude).await;
            let served = served.map_err(|error| error.to_string())?;
            let in_scope = |namespaced: bool| section.namespaces.is_empty() || namespaced;
            let watched = served
                .resources
                .into_values()
                .filter(|found| in_scope(found.namespaced));
            Ok(watched.map(|found| found.gvr).collect())
        }
    }
}

fn unknown_resource(config: &Config, informer: &str, why: &str) -> Problems {
    let position = config.informers[informer].resource.position;
    let problem: Problem = config.problem(position, format!("[informer.{informer}] {why}"));
    Problems(vec![problem.help(
        "write the resource with group, version and plural, for example \"v1/pods\": then no cluster is needed",
    )])
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_config::SourceFile;

    #[test]
    fn cluster_flag_is_required_with_several_clusters() {
        let config = |text: &str| Config::parse(&SourceFile::new("config.toml", text)).unwrap();
        let one = config("[informer.pods]\nresource = \"v1/pods\"\n");
        let two = config("[cluster.east]\ncontext = \"e\"\n[cluster.west]\ncontext = \"w\"\n");
        let selected = |config: &Config, named: Option<&str>| match select_cluster(config, named) {
            Ok(name) => format!("cluster {name:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(selected(&one, None), "cluster \"\"");
        assert_eq!(selected(&two, Some("west")), "cluster \"west\"");
        insta::assert_snapshot!(selected(&one, Some("east")), @"--cluster east: the configuration has one unnamed cluster");
        insta::assert_snapshot!(selected(&two, Some("wset")), @"--cluster wset: no such cluster in the configuration; did you mean `west`?");
        insta::assert_snapshot!(selected(&two, None), @"RBAC is printed for one cluster at a time: select it with --cluster, one of east, west");
    }
    #[tokio::test]
    async fn a_grant_by_informer_becomes_rules_of_its_resource() {
        let text = r#"
[informer.pods]
resource = "v1/pods"
namespaces = ["web"]
[informer.jobs]
resource = "batch/v1/jobs"
[informer.secrets]
resource = "v1/secrets"
[plugin.janitor]
component = "janitor.wasm"
informers = ["pods", "jobs", "secrets"]
allow.kube = [
  { verbs = ["delete", "create"], informer = "pods" },
  { verbs = ["patch"], informer = "jobs", subresources = ["status"] },
  { verbs = ["delete"], informer = "secrets", exclude = ["v1/secrets"] },
]
"#;
        let config = Config::parse(&SourceFile::new("config.toml", text)).unwrap();
        let permissions = permissions(&config, "", &ClusterFlags::default()).await.unwrap();
        let subject = Subject {
            name: "informant",
            namespace: "informant",
        };
        let documents = yaml(&permissions, &subject);
        let rules: Vec<&str> = documents
            .lines()
            .filter(|line| {
                line.starts_with("kind:")
                    || line.starts_with("# [")
                    || line.contains("  resources:")
                    || line.contains("  verbs:")
            })
            .collect();
        insta::assert_snapshot!(rules.join("\n"), @r#"
        kind: ServiceAccount
        kind: ClusterRole
        # [informer.secrets]
          resources: ["secrets"]
          verbs: ["list", "watch"]
        # [informer.jobs]
          resources: ["jobs"]
          verbs: ["list", "watch"]
        # [plugin.janitor]
          resources: ["jobs/status"]
          verbs: ["patch"]
        kind: ClusterRoleBinding
        kind: Role
        # [informer.pods], [plugin.janitor]
          resources: ["pods"]
          verbs: ["list", "watch", "create", "delete"]
        kind: RoleBinding
        "#);
    }
}
