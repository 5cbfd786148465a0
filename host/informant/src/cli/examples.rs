//! Examples of each command, which end its help.

use clap::Command;

/// How the program is called in [`EXAMPLES`].
pub(super) const CALLED: &str = "informant";

/// Each command, and how it is used.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "run",
        &["informant run", "informant run -c config.toml --log-format json"],
    ),
    (
        "dev",
        &[
            "informant dev greeter --objects pods.yaml",
            "informant dev handler.js --replay",
            "informant dev greeter --context staging",
        ],
    ),
    (
        "check",
        &[
            "informant check -c config.toml",
            "informant check --cluster east,west",
            "informant check --offline --strict",
        ],
    ),
    (
        "get",
        &[
            "informant get po,svc -n web --show-labels",
            "informant get pods --field-selector status.phase!=Running --sort-by .status.startTime",
            "informant get pods -w",
            "informant get pods -A -l app=web,tier!=db -o wide",
            "informant get pods web-0 -n web -o yaml",
            "informant get pods -o jsonpath='{.items[*].metadata.name}'",
            "informant get pods -A --index image=nginx:1.25 -o name",
            "informant get sources",
        ],
    ),
    ("status", &["informant status", "informant status -o json"]),
    (
        "top",
        &[
            "informant top",
            "informant top --sort cpu",
            "informant top --iterations 5 --interval 10 -o json",
        ],
    ),
    (
        "dashboard",
        &[
            "informant dashboard",
            "informant dashboard --informant-namespace informant",
            "informant dashboard --no-browser --port 8090",
        ],
    ),
    (
        "why",
        &[
            "informant why deployment/web -n shop",
            "informant why configmap web-settings -n shop --follow",
            "informant why --plugin labeler -o json",
        ],
    ),
    ("replicas", &["informant replicas", "informant replicas -o json"]),
    ("explain", &["informant explain", "informant explain dead-letters"]),
    (
        "log-level",
        &[
            "informant log-level",
            "informant log-level debug",
            "informant log-level info,informant_informer=debug",
        ],
    ),
    (
        "rbac",
        &[
            "informant rbac -c config.toml | kubectl apply -f -",
            "informant rbac -o helm-values > informant-values.yaml",
        ],
    ),
    (
        "apiserver",
        &[
            "informant apiserver --kubeconfig-out kubeconfig",
            "informant apiserver --tls --faults",
        ],
    ),
    (
        "state copy",
        &[
            "informant state copy --from file --to kubernetes --group informant -n informant",
            "informant state copy --from kubernetes --to file --file state.redb",
        ],
    ),
    (
        "plugin new",
        &[
            "informant plugin new --lang js greeter",
            "informant plugin new --lang go greeter --sdk ~/informant/plugin-sdk",
        ],
    ),
    (
        "plugin build",
        &[
            "informant plugin build greeter",
            "informant plugin build handler.ts --conditions browser",
            "informant plugin build handler.ts --component",
            "informant plugin build core.wasm -o greeter.wasm",
        ],
    ),
    (
        "plugin compile",
        &[
            "informant plugin compile /usr/local/lib/informant/informant-runner-python.wasm",
            "informant plugin compile informant-runner-python.wasm --target arm64",
        ],
    ),
    (
        "plugin test",
        &[
            "informant plugin test",
            "informant plugin test greeter.scenario.yaml --update",
            "informant plugin test greeter.wasm --scenario greeter.scenario.yaml --junit results.xml",
        ],
    ),
    (
        "plugin inspect",
        &[
            "informant plugin inspect greeter.wasm",
            "informant plugin inspect handler.js -o json",
        ],
    ),
    (
        "plugin schema",
        &[
            "informant plugin schema > manifest.schema.json",
            "informant plugin schema context",
        ],
    ),
    (
        "plugin list",
        &["informant plugin list", "informant plugin list -o json"],
    ),
    (
        "plugin dead-letters",
        &[
            "informant plugin dead-letters",
            "informant plugin dead-letters greeter --resource pods -n web",
        ],
    ),
    (
        "plugin retries",
        &[
            "informant plugin retries",
            "informant plugin retries greeter --cluster east,west",
        ],
    ),
    (
        "plugin logs",
        &[
            "informant plugin logs greeter",
            "informant plugin logs greeter --tail 20 -f",
        ],
    ),
    ("plugin pause", &["informant plugin pause greeter"]),
    ("plugin resume", &["informant plugin resume greeter"]),
    ("plugin restart", &["informant plugin restart greeter"]),
    (
        "plugin requeue",
        &[
            "informant plugin requeue greeter --all",
            "informant plugin requeue greeter --resource pods --key web/web-0",
            "informant plugin requeue greeter -n web --cluster east",
        ],
    ),
    (
        "plugin trigger",
        &[
            "informant plugin trigger greeter --all",
            "informant plugin trigger greeter --resource pods -n web -l app=web",
            "informant plugin trigger greeter --key web/web-0",
            "informant plugin trigger reporter --timer daily",
        ],
    ),
    (
        "plugin capture",
        &[
            "informant plugin capture greeter --key web/web-0",
            "informant plugin capture greeter --resource pods --key web/web-0 --out web-0.scenario.yaml",
        ],
    ),
    ("plugin effects", &["informant plugin effects greeter"]),
    (
        "plugin finalizers",
        &[
            "informant plugin finalizers website",
            "informant plugin finalizers website --resource example.com/v1/websites --remove",
        ],
    ),
    ("completions", &["informant completions bash > informant.bash"]),
];

/// Ends the help of each command with its examples, as they are typed where the program is called `called`.
pub(super) fn with_examples(command: Command, called: &str) -> Command {
    EXAMPLES.iter().fold(command, |command, (path, examples)| {
        let mut text = String::from("Examples:");
        for example in *examples {
            text.push_str("\n  ");
            text.push_str(called);
            text.push_str(example.strip_prefix(CALLED).unwrap_or(example));
        }
        let path: Vec<&str> = path.split(' ').collect();
        end_help(command, &path, text)
    })
}

fn end_help(command: Command, path: &[&str], text: String) -> Command {
    match path {
        [] => command.after_help(text),
        [first, rest @ ..] => command.mut_subcommand(*first, |command| end_help(command, rest, text)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::Cli;
    use super::*;

    /// The paths of the commands below `command` that do something.
    fn leaves(command: &Command, above: &str) -> Vec<String> {
        let visible = command
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        let below = visible.flat_map(|sub| {
            let path = format!("{above} {}", sub.get_name()).trim_start().to_owned();
            match sub.has_subcommands() {
                true => leaves(sub, &path),
                false => vec![path],
            }
        });
        below.collect()
    }

    #[test]
    fn each_command_has_examples() {
        let missing: Vec<String> = leaves(&Cli::command(), "")
            .into_iter()
            .filter(|path| {
                !EXAMPLES
                    .iter()
                    .any(|(known, examples)| known == path && !examples.is_empty())
            })
            .collect();
        assert!(missing.is_empty(), "add examples of {missing:?}");
    }

    #[test]
    fn examples_are_valid_command_lines_of_their_command() {
        for (path, examples) in EXAMPLES {
            for example in *examples {
                assert!(example.starts_with(&format!("informant {path}")), "{example}");
                let own = example.split([' ']).take_while(|word| !matches!(*word, "|" | ">"));
                let parsed = Cli::command().try_get_matches_from(own);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn help_ends_with_what_is_typed() {
        let mut command = with_examples(Cli::command(), "kubectl informant");
        command.build();
        let command = command.find_subcommand_mut("plugin").unwrap();
        let command = command.find_subcommand_mut("requeue").unwrap();
        let help = command.render_help().to_string();
        let examples = help.split_once("Examples:\n").map(|(_, examples)| examples);
        let first = examples.and_then(|examples| examples.lines().next());
        assert_eq!(first, Some("  kubectl informant plugin requeue greeter --all"));
    }
}
