//! `informant get sources`: the status of each source.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::{Result, bail};
use informant_spec::suggest::did_you_mean;

use super::format::Format;
use super::{GetArgs, SOURCES};
use crate::admin::{SourceView, Sources};
use crate::cli::table::{self, SourceColumns, or_dash};
use crate::cli::{Exit, output};
use crate::escape::Form;

pub(super) fn run(args: &GetArgs, name: Option<&str>) -> Result<Exit> {
    if args.index.is_some() || args.selector.is_some() || args.show_labels {
        bail!("`{SOURCES}` have no labels and no indexes: remove -l, --show-labels and --index");
    }
    if args.watch || args.sort_by.is_some() || !args.field_selector.is_everything() {
        bail!("-w, --sort-by and --field-selector apply to objects only; `informant status` shows sources, too");
    }
    if args.require_all {
        bail!("--require-all applies to objects only: `{SOURCES}` shows sources that are not synced too");
    }
    if args.at_least.is_some() {
        bail!("--at-least applies to objects only; to wait for a source, use GET /api/v1/sources/ID?at-least=VERSION");
    }
    args.admin.with_clients(async |mut clients| {
        clients.select(&args.shard).await?;
        let answers = clients.ask(async |client| client.read::<Sources>("/api/v1/sources").await);
        let answers = answers.await?;
        let exit = answers.warn();
        let items = table::of_replicas(answers.into_parts(|sources| sources.items));
        match show(args, name, Sources { items })? {
            Exit::Done => Ok(exit),
            failed => Ok(failed),
        }
    })
}

fn show(args: &GetArgs, name: Option<&str>, sources: Sources) -> Result<Exit> {
    let items = match select(args, name, sources.items) {
        Ok(items) => items,
        Err(why) => {
            output::note(&format!("error: {why}"));
            return Ok(Exit::Failed);
        }
    };
    if items.is_empty() && args.output.is_table() {
        let of = args.namespace.as_ref();
        let of = of.map_or_else(String::new, |namespace| format!(" for namespace {namespace}"));
        output::note(&format!("No sources found{of}."));
        return Ok(Exit::Done);
    }
    match &args.output {
        Format::JsonPath(template) => {
            let document = serde_json::to_value(Sources { items })?;
            output::to_stdout(|out| out.write_all(template.render(&document).as_bytes()))?;
        }
        Format::Json => output::json(&Sources { items })?,
        Format::Yaml => {
            let document = serde_json::to_value(Sources { items })?;
            output::to_stdout_as(Form::Json, |out| super::print::yaml_document(&mut { out }, &document))?;
        }
        Format::Name => {
            output::to_stdout(|out| items.iter().try_for_each(|source| output::line(out, &name_of(source))))?
        }
        Format::Table | Format::Wide => output::to_stdout(|out| {
            let with_headings = !args.no_headers;
            write(out, &items, matches!(args.output, Format::Wide), with_headings)
        })?,
    }
    Ok(Exit::Done)
}

/// The requested sources. An unknown name or cluster is an error, as for objects.
fn select(args: &GetArgs, name: Option<&str>, mut sources: Vec<SourceView>) -> Result<Vec<SourceView>, String> {
    if let Some(name) = name {
        sources = of_name(name, sources)?;
    }
    for cluster in &args.cluster {
        if !sources.iter().any(|source| source.cluster == *cluster) {
            let known = words(sources.iter().map(|source| source.cluster.as_str()));
            let help = match known[..] {
                [] => "there is one cluster, and it has no name".to_owned(),
                _ => did_you_mean(cluster, &known, "clusters"),
            };
            return Err(format!("no source in cluster \"{cluster}\"; {help}"));
        }
    }
    sources.retain(|source| {
        (args.cluster.is_empty() || args.cluster.contains(&source.cluster))
            && (args.namespace.is_none() || args.namespace == source.namespace)
    });
    Ok(sources)
}

/// The sources of the informer called `name`, or else of that resource: `v1/pods`, `pods`, `Pod`, `deployments.apps`.
fn of_name(name: &str, sources: Vec<SourceView>) -> Result<Vec<SourceView>, String> {
    let (of_informer, others): (Vec<_>, Vec<_>) = sources.into_iter().partition(|source| source.informer == name);
    if !of_informer.is_empty() {
        return Ok(of_informer);
    }
    let (of_resource, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|source| is_of(source, name));
    if !of_resource.is_empty() {
        return Ok(of_resource);
    }
    let known = words(others.iter().map(|source| source.informer.as_str()));
    let help = did_you_mean(name, &known, "informers");
    Err(format!("no informer named \"{name}\" and none that watches it; {help}"))
}

fn is_of(source: &SourceView, name: &str) -> bool {
    if source.resource == name {
        return true;
    }
    let group = source
        .api_version
        .as_deref()
        .and_then(|version| version.split_once('/'));
    let group = group.map_or("", |(group, _)| group);
    let (name, wanted) = name.split_once('.').unwrap_or((name, group));
    let plural = source.resource.rsplit('/').next().unwrap_or_default();
    let kind = source.kind.as_deref().unwrap_or_default();
    group == wanted && (plural.eq_ignore_ascii_case(name) || kind.eq_ignore_ascii_case(name))
}

/// Sorted, without duplicates and empty words.
fn words<'w>(words: impl Iterator<Item = &'w str>) -> Vec<&'w str> {
    let words: BTreeSet<_> = words.filter(|word| !word.is_empty()).collect();
    words.into_iter().collect()
}

/// `source/pods/east/default`, without the cluster or namespace if the source has none.
fn name_of(source: &SourceView) -> String {
    let parts = [
        source.informer.as_str(),
        &source.cluster,
        source.namespace.as_deref().unwrap_or_default(),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("source/{}", parts.join("/"))
}

fn write(out: &mut dyn Write, sources: &[SourceView], wide: bool, with_headings: bool) -> io::Result<()> {
    let columns = SourceColumns::of(sources);
    let mut headings = columns.headings("FRESH AS OF");
    headings.push("RELISTS");
    headings.extend(
        wide.then_some(["ID", "BYTES", "WATCHES", "WATCHLIST", "INDEXES"])
            .into_iter()
            .flatten(),
    );
    headings.push("LAST ERROR");
    let rows = sources.iter().map(|source| row(&columns, source, wide)).collect();
    if with_headings {
        return table::write_columns(out, &headings, rows);
    }
    let mut lines = Vec::new();
    table::write_columns(&mut lines, &headings, rows)?;
    let below = lines
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(lines.len(), |end| end + 1);
    out.write_all(&lines[below..])
}

fn row(columns: &SourceColumns, source: &SourceView, wide: bool) -> Vec<String> {
    let mut row = columns.row(source);
    row.push(source.relists.to_string());
    if wide {
        row.extend([
            or_dash(source.id, |id| id.to_string()),
            source.bytes.to_string(),
            source.watches.to_string(),
            or_dash(source.watch_list.clone(), |how| how),
            or_dash(
                Some(source.indexes.join(",")).filter(|names| !names.is_empty()),
                |names| names,
            ),
        ]);
    }
    row.push(match (&source.trouble, &source.last_error) {
        (Some(trouble), _) => trouble.clone(),
        (None, Some(error)) => format!("{} ({} ago)", error.message, table::ago(error.age_ms)),
        (None, None) => table::DASH.to_owned(),
    });
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sources::AgedText;

    fn source(informer: &str, cluster: &str) -> SourceView {
        SourceView {
            id: Some(7),
            informer: informer.into(),
            cluster: cluster.into(),
            resource: "v1/pods".into(),
            state: "Live".into(),
            objects: 12,
            bytes: 3_000,
            resource_version: Some("104".into()),
            last_event_age_ms: Some(2_000),
            bookmark_age_ms: Some(31_000),
            relists: 1,
            watches: 3,
            watch_list: Some("in-use".into()),
            indexes: vec!["namespace".into(), "node".into()],
            ..SourceView::default()
        }
    }

    fn shown(sources: &[SourceView], wide: bool, with_headings: bool) -> String {
        let mut out = Vec::new();
        write(&mut out, sources, wide, with_headings).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cluster_column_appears_when_clusters_have_names() {
        let east = source("pods", "east");
        let west = SourceView {
            state: "Stale".into(),
            namespace: Some("web".into()),
            last_error: Some(AgedText {
                message: "connection refused".into(),
                age_ms: 4_000,
            }),
            ..source("pods", "west")
        };
        insta::assert_snapshot!(shown(&[east, west], false, true), @"
        INFORMER   CLUSTER   RESOURCE   NAMESPACE   STATE   OBJECTS   FRESH AS OF   SEEN     BOOKMARK   RELISTS   LAST ERROR
        pods       east      v1/pods    *           Live    12        104           2s ago   31s ago    1         -
        pods       west      v1/pods    web         Stale   12        104           2s ago   31s ago    1         connection refused (4s ago)
        ");
        insta::assert_snapshot!(shown(&[source("pods", "")], true, true), @"
        INFORMER   RESOURCE   NAMESPACE   STATE   OBJECTS   FRESH AS OF   SEEN     BOOKMARK   RELISTS   ID   BYTES   WATCHES   WATCHLIST   INDEXES          LAST ERROR
        pods       v1/pods    *           Live    12        104           2s ago   31s ago    1         7    3000    3         in-use      namespace,node   -
        ");
        let in_replicas = table::of_replicas(vec![
            (
                Some("informant-0".into()),
                vec![source("nodes", ""), source("pods", "")],
            ),
            (
                Some("informant-1".into()),
                vec![source("nodes", ""), source("pods", "")],
            ),
        ]);
        insta::assert_snapshot!(shown(&in_replicas, false, true), @"
        INFORMER   RESOURCE   NAMESPACE   REPLICA       STATE   OBJECTS   FRESH AS OF   SEEN     BOOKMARK   RELISTS   LAST ERROR
        nodes      v1/pods    *           informant-0   Live    12        104           2s ago   31s ago    1         -
        nodes      v1/pods    *           informant-1   Live    12        104           2s ago   31s ago    1         -
        pods       v1/pods    *           informant-0   Live    12        104           2s ago   31s ago    1         -
        pods       v1/pods    *           informant-1   Live    12        104           2s ago   31s ago    1         -
        ");
        assert_eq!(shown(&[source("pods", "")], false, false).lines().count(), 1);
        assert_eq!(name_of(&source("pods", "east")), "source/pods/east");
    }

    #[test]
    fn sources_are_selected_by_informer_or_resource() {
        let widgets = SourceView {
            resource: "shop.example.com/v1/widgets".into(),
            api_version: Some("shop.example.com/v1".into()),
            kind: Some("Widget".into()),
            ..source("all", "")
        };
        let found = |name: &str| {
            let found = of_name(name, vec![source("pods", ""), source("all", ""), widgets.clone()])?;
            let each = found
                .iter()
                .map(|source| format!("{} {}", source.informer, source.resource));
            Ok::<_, String>(each.collect::<Vec<_>>().join(", "))
        };
        let of_widgets = Ok("all shop.example.com/v1/widgets".to_owned());
        for name in [
            "widgets",
            "Widget",
            "widgets.shop.example.com",
            "shop.example.com/v1/widgets",
        ] {
            assert_eq!(found(name), of_widgets, "{name}");
        }
        assert_eq!(found("pods"), Ok("pods v1/pods".to_owned()));
        assert_eq!(found("v1/pods"), Ok("pods v1/pods, all v1/pods".to_owned()));
        insta::assert_snapshot!(found("nope").unwrap_err(), @r#"no informer named "nope" and none that watches it; informers: `all`, `pods`"#);
    }
}
