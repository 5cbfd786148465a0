//! `informant rbac`: the least rights in the cluster that a configuration needs, as YAML to apply.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use informant_informer::{GroupVersionResource, ResourceName, TokioEnvironment, discover, discover_matching};
use kube::Client;

use super::{ClusterArgs, ConfigFlag, Exit, output};
use crate::cluster::{Cluster, ClusterFlags};
use crate::config::{Config, InformerSection, Problem, Problems, Resources, did_you_mean, judge_name};
use crate::rbac::{Rights, Subject, yaml};

/// `informant rbac`.
#[derive(Debug, Args)]
pub(super) struct RbacArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// The namespace that Informant runs in: its ServiceAccount's
    #[arg(short, long, default_value = "informant", value_parser = dns_label)]
    namespace: String,
    /// What the ServiceAccount, the roles and the bindings are called
    #[arg(long, default_value = "informant", value_parser = dns_label)]
    name: String,
    /// The rights in this one of several clusters, as in [cluster.NAME]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    cluster_args: ClusterArgs,
}

fn dns_label(text: &str) -> Result<String, String> {
    judge_name(text).map(|()| text.to_owned()).map_err(str::to_owned)
}

pub(super) fn run(args: &RbacArgs) -> Result<Exit> {
    let config = Config::load(&args.config.config)?;
    for warning in &config.warnings {
        output::note(&warning.to_string());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime can be made")?;
    let flags = args.cluster_args.flags();
    flags.judge(&config)?;
    let cluster = which(&config, args.cluster.as_deref())?;
    let rights = runtime.block_on(rights(&config, cluster, &flags))?;
    let subject = Subject {
        name: &args.name,
        namespace: &args.namespace,
    };
    output::to_stdout(|out| {
        writeln!(
            out,
            "# What {} needs{}, by `informant rbac`. Apply it again when that changes.",
            config.path.display(),
            match cluster {
                "" => String::new(),
                name => format!(" in cluster {name}"),
            }
        )?;
        out.write_all(yaml(&rights, &subject).as_bytes())
    })?;
    Ok(Exit::Done)
}

/// The cluster whose rights are meant: each has its own, and they are applied to one at a time.
fn which<'c>(config: &'c Config, named: Option<&'c str>) -> Result<&'c str> {
    let known: Vec<&str> = config.clusters.keys().map(String::as_str).collect();
    match (named, &known[..]) {
        (None, &[only]) => Ok(only),
        (None, several) => bail!(
            "which cluster? Rights are printed for one at a time: name it with --cluster, one of {}",
            several.join(", ")
        ),
        (Some(name), known) if !name.is_empty() && known.contains(&name) => Ok(name),
        (Some(name), &[""]) => bail!("--cluster {name}: the configuration has one cluster, which has no name"),
        (Some(name), known) => bail!(
            "--cluster {name}: the configuration has no such cluster; {}",
            did_you_mean(name, known, "clusters")
        ),
    }
}

/// Collects what every section needs in a cluster. It is asked only for informers whose resource is not named exactly.
async fn rights(config: &Config, cluster: &str, flags: &ClusterFlags) -> Result<Rights> {
    let mut rights = Rights::default();
    let mut connected: Option<Cluster> = None;
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
                let found = found(&client, not_exact, section).await;
                found.map_err(|error| unknown(config, name, &error))?
            }
        };
        for found in &found {
            if section.namespaces.is_empty() {
                rights.add_informer(name, &found.group, &found.plural, None);
            }
            for namespace in &section.namespaces {
                rights.add_informer(name, &found.group, &found.plural, Some(namespace));
            }
        }
    }
    for (name, section) in &config.plugins {
        for grant in &section.allow_kube {
            rights.add_grant(name, &grant.value);
        }
    }
    Ok(rights)
}

/// What the cluster serves of what is not named exactly; of a pattern, what it serves now.
async fn found(
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

fn unknown(config: &Config, informer: &str, why: &str) -> Problems {
    let place = config.informers[informer].resource.place;
    let problem: Problem = config.problem(place, format!("[informer.{informer}] {why}"));
    Problems(vec![problem.help(
        "write the resource with group, version and plural, as in \"v1/pods\": then the cluster need not be asked",
    )])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceFile;

    #[test]
    fn of_several_clusters_one_is_named() {
        let config = |text: &str| Config::parse(&SourceFile::new("config.toml", text)).unwrap();
        let one = config("[informer.pods]\nresource = \"v1/pods\"\n");
        let two = config("[cluster.east]\ncontext = \"e\"\n[cluster.west]\ncontext = \"w\"\n");
        let said = |config: &Config, named: Option<&str>| match which(config, named) {
            Ok(name) => format!("cluster {name:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(said(&one, None), "cluster \"\"");
        assert_eq!(said(&two, Some("west")), "cluster \"west\"");
        insta::assert_snapshot!(said(&one, Some("east")), @"--cluster east: the configuration has one cluster, which has no name");
        insta::assert_snapshot!(said(&two, Some("wset")), @"--cluster wset: the configuration has no such cluster; did you mean `west`?");
        insta::assert_snapshot!(said(&two, None), @"which cluster? Rights are printed for one at a time: name it with --cluster, one of east, west");
    }
}
