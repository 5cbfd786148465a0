//! The file of a plugin, and the informers that it is told of.

use super::*;

/// Two informers, the one of pods called `pods`, and in line 10 those that a plugin is told of.
fn plugin_told_of(pods: &str, informers: &str) -> String {
    format!(
        r#"
[informer.{pods}]
resource = "v1/pods"

[informer.nodes]
resource = "v1/nodes"

[plugin.p]
component = "p.wasm"
informers = {informers}
"#
    )
}

#[test]
fn a_plugin_is_one_file_a_component_or_a_script() {
    let config = accepted(
        "[informer.pods]\nresource = \"v1/pods\"\n\n[plugin.hello]\nscript = \"hello.js\"\ninformers = [\"pods\"]\n",
    );
    assert_eq!(config.plugins["hello"].component.value, Path::new("./hello.js"));
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]
resource = "v1/pods"

[plugin.both]
component = "both.wasm"
script = "both.js"
informers = ["pods"]

[plugin.typed]
script = "typed.ts"
informers = ["pods"]

[plugin.swapped]
script = "swapped.wasm"
informers = ["pods"]

[plugin.other]
component = "other.mjs"
informers = ["pods"]

[plugin.nameless]
script = ""
informers = ["pods"]
"#
    ), @r#"
    error: config.toml:7:10: [plugin.both] has both `component` and `script`
      help: keep one of them: a plugin is one file
    error: config.toml:11:10: `script` must name a file that ends in .js or .mjs
      help: compile it to JavaScript: esbuild NAME.ts --format=esm --outfile=NAME.js
    error: config.toml:15:10: `script` must name a file that ends in .js or .mjs
      help: a component is named with component = "NAME.wasm"
    error: config.toml:19:13: `component` names a script
      help: write script = "other.mjs"
    error: config.toml:23:10: `script` must name a file that ends in .js or .mjs
      help: scripts are JavaScript modules: script = "NAME.js"
    "#);
}

#[test]
fn a_plugin_is_told_which_informers_there_are() {
    let told_of = |informers| plugin_told_of("pods", informers);
    insta::assert_snapshot!(refusal(&told_of(r#"["pod", "deployments", "nodes", "nodes"]"#)), @r#"
    error: config.toml:10:14: [plugin.p] names an informer that does not exist: "pod"
      help: did you mean `pods`?
    error: config.toml:10:21: [plugin.p] names an informer that does not exist: "deployments"
      help: informers: `nodes`, `pods`
    error: config.toml:10:45: [plugin.p] names the informer "nodes" twice
      help: leave `nodes` out: every event would come twice
    "#);
    insta::assert_snapshot!(refusal(&told_of(r#"{ main = "pods", other = "pods", "x=y" = "nodes" }"#)), @r#"
    error: config.toml:10:38: [plugin.p] names the informer "pods" twice
      help: leave `other` out: every event would come twice
    error: config.toml:10:46: "x=y" cannot be a plugin's name for an informer
      help: 1 to 63 letters, digits, '-', '_', '.' and '/', beginning with a letter or digit
    "#);
}

#[test]
fn a_name_that_is_refused_is_not_suggested() {
    let text = plugin_told_of("Pods", r#"["pods", "nods"]"#);
    insta::assert_snapshot!(refusal(&text), @r#"
    error: config.toml:2:11: "Pods" cannot be the NAME of [informer.NAME]
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:10:14: [plugin.p] names an informer that does not exist: "pods"
      help: [informer.Pods] cannot be called that: call it [informer.pods]
    error: config.toml:10:22: [plugin.p] names an informer that does not exist: "nods"
      help: did you mean `nodes`?
    "#);
}

#[test]
fn a_plugin_of_a_broken_informer_is_no_second_error() {
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]

[plugin.p]
component = "p.wasm"
informers = ["pods"]
"#
    ), @r#"
    error: config.toml:2:11: [informer.pods] lacks `resource`
      help: name what is watched: resource = "v1/pods"
    "#);
}
