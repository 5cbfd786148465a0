//! A plugin's file and informers.

use super::*;

/// Two informers, one of them named `pods`, and a plugin with `informers` on line 10.
fn plugin_with_informers(pods: &str, informers: &str) -> String {
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
fn plugin_file_is_either_component_or_script() {
    let config = accepted(
        "[informer.pods]\nresource = \"v1/pods\"\n\n[plugin.hello]\nscript = \"hello.js\"\ninformers = [\"pods\"]\n",
    );
    assert_eq!(config.plugins["hello"].spec.content.path(), Path::new("./hello.js"));
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]
resource = "v1/pods"

[plugin.both]
component = "both.wasm"
script = "both.js"
informers = ["pods"]

[plugin.typed]
script = "typed.tsx"
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

[plugin.foreign]
script = "foreign.rb"
informers = ["pods"]
"#
    ), @r#"
    error: config.toml:7:10: [plugin.both] has both `component` and `script`
      help: keep one of them: a plugin is one file
    error: config.toml:11:10: `script` must name a file that ends in .js, .mjs, .ts, .mts or .py
      help: build it, and name the result: informant plugin build NAME.tsx
    error: config.toml:15:10: `script` must name a file that ends in .js, .mjs, .ts, .mts or .py
      help: for a component use component = "NAME.wasm"
    error: config.toml:19:13: `component` names a script
      help: write script = "other.mjs"
    error: config.toml:23:10: `script` must name a file that ends in .js, .mjs, .ts, .mts or .py
      help: write the name of a script: script = "NAME.js"
    error: config.toml:27:10: `script` must name a file that ends in .js, .mjs, .ts, .mts or .py
      help: for another language, name its runner: [script-runners] rb = "FILE"
    "#);
}

#[test]
fn script_runners_add_languages_of_scripts() {
    let pods = "[informer.pods]\nresource = \"v1/pods\"\n";
    let config = accepted(&format!(
        "[script-runners]\nrb = \"ruby.wasm\"\npy = \"/opt/python.wasm\"\n{pods}\
         [plugin.a]\nscript = \"a.rb\"\ninformers = [\"pods\"]\n"
    ));
    let files: Vec<String> = config
        .script_runners
        .0
        .iter()
        .map(|(suffix, file)| format!("{suffix} {}", file.display()))
        .collect();
    assert_eq!(files, ["py /opt/python.wasm", "rb ./ruby.wasm"]);
    assert_eq!(config.plugins["a"].spec.content.language().suffix(), "rb");
    insta::assert_snapshot!(refusal(&format!(
        "[script-runners]\nRB = \"ruby.wasm\"\nmjs = \"other.wasm\"\npy = \"\"\nlua = 1\n{pods}\
         [plugin.a]\ncomponent = \"a.py\"\ninformers = [\"pods\"]\n"
    )), @r#"
    error: config.toml:2:1: `RB` is not the suffix of a script
      help: 1 to 16 lower-case letters and digits, without the dot: py = "FILE"
    error: config.toml:3:1: `mjs` has no runner of its own: it runs with that of `js`
      help: write js = "other.wasm"
    error: config.toml:4:6: `py` is empty
      help: name the runner's file: py = "/usr/local/lib/informant/RUNNER.wasm"
    error: config.toml:5:7: `lua` must be a string, not a whole number
    error: config.toml:9:13: `component` names a script
      help: write script = "a.py"
    "#);
}

#[test]
fn memory_for_compiling_is_a_size() {
    let config = accepted("[plugins]\ncompile-memory = \"256MiB\"\n");
    assert_eq!(config.all_plugins.compile_memory, Some(256 << 20));
    insta::assert_snapshot!(refusal("[plugins]\ncompile-memory = \"1MiB\"\n[plugins.greeter]\nscript = \"a.js\"\n"), @r#"
    warning: config.toml:1:1: nothing to do: no [informer.NAME] and no [plugin.NAME]
      help: start with [informer.pods] and resource = "v1/pods"
    error: config.toml:2:18: `compile-memory` = 1MiB is out of range
      help: from 32MiB to 1024GiB
    error: config.toml:3:10: [plugins.greeter] is not a section: [plugins] is about all plugins together
      help: write [plugin.greeter]
    "#);
}

#[test]
fn unknown_informers_are_reported_with_suggestions() {
    let with_informers = |informers| plugin_with_informers("pods", informers);
    insta::assert_snapshot!(refusal(&with_informers(r#"["pod", "deployments", "nodes", "nodes"]"#)), @r#"
    error: config.toml:10:14: [plugin.p] names an informer that does not exist: "pod"
      help: did you mean `pods`?
    error: config.toml:10:21: [plugin.p] names an informer that does not exist: "deployments"
      help: informers: `nodes`, `pods`
    error: config.toml:10:45: [plugin.p] names the informer "nodes" twice
      help: remove `nodes`: every event would be delivered twice
    "#);
    insta::assert_snapshot!(refusal(&with_informers(r#"{ main = "pods", other = "pods", "x=y" = "nodes" }"#)), @r#"
    error: config.toml:10:38: [plugin.p] names the informer "pods" twice
      help: remove `other`: every event would be delivered twice
    error: config.toml:10:46: "x=y" is not a valid alias for an informer
      help: 1 to 63 letters, digits, '-', '_', '.' and '/', beginning with a letter or digit
    "#);
}

#[test]
fn invalid_names_are_never_suggested() {
    let text = plugin_with_informers("Pods", r#"["pods", "nods"]"#);
    insta::assert_snapshot!(refusal(&text), @r#"
    error: config.toml:2:11: "Pods" is not a valid NAME for [informer.NAME]
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:10:14: [plugin.p] names an informer that does not exist: "pods"
      help: [informer.Pods] is not a valid name: rename it to [informer.pods]
    error: config.toml:10:22: [plugin.p] names an informer that does not exist: "nods"
      help: did you mean `nodes`?
    "#);
}

#[test]
fn invalid_informer_causes_no_error_in_its_plugins() {
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]

[plugin.p]
component = "p.wasm"
informers = ["pods"]
"#
    ), @r#"
    error: config.toml:2:11: [informer.pods] lacks `resource`
      help: set what to watch: resource = "v1/pods"
    "#);
}

#[test]
fn namespaces_that_no_informer_watches_are_a_warning() {
    let config = |informers: &str| {
        format!(
            "[informer.web]\nresource = \"v1/pods\"\nnamespaces = [\"web\", \"shop\"]\n\
             [informer.all]\nresource = \"v1/nodes\"\n\
             [plugin.p]\ncomponent = \"p.wasm\"\ninformers = [{informers}]\nnamespaces = [\"shop\", \"wbe\", \"\"]\n"
        )
    };
    insta::assert_snapshot!(warnings(&config("\"web\"")), @r#"
    warning: config.toml:9:14: [plugin.p] selects the namespace "wbe", which none of its informers watches
      help: remove it, or add it to the informer; watched: web, shop
    "#);
    assert_eq!(warnings(&config("\"web\", \"all\"")), "");
}
