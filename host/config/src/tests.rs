//! Every message about a configuration.

mod clusters;
mod deprecated;
mod durable;
mod pages;
mod plugins;
mod shape;
mod values;

use super::*;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse(&SourceFile::new("config.toml", text))
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("this configuration must be invalid").to_string()
}

fn accepted(text: &str) -> Config {
    parse(text).unwrap_or_else(|problems| panic!("this configuration must be valid:\n{problems}"))
}

fn warnings(text: &str) -> String {
    Problems(accepted(text).warnings).to_string()
}

#[test]
fn syntax_errors_are_reported_alone() {
    insta::assert_snapshot!(refusal("[informer.pods\nresource = v1/pods\nresource = \"a\"\nx = \"\n"), @"error: config.toml:1:15: unclosed table, expected `]`");
    insta::assert_snapshot!(refusal("[informer.pods]\nresource = \"v1/pods\"\nresource = \"v1/nodes\"\n"), @"error: config.toml:3:1: `resource` is defined twice");
    insta::assert_snapshot!(refusal("[informer.pods]\n[informer.pods]\n"), @"error: config.toml:2:11: `pods` is defined twice");
}

#[test]
fn questionable_settings_are_warnings() {
    insta::assert_snapshot!(warnings(
        r#"
[informer.all]
resource = "v1/pods"

[informer.some]
resource = "v1/pods"
namespaces = ["default"]
"#
    ), @r#"
    warning: config.toml:6:12: informers "all" and "some" both watch `v1/pods`: two watches and two caches
      help: let the plugins use the same informer, unless its namespaces differ
    "#);
    insta::assert_snapshot!(warnings("# nothing\n"), @r#"
    warning: config.toml:1:1: nothing to do: no [informer.NAME] and no [plugin.NAME]
      help: start with [informer.pods] and resource = "v1/pods"
    "#);
}

#[test]
fn a_pattern_that_covers_another_informer_is_a_warning() {
    let all = "[informer.all]\nresource = \"*\"\n";
    let one = "[informer.deployments]\nresource = \"apps/v1/deployments\"\n";
    insta::assert_snapshot!(warnings(&format!("{one}{all}")), @r#"
    warning: config.toml:2:12: informers "all" and "deployments" both watch `apps/v1/deployments`: two watches and two caches
      help: let the plugins use the informer of the pattern, or add the resource to its `exclude`
    "#);
    for (all, one) in [
        (format!("{all}exclude = [\"apps/v1/deployments\"]\n"), one.to_owned()),
        (format!("{all}metadata-only = true\n"), one.to_owned()),
        (all.replace('*', "batch/v1/*"), one.to_owned()),
        (all.to_owned(), format!("{one}label-selector = \"app\"\n")),
    ] {
        assert_eq!(warnings(&format!("{all}{one}")), "", "{all}{one}");
    }
}

#[test]
fn informers_of_one_resource_with_other_selectors_are_no_warning() {
    let informer =
        |name: &str| format!("[informer.{name}]\nresource = \"v1/pods\"\nlabel-selector = \"team={name}\"\n");
    assert_eq!(warnings(&(informer("a") + &informer("b"))), "");
}

#[test]
fn resource_pattern_and_exclude_are_read() {
    let config =
        accepted("[informer.all]\nresource = \"*\"\nexclude = [\"v1/secrets\", \"metrics.k8s.io/v1beta1/*\"]\n");
    let section = &config.informers["all"];
    assert_eq!(section.resource.value.text(), "*");
    assert_eq!(
        (section.exclude.resources.len(), section.exclude.versions.len()),
        (1, 1)
    );
    insta::assert_snapshot!(
        refusal(
            r#"
[informer.one]
resource = "v1/pods"
exclude = ["v1/secrets"]

[informer.all]
resource = "apps/*/deployments"

[informer.apps]
resource = "apps/v1/*"
field-selector = "spec.nodeName=a"
exclude = ["secrets", "v1/"]
"#
        ),
        @r#"
    error: config.toml:4:11: `exclude` cannot be combined with resource = "v1/pods"
      help: it excludes resources from a pattern such as `*`: remove it
    error: config.toml:7:12: `resource`: `apps/*/deployments` is not a resource pattern: write `*` for all resources, or one version of a group, such as `apps/v1/*` or `v1/*`
    error: config.toml:11:18: `field-selector` cannot be combined with resource = "apps/v1/*"
      help: every kind has different fields: remove it, or add an informer for each resource
    error: config.toml:12:12: `exclude`: `secrets` has no version: write it like `v1/secrets` or `apps/v1/deployments`
    error: config.toml:12:23: `exclude`: `v1/` is not a resource name: a part is empty; write `v1/pods`, `apps/v1/deployments`, or a name such as `pods`, `Pod` or `deployments.apps`
    "#
    );
}
