//! `deploy/chart/files`: the alert rules and the dashboard ask for metrics that exist, and promtool accepts them.
//!
//! The tests that run promtool are among the long ones (`cargo xtask test --full`): building it takes minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::guests;
use regex::Regex;
use serde_json::Value;

/// What a scrape adds to each series.
const TARGET_LABELS: [&str; 2] = ["instance", "job"];

fn root() -> PathBuf {
    guests::workspace_folder()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The metrics in docs/reference/metrics.md, which a test holds against a live daemon, with their labels.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/reference/metrics.md");
    let mut metrics = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split('|').nth(1).unwrap_or_default();
        let words: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        let of_all = words.iter().find_map(|word| word.strip_prefix('{')).unwrap_or_default();
        for word in words.iter().filter(|word| !word.starts_with('{')) {
            let (name, labels) = word.split_once('{').unwrap_or((word, of_all));
            let mut labels: BTreeSet<String> = labels.trim_end_matches('}').split(',').map(str::to_owned).collect();
            if labels.contains("informer") {
                labels.insert("cluster".to_owned());
            }
            metrics.insert(name.to_owned(), labels);
        }
    }
    metrics
}

/// The values of `key` in a file of rules, whether on one line or folded.
fn values(rules: &str, key: &str) -> Vec<String> {
    let lines: Vec<&str> = rules.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut values = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(value) = line
            .trim_start()
            .trim_start_matches("- ")
            .strip_prefix(&format!("{key}: "))
        else {
            continue;
        };
        values.push(match value {
            ">-" => {
                let folded = lines[at + 1..].iter().take_while(|next| indent(next) > indent(line));
                folded.map(|line| line.trim()).collect::<Vec<_>>().join(" ")
            }
            value => value.to_owned(),
        });
    }
    values
}

fn rules() -> String {
    read("deploy/chart/files/alerts.yaml")
}

/// The expressions of the dashboard.
fn dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("deploy/chart/files/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions = targets.map(|target| target["expr"].as_str().expect("an expression").to_owned());
    expressions.collect()
}

/// What is wrong with the metrics and labels of an expression.
fn unknown_in(expression: &str, metrics: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let metric = Regex::new(r"\b((?:informant|process)_[a-z_]+)(?:\{([^}]*)\})?").expect("a regular expression");
    let matcher = Regex::new(r"([a-z_]+)\s*(?:=~|!~|!=|=)").expect("a regular expression");
    let grouping = Regex::new(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)").expect("a regular expression");
    let mut unknown = Vec::new();
    let mut of_all: BTreeSet<String> = TARGET_LABELS.map(str::to_owned).into();
    for found in metric.captures_iter(expression) {
        let name = &found[1];
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix));
        let Some(labels) = metrics.get(name).or_else(|| metrics.get(base?)) else {
            unknown.push(format!("metric {name}"));
            continue;
        };
        let mut labels = labels.clone();
        labels.extend(TARGET_LABELS.map(str::to_owned));
        if name.ends_with("_bucket") {
            labels.insert("le".to_owned());
        }
        let selector = found.get(2).map_or("", |selector| selector.as_str());
        let selected = matcher.captures_iter(selector).map(|label| label[1].to_owned());
        unknown.extend(
            selected
                .filter(|label| !labels.contains(label))
                .map(|label| format!("label {label} of {name}")),
        );
        of_all.extend(labels);
    }
    for list in grouping.captures_iter(expression) {
        let listed = list[1]
            .split(',')
            .map(str::trim)
            .filter(|label| !of_all.contains(*label));
        unknown.extend(listed.map(|label| format!("label {label}")));
    }
    unknown
}

#[test]
fn alerts_and_dashboard_ask_for_documented_metrics() {
    let metrics = documented();
    let alerts = values(&rules(), "expr");
    assert!(alerts.len() >= 10 && dashboard().len() > 30, "{alerts:?}");
    for expression in alerts.into_iter().chain(dashboard()) {
        let unknown = unknown_in(&expression, &metrics);
        assert!(unknown.is_empty(), "{expression}: {unknown:?}");
    }
}

#[test]
fn a_misspelled_metric_or_label_is_found() {
    let metrics = documented();
    let unknown = |expression: &str| unknown_in(expression, &metrics).join(", ");
    assert_eq!(unknown("informant_dead_letter > 0"), "metric informant_dead_letter");
    assert_eq!(
        unknown("informant_plugin_state{stat=\"x\"}"),
        "label stat of informant_plugin_state"
    );
    assert_eq!(unknown("sum by (informr) (informant_store_bytes)"), "label informr");
    assert_eq!(
        unknown("rate(informant_handler_lag_seconds_bucket{le=\"1.0\"}[5m])"),
        ""
    );
}

#[test]
fn runbooks_name_metrics_that_exist() {
    let metrics = documented();
    let name = Regex::new(r"\binformant_[a-z_]*[a-z]\b").expect("a regular expression");
    for page in std::fs::read_dir(root().join("docs/runbooks")).expect("a folder") {
        let page = page.expect("an entry").path();
        let text = std::fs::read_to_string(&page).expect("text");
        for found in name.find_iter(&text).map(|found| found.as_str()) {
            // A command may search for the beginning of a name.
            let is_known = metrics.keys().any(|metric| metric.starts_with(found));
            assert!(is_known, "{}: {found}", page.display());
        }
    }
}

#[test]
fn every_alert_has_a_runbook_and_a_rule_test() {
    let (rules, tests) = (rules(), read("tests/alerts/alerts.test.yaml"));
    let (alerts, codes) = (values(&rules, "alert"), values(&rules, "code"));
    assert_eq!(alerts.len(), codes.len());
    for key in ["for", "severity", "summary", "description", "runbook_url"] {
        assert_eq!(values(&rules, key).len(), alerts.len(), "{key}");
    }
    let urls = values(&rules, "runbook_url");
    let manifest = read("Cargo.toml");
    let homepage = manifest.lines().find_map(|line| line.strip_prefix("homepage = "));
    let homepage = homepage.expect("the address of the book").trim_matches('"');
    for ((alert, code), url) in alerts.iter().zip(&codes).zip(urls) {
        assert!(
            root().join(format!("docs/runbooks/{code}.md")).is_file(),
            "{alert}: {code}"
        );
        // `cargo xtask book` checks that the book has the page.
        assert_eq!(url, format!("{homepage}/runbooks/{code}.html"), "{alert}");
        let of_alert = tests
            .split("\n  - name: ")
            .find(|test| test.starts_with(&format!("{alert}\n")));
        let of_alert = of_alert.unwrap_or_else(|| panic!("{alert} has no rule test"));
        let checks: Vec<&str> = of_alert.split("- eval_time: ").skip(1).collect();
        let fires = |check: &&&str| check.contains("exp_alerts:");
        let firing = checks.iter().filter(fires).count();
        assert!(
            firing > 0 && firing < checks.len(),
            "{alert}: it has to fire in one case, and not in another"
        );
    }
    let pages = std::fs::read_dir(root().join("docs/runbooks"))
        .expect("a folder")
        .count();
    let codes: BTreeSet<_> = codes.into_iter().collect();
    assert_eq!(pages, codes.len() + 1, "each page but README.md has an alert");
}

/// `promtool`, if the long tests run.
fn promtool(arguments: &[&str]) -> Option<Command> {
    std::env::var_os("INFORMANT_TESTS_FULL")?;
    let program = guests::target_folder().join("tools/promtool/promtool");
    assert!(
        program.is_file(),
        "promtool does not exist; run `cargo xtask go-tools` first (it needs Go)"
    );
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    Some(command)
}

fn succeeds(command: &mut Command) {
    let output = command.output().expect("promtool runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn alerts_fire_in_their_rule_tests() {
    let Some(mut check) = promtool(&["check", "rules", "deploy/chart/files/alerts.yaml"]) else {
        return;
    };
    succeeds(&mut check);
    succeeds(&mut promtool(&["test", "rules", "tests/alerts/alerts.test.yaml"]).expect("as before"));
}

#[test]
fn dashboard_has_valid_expressions() {
    let folder = tempfile::tempdir().expect("a folder");
    let file: &Path = &folder.path().join("rules.yaml");
    let Some(mut check) = promtool(&["check", "rules"]) else {
        return;
    };
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, expression) in dashboard().iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "5m").replace("$instance", ".*");
        assert!(
            !expression.contains('$'),
            "a variable that is not replaced: {expression}"
        );
        let expression = Value::String(expression);
        rules.extend([format!("  - record: dashboard:{number}\n    expr: {expression}\n")]);
    }
    std::fs::write(file, rules).expect("a file");
    succeeds(check.arg(file));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_metrics_pass_promtool() {
    let Some(mut check) = promtool(&["check", "metrics"]) else {
        return;
    };
    let cluster = Cluster::start(Kind::Embedded).await.expect("a cluster");
    let folder = cluster.folder();
    let component = guests::component("guest-recorder").expect("a guest");
    std::fs::copy(component, folder.join("recorder.wasm")).expect("a copy");
    let config = "[informer.pods]\nresource = \"v1/pods\"\n\
        [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\nrequired = true\n";
    let daemon = Daemon::start(folder, &cluster.kubeconfig(), config)
        .await
        .expect("a daemon");
    daemon.wait_until_ready().await.expect("it is ready");
    let (_, metrics) = daemon.http_get("/metrics").await.expect("metrics");
    let file = folder.join("metrics.txt");
    std::fs::write(&file, metrics).expect("a file");
    succeeds(check.stdin(Stdio::from(std::fs::File::open(file).expect("the file"))));
}
