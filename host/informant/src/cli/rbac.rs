//! `informant rbac`: the least rights in the cluster that a configuration needs, as YAML to apply.

use anyhow::{Context, Result};
use clap::Args;
use informant_informer::{ResourceName, discover};

use super::{ClusterArgs, ConfigFlag, Exit, output};
use crate::cluster::{Cluster, ClusterFlags};
use crate::config::{Config, Problem, Problems, judge_name};
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
    #[command(flatten)]
    cluster: ClusterArgs,
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
    let rights = runtime.block_on(rights(&config, &args.cluster.flags()))?;
    let subject = Subject {
        name: &args.name,
        namespace: &args.namespace,
    };
    output::to_stdout(|out| {
        writeln!(
            out,
            "# What {} needs, by `informant rbac`. Apply it again when that changes.",
            config.path.display()
        )?;
        out.write_all(yaml(&rights, &subject).as_bytes())
    })?;
    Ok(Exit::Done)
}

/// Collects what every section needs. The cluster is asked only for informers whose resource is not named exactly.
async fn rights(config: &Config, flags: &ClusterFlags) -> Result<Rights> {
    let mut rights = Rights::default();
    let mut cluster = None;
    for (name, section) in &config.informers {
        let found = match &section.resource.value {
            ResourceName::Exact(gvr) => gvr.clone(),
            loose @ ResourceName::Loose { .. } => {
                if cluster.is_none() {
                    cluster = Some(Cluster::connect(&config.cluster, flags).await?);
                }
                let client = cluster.as_ref().map(|cluster: &Cluster| cluster.client.clone());
                let client = client.context("there is no cluster")?;
                discover(&client, loose)
                    .await
                    .map_err(|error| unknown(config, name, &error.to_string()))?
                    .gvr
            }
        };
        if section.namespaces.is_empty() {
            rights.add_informer(name, &found.group, &found.plural, None);
        }
        for namespace in &section.namespaces {
            rights.add_informer(name, &found.group, &found.plural, Some(namespace));
        }
    }
    for (name, section) in &config.plugins {
        for grant in &section.allow_kube {
            rights.add_grant(name, &grant.value);
        }
    }
    Ok(rights)
}

fn unknown(config: &Config, informer: &str, why: &str) -> Problems {
    let place = config.informers[informer].resource.place;
    let problem: Problem = config.problem(place, format!("[informer.{informer}] {why}"));
    Problems(vec![problem.help(
        "write the resource with group, version and plural, as in \"v1/pods\": then the cluster need not be asked",
    )])
}
