//! `allow` of a plugin: what it may do apart from reading its informers.

use informant_spec::{HttpGrant, KubeGrant, KubeResource, KubeVerb};

use crate::allow_http;
use crate::source::Located;
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
    pub(crate) http: Vec<Located<HttpGrant>>,
    pub(crate) events: bool,
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
    Allow {
        kube: kube.iter().filter_map(read_grant).collect(),
        http,
        events,
    }
}

fn read_grant(table: &Table<'_>) -> Option<Located<KubeGrant>> {
    let verbs = read_verbs(table);
    let resource = read_resource(table);
    let words = |key: &str| {
        let words = table.strings(key)?;
        Some(words.into_iter().map(|word| word.value).collect::<Vec<String>>())
    };
    let (namespaces, names, subresources) = (words("namespaces"), words("names"), words("subresources"));
    table.finish(&[]);
    let grant = KubeGrant {
        verbs: verbs?,
        resource: resource?,
        namespaces,
        names,
        subresources: subresources.unwrap_or_default(),
    };
    if let Err(problem) = grant.validate() {
        table.report(table.position(), problem);
        return None;
    }
    Some(Located {
        value: grant,
        position: table.position(),
    })
}

fn read_resource(table: &Table<'_>) -> Option<KubeResource> {
    let text = table.required_string("resource", "set the resource: resource = \"v1/pods\"")?;
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
            assert_eq!(informant_spec::allow_line(&grants, &[]), wanted);
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
          help: set the resource: resource = "v1/pods"
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
}
