//! `allow` of a plugin: what it may do apart from reading its informers.

use informant_spec::{HttpGrant, InformerGrant, KubeGrant, KubeResource, KubeVerb};

use crate::allow_http;
use crate::resources;
use crate::source::{FilePosition, Located};
use crate::table::{Planned, Table};
use informant_spec::suggest;

const PLANNED: &Planned = &[("kv", "every plugin may use kv, with [state]: remove it")];

const VERBS: [(&str, KubeVerb); 6] = [
    ("get", KubeVerb::Get),
    ("list", KubeVerb::List),
    ("create", KubeVerb::Create),
    ("update", KubeVerb::Update),
    ("patch", KubeVerb::Patch),
    ("delete", KubeVerb::Delete),
];

/// What `allow` grants.
#[derive(Default)]
pub(crate) struct Allow {
    pub(crate) kube: Vec<Located<KubeGrant>>,
    pub(crate) informers: Vec<WrittenInformerGrant>,
    pub(crate) http: Vec<Located<HttpGrant>>,
    pub(crate) events: bool,
}

/// An entry of `allow.kube` with `informer`.
pub(crate) struct WrittenInformerGrant {
    pub(crate) grant: InformerGrant,
    pub(crate) positions: InformerGrantPositions,
}

/// Where the file has an entry of `allow.kube` with `informer`.
#[derive(Debug, Clone)]
pub struct InformerGrantPositions {
    /// The value of `informer`.
    pub informer: FilePosition,
    /// The entries of `exclude` as written.
    pub exclude: Vec<Located<String>>,
}

/// `allow.kube = [{ verbs = ["patch"], resource = "v1/pods", namespaces = ["default"] }]`, `allow.http`,
/// and `allow.events = true`.
pub(crate) fn read(plugin: &Table<'_>) -> Allow {
    let Some(allow) = plugin.table("allow") else {
        return Allow::default();
    };
    let kube = allow.tables("kube").unwrap_or_default();
    let http = allow_http::read(&allow);
    let events = allow.boolean("events").unwrap_or(false);
    allow.finish(PLANNED);
    let (of_informers, of_resources): (Vec<_>, Vec<_>) = kube.iter().partition(|table| table.has("informer"));
    Allow {
        kube: of_resources.into_iter().filter_map(read_grant).collect(),
        informers: of_informers.into_iter().filter_map(read_informer_grant).collect(),
        http,
        events,
    }
}

fn read_grant(table: &Table<'_>) -> Option<Located<KubeGrant>> {
    let verbs = read_verbs(table);
    let resource = read_resource(table);
    let (namespaces, names) = (words(table, "namespaces"), words(table, "names"));
    let subresources = words(table, "subresources").unwrap_or_default();
    if table.has("exclude") {
        let help = "it excludes resources from what an informer watches: remove it, or set `informer` instead of \
                    `resource`";
        refuse_key(table, "exclude", "resource", help);
    }
    table.ignore(&["informer"]);
    table.finish(&[]);
    let grant = KubeGrant {
        verbs: verbs?,
        resource: resource?,
        namespaces,
        names,
        subresources,
    };
    validated(table, grant.validate())?;
    Some(Located {
        value: grant,
        position: table.position(),
    })
}

/// `{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }`. Whether the informer exists is checked with
/// the whole file.
fn read_informer_grant(table: &Table<'_>) -> Option<WrittenInformerGrant> {
    let verbs = read_verbs(table);
    let informer = table.string("informer");
    let entries = table.strings("exclude").unwrap_or_default();
    let exclude = resources::read_exclude(table, &entries);
    let subresources = words(table, "subresources").unwrap_or_default();
    let by_resource = "or grant each resource with `resource`";
    let misplaced = [
        (
            "resource",
            "keep one of them: `resource` grants one resource, `informer` all that an informer watches".to_owned(),
        ),
        (
            "namespaces",
            format!("the namespaces of the informer apply: remove it, {by_resource}"),
        ),
        (
            "names",
            format!("the grant is for all objects of what the informer watches: remove it, {by_resource}"),
        ),
    ];
    let mut is_fit = true;
    for (key, help) in misplaced.iter().filter(|(key, _)| table.has(key)) {
        refuse_key(table, key, "informer", help);
        is_fit = false;
    }
    table.finish(&[]);
    let informer = informer?;
    let grant = InformerGrant {
        verbs: verbs?,
        informer: informer.value,
        exclude,
        subresources,
    };
    validated(table, grant.validate())?;
    is_fit.then_some(WrittenInformerGrant {
        grant,
        positions: InformerGrantPositions {
            informer: informer.position,
            exclude: entries,
        },
    })
}

fn words(table: &Table<'_>, key: &str) -> Option<Vec<String>> {
    let words = table.strings(key)?;
    Some(words.into_iter().map(|word| word.value).collect())
}

fn refuse_key(table: &Table<'_>, key: &str, other: &str, help: &str) {
    let message = format!("`{key}` cannot be combined with `{other}`");
    table.refuse(table.value_position(key), message, help);
}

/// None if a problem was reported.
fn validated(table: &Table<'_>, validated: Result<(), String>) -> Option<()> {
    validated
        .map_err(|problem| table.report(table.position(), problem))
        .ok()
}

fn read_resource(table: &Table<'_>) -> Option<KubeResource> {
    let help = "set the resource: resource = \"v1/pods\"; or grant what an informer watches: informer = \"NAME\"";
    let text = table.required_string("resource", help)?;
    let refuse = |error| table.report(text.position, format!("`resource`: {error}"));
    KubeResource::parse(&text.value).map_err(refuse).ok()
}

/// The verbs without duplicates. `None` if a problem was reported.
fn read_verbs(table: &Table<'_>) -> Option<Vec<KubeVerb>> {
    if !table.has("verbs") {
        let message = format!("{} lacks `verbs`", table.title());
        let help = "list what it may do: verbs = [\"patch\"]";
        table.refuse(table.position(), message, help);
        return None;
    }
    let mut verbs = Vec::new();
    let mut all_known = true;
    for written in table.strings("verbs")? {
        match VERBS.iter().find(|(word, _)| *word == written.value) {
            Some((_, verb)) if verbs.contains(verb) => {}
            Some((_, verb)) => verbs.push(*verb),
            None => {
                let message = format!("`verbs` cannot be \"{}\"", written.value);
                table.refuse(written.position, message, help_with_verb(&written.value));
                all_known = false;
            }
        }
    }
    all_known.then_some(verbs)
}

/// Suggests only verbs with the same first letter: `watch` is not a typo of `patch`, and no suggestion should turn a
/// read into a write.
fn help_with_verb(written: &str) -> String {
    let verbs = VERBS.map(|(verb, _)| verb);
    let first = written.get(..1).unwrap_or_default().to_ascii_lowercase();
    match suggest::nearest(written, verbs) {
        Some(verb) if verb.starts_with(&first) => format!("did you mean `{verb}`?"),
        _ => suggest::known_values(&verbs, "possible values"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, PluginSection, Problems, SourceFile};

    fn plugin(allow: &str) -> Result<PluginSection, Problems> {
        let informer = "[informer.pods]\nresource = \"v1/pods\"\n";
        let plugin = "[plugin.p]\ncomponent = \"p.wasm\"\ninformers = [\"pods\"]\n";
        let file = SourceFile::new("config.toml", [informer, plugin, allow].concat());
        Ok(Config::parse(&file)?.plugins.remove("p").expect("it is there"))
    }

    #[test]
    fn grants_are_read_inline_and_as_sections() {
        for allow in [
            r#"allow.kube = [{ verbs = ["get", "get", "patch"], resource = "v1/pods", namespaces = ["a"], names = ["b"], subresources = ["status"] }]"#,
            "[[plugin.p.allow.kube]]\nverbs = [\"get\", \"patch\"]\nresource = \"v1/pods\"\nnamespaces = [\"a\"]\nnames = [\"b\"]\nsubresources = [\"status\"]",
        ] {
            let section = plugin(allow).unwrap_or_else(|problems| panic!("{problems}"));
            let grants = section.spec.allow_kube;
            let wanted = r#"allow.kube = [{ verbs = ["get", "patch"], resource = "v1/pods", namespaces = ["a"], names = ["b"], subresources = ["status"] }]"#;
            assert_eq!(informant_spec::allow_line(&grants, &[], &[]), wanted);
        }
    }

    #[test]
    fn invalid_grants_are_reported_with_their_lines() {
        let text = plugin(
            r#"allow.kbue = []
allow.kube = [
  { verbs = ["patsh"], resource = "v1/pods" },
  { resource = "v1/pods" },
  { verbs = ["patch"] },
  { verbs = ["*"], resource = "v1/*" },
  { verbs = ["get"], resource = "pods", namespace = ["a"] },
  { verbs = ["list"], resource = "v1/pods", names = ["a"] },
  { verbs = ["watch"], resource = "v1/pods" },
  "v1/pods",
]"#,
        );
        let problems = text.expect_err("it is refused").to_string();
        insta::assert_snapshot!(problems, @r#"
        error: config.toml:6:7: unknown key `kbue` in [plugin.p.allow]
          help: did you mean `kube`?
        error: config.toml:8:14: `verbs` cannot be "patsh"
          help: did you mean `patch`?
        error: config.toml:9:3: [plugin.p.allow.kube] lacks `verbs`
          help: list what it may do: verbs = ["patch"]
        error: config.toml:10:3: [plugin.p.allow.kube] lacks `resource`
          help: set the resource: resource = "v1/pods"; or grant what an informer watches: informer = "NAME"
        error: config.toml:11:14: `verbs` cannot be "*"
          help: possible values: `get`, `list`, `create`, `update`, `patch`, `delete`
        error: config.toml:11:31: `resource`: "v1/*" is not a resource: there are no wildcards; write `v1/pods` or `apps/v1/deployments`
        error: config.toml:12:33: `resource`: "pods" is not a resource: a version and a plural are required; write `v1/pods` or `apps/v1/deployments`
        error: config.toml:12:41: unknown key `namespace` in [plugin.p.allow.kube]
          help: did you mean `namespaces`?
        error: config.toml:13:3: `names` cannot limit `list`, which returns all objects; grant `list` in a separate entry, or use `get`
        error: config.toml:14:14: `verbs` cannot be "watch"
          help: possible values: `get`, `list`, `create`, `update`, `patch`, `delete`
        error: config.toml:15:3: `kube` must be a list of tables, [{ … }], not a string
        "#);
    }

    #[test]
    fn grants_by_informer_are_read_next_to_others() {
        let line = r#"allow.kube = [{ verbs = ["delete", "patch"], informer = "pods", exclude = ["v1/secrets", "apps/v1/*"], subresources = ["status"] }, { verbs = ["get"], resource = "v1/pods" }]"#;
        let spec = plugin(line).unwrap_or_else(|problems| panic!("{problems}")).spec;
        assert_eq!(
            informant_spec::allow_line(&spec.allow_kube, &spec.allow_informers, &[]),
            line
        );
    }

    #[test]
    fn invalid_grants_by_informer_are_reported_with_their_lines() {
        let text = plugin(
            r#"allow.kube = [
  { informer = "pods" },
  { verbs = [], informer = "pods" },
  { verbs = ["delete"], informer = "pods", resource = "v1/pods" },
  { verbs = ["delete"], informer = "pods", namespaces = ["a"], names = ["b"] },
  { verbs = ["delete"], informer = "pods", exclude = ["secrets", "apps/*/x"], excludes = [] },
  { verbs = ["delete"], informer = "pods", subresources = ["*"] },
  { verbs = ["delete"], informer = ["pods"] },
  { verbs = ["delete"], resource = "v1/pods", exclude = ["v1/secrets"] },
]"#,
        );
        let problems = text.expect_err("it is refused").to_string();
        insta::assert_snapshot!(problems, @r#"
        error: config.toml:7:3: [plugin.p.allow.kube] lacks `verbs`
          help: list what it may do: verbs = ["patch"]
        error: config.toml:8:3: `verbs` is empty; list at least one of get, list, create, update, patch, delete
        error: config.toml:9:55: `resource` cannot be combined with `informer`
          help: keep one of them: `resource` grants one resource, `informer` all that an informer watches
        error: config.toml:10:57: `namespaces` cannot be combined with `informer`
          help: the namespaces of the informer apply: remove it, or grant each resource with `resource`
        error: config.toml:10:72: `names` cannot be combined with `informer`
          help: the grant is for all objects of what the informer watches: remove it, or grant each resource with `resource`
        error: config.toml:11:55: `exclude`: `secrets` has no version: write it like `v1/secrets` or `apps/v1/deployments`
        error: config.toml:11:66: `exclude`: `apps/*/x` is not a resource pattern: write `*` for all resources, or one version of a group, such as `apps/v1/*` or `v1/*`
        error: config.toml:11:79: unknown key `excludes` in [plugin.p.allow.kube]
          help: did you mean `exclude`?
        error: config.toml:12:3: `subresources` has "*", which is not a valid name; there are no wildcards
        error: config.toml:13:36: `informer` must be a string, not a list
        error: config.toml:14:57: `exclude` cannot be combined with `resource`
          help: it excludes resources from what an informer watches: remove it, or set `informer` instead of `resource`
        "#);
    }

    #[test]
    fn grants_name_an_informer_of_the_plugin() {
        let file = SourceFile::new(
            "config.toml",
            r#"
[informer.pods]
resource = "v1/pods"
[informer.nodes]
resource = "v1/nodes"
[plugin.p]
component = "p.wasm"
informers = { main = "pods" }
allow.kube = [
  { verbs = ["delete"], informer = "pods" },
  { verbs = ["delete"], informer = "pod" },
  { verbs = ["delete"], informer = "main" },
  { verbs = ["delete"], informer = "nodes" },
]
"#
            .to_owned(),
        );
        let problems = Config::parse(&file).expect_err("it is refused").to_string();
        insta::assert_snapshot!(problems, @r#"
        error: config.toml:11:36: [plugin.p] grants what an informer watches that does not exist: "pod"
          help: did you mean `pods`?
        error: config.toml:12:36: [plugin.p] grants what "main" watches, which is only its alias of an informer
          help: write the name of the informer: informer = "pods"
        error: config.toml:13:36: [plugin.p] grants what the informer "nodes" watches, which is not among its `informers`
          help: add "nodes" to `informers`, or grant each resource with `resource`
        "#);
    }
}
