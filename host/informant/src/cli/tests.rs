//! Help texts and errors of the command line.

use super::*;

fn help(path: &[&str]) -> String {
    help_of(Cli::command(), path)
}

/// The short help. The log flags, which every command has, are included for the program only.
pub(super) fn help_of(mut command: clap::Command, path: &[&str]) -> String {
    command.build();
    let mut command = &mut command;
    for name in path {
        command = command.find_subcommand_mut(name).expect("a command");
    }
    let text = command.render_help().to_string();
    match text.split_once("\nLog:\n") {
        Some((before, _)) if !path.is_empty() => before.to_owned(),
        _ => text,
    }
}

#[test]
fn command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_names_every_command() {
    insta::assert_snapshot!(help(&[]), @r#"
    Run Kubernetes informers natively, and call handlers and index functions written as WebAssembly components or scripts

    Usage: informant [OPTIONS] <COMMAND>

    Commands:
      run          Run the informers and plugins of a configuration
      dev          Run a plugin while you write it: rebuild it on save, and show its calls, effects and log
      check        Validate a configuration, its plugins, and the permissions it needs
      get          Show objects from the cache of a running `informant run`
      status       Show the status of a running `informant run`: configuration, informers, plugins
      top          Follow what plugins and sources of a running `informant run` do now, like top
      dashboard    Open the dashboard of a running `informant run` in a browser
      why          Show what plugins did to an object, or what one plugin did, and because of what
      replicas     Show the replicas of a running `informant run` with [ha], and which of them acts
      explain      Print what to do about a problem, by its code in the log, in `informant status` and in alerts
      log-level    Show or change the log level of a running `informant run`
      rbac         Print least-privilege RBAC as YAML
      apiserver    Run the embedded API server, to try Informant without a cluster
      state        Copy what plugins remember
      plugin       Inspect and manage plugins
      completions  Print a script that completes commands and flags in your shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Log:
          --log-level <FILTER>   Set the log level, optionally per crate, as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  Set the format of log lines [default: plain] [possible values: plain, json]

    Exit codes:
      0    success; for run: stopped cleanly by one SIGINT or SIGTERM
      1    failure; for get, plugin requeue and plugin trigger: not found
      2    invalid command line
      3    invalid configuration
      4    not ready: for get, the index is not attached, or --at-least was not seen in time
      5    for get: not synced, the first list is not in the cache yet
      6    for run: the stop hung and was ended after 11 s; the log names what hung
      7    partial: replicas that hold some shards did not answer
      130  run was ended immediately by a second SIGINT (143: SIGTERM)
    "#);
}

#[test]
fn help_of_run() {
    insta::assert_snapshot!(help(&["run"]), @"
    Run the informers and plugins of a configuration

    Usage: informant run [OPTIONS]

    Options:
      -c, --config <FILE>                 Configuration file [default: config.toml]
          --admin-listen <ADDRESS:PORT>   Address of the admin server; port 0 picks a free port [default: [admin] in the configuration, 127.0.0.1:8089]
          --health-listen <ADDRESS:PORT>  Address of probes and metrics; port 0 picks a free port [default: [health] in the configuration, [::]:8090]
          --cache-dir <DIRECTORY>         Directory for compiled components [default: $XDG_CACHE_HOME/informant, ~/.cache/informant] [env: INFORMANT_CACHE_DIR]
      -h, --help                          Print help (see more with '--help')

    Cluster:
          --kubeconfig <FILE>  Kubeconfig file [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>     Kubeconfig context [default: [cluster] in the configuration, the kubeconfig's current context]
    ");
}

#[test]
fn help_of_rbac() {
    insta::assert_snapshot!(help(&["rbac"]), @"
    Print least-privilege RBAC as YAML

    Usage: informant rbac [OPTIONS]

    Options:
      -c, --config <FILE>          Configuration file [default: config.toml]
      -n, --namespace <NAMESPACE>  Namespace of Informant and its ServiceAccount [default: informant]
          --name <NAME>            Name of the ServiceAccount, the roles and the bindings [default: informant]
          --cluster <NAME>         Print RBAC for this cluster, as in [cluster.NAME]; required with more than one
      -o, --output <FORMAT>        Output format [default: yaml] [possible values: yaml, helm-values]
      -h, --help                   Print help (see more with '--help')

    Cluster:
          --kubeconfig <FILE>  Kubeconfig file [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>     Kubeconfig context [default: [cluster] in the configuration, the kubeconfig's current context]
    ");
}

#[test]
fn help_of_check() {
    insta::assert_snapshot!(help(&["check"]), @"
    Validate a configuration, its plugins, and the permissions it needs

    Usage: informant check [OPTIONS]

    Options:
      -c, --config <FILE>     Configuration file [default: config.toml]
          --cluster [<NAME>]  Fail instead of warn if a cluster cannot be reached; names, separated by commas, limit the check to those clusters
          --offline           Do not contact the cluster
          --strict            Fail on warnings, and on components without `sha256`: for pipelines
      -h, --help              Print help (see more with '--help')

    Cluster:
          --kubeconfig <FILE>  Kubeconfig file [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>     Kubeconfig context [default: [cluster] in the configuration, the kubeconfig's current context]
    ");
}

#[test]
fn help_of_top() {
    let help = help(&["top"]);
    let (own, _) = help
        .split_once("      --admin")
        .expect("the flags of all commands that ask the daemon");
    insta::assert_snapshot!(own, @"
    Follow what plugins and sources of a running `informant run` do now, like top

    Usage: informant top [OPTIONS]

    Options:
          --sort <COLUMN>
              Column that sorts the plugins [default: calls] [possible values: calls, cpu, lag, memory, effects, pending, name]
          --reverse
              Sort in the opposite order
          --iterations <COUNT>
              Print tables instead of following on the screen, this many times [default without a terminal: 1]
          --interval <SECONDS>
              Seconds between two tables [default: 2]
      -o, --output <FORMAT>
              Output format; json is not for the screen [default: table] [possible values: table, json]
    ");
}

#[test]
fn help_of_get() {
    insta::assert_snapshot!(help(&["get"]), @r"
    Show objects from the cache of a running `informant run`

    Usage: informant get [OPTIONS] <RESOURCE> [NAME]...

    Arguments:
      <RESOURCE>  Resources that one informer watches, or informer names, separated by commas: pods, po, v1/pods, deploy.apps, Pod; or `sources`, for the status of each source
      [NAME]...   Show only the objects of these names; also written RESOURCE/NAME, for each object; with `sources`, only this informer's sources

    Options:
      -n, --namespace <NAMESPACE>
              Show only objects in this namespace [default: the namespace of the kubeconfig's context, if it names one]
      -A, --all-namespaces
              Show objects in all namespaces
          --cluster <NAME>
              Show only objects in these clusters, named as in [cluster.NAME], separated by commas [default: all of the informer's]
          --all-clusters
              Show objects in all clusters of the informer (the default)
          --index <NAME=VALUE>
              Show only objects with this value in this index
      -l, --selector <SELECTOR>
              Show only objects whose labels match: app=web,tier!=db,env in (a,b),!canary
          --field-selector <SELECTOR>
              Show only objects with these values in fields: status.phase!=Running,spec.nodeName=node-1
          --sort-by <JSONPATH>
              Sort by the value of this field: .metadata.creationTimestamp, .status.startTime
      -w, --watch
              After the objects, show each change, until you end it
          --at-least <VERSION>
              Wait up to 10s until the cache has seen this resource version, for example the one that your own write returned
          --require-all
              Fail if a cluster, namespace or kind of the informer is not synced, or a shard is missing [default: show the others, and warn]
          --show-secrets
              Show the data of Secrets, not only keys and sizes; needs a daemon that authenticates, and the right to read them
      -o, --output <FORMAT>
              Output format: table, wide, json, yaml, name or jsonpath=TEMPLATE [default: table]
          --show-labels
              Add a column with the labels to the table
          --no-headers
              Omit the table's header row
          --shard <NUMBER>
              Ask only the replica that holds this shard, with [ha] shards [default: ask all that hold one]
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')

    Connection:
          --informant-namespace <NAMESPACE>
              Open a port-forward to Informant's pod in this namespace: the Ready pod with the label app.kubernetes.io/name=informant
          --pod <NAME>
              Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
          --certificate-authority <FILE>
              Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a port-forward, any]
          --insecure-skip-tls-verify
              Accept any certificate: a server in place of the daemon would receive your token
          --tls-server-name <NAME>
              Name that the certificate must be valid for [default: the host of --admin; through a port-forward, informant.NAMESPACE.svc]
          --kubeconfig <FILE>
              Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>
              Kubeconfig context [default: the kubeconfig's current context]
          --token-file <FILE>
              File with the token to send [default: the token of the kubeconfig's user]
          --service-account <[NAMESPACE/]NAME>
              Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    ");
}

#[test]
fn help_of_apiserver() {
    insta::assert_snapshot!(help(&["apiserver"]), @"
    Run the embedded API server, to try Informant without a cluster

    Usage: informant apiserver [OPTIONS]

    Options:
          --listen <ADDRESS:PORT>   Address to listen on (no authentication); port 0 picks a free port [default: 127.0.0.1:8088]
          --kubeconfig-out <FILE>   Write a kubeconfig for this server, for kubectl and for --kubeconfig
          --context-name <NAME>     Name of the cluster, user and context in the kubeconfig [default: informant]
          --tls                     Serve TLS, with a certificate authority generated for this run and included in the kubeconfig
          --snapshot <FILE>         Load the state from this file if it exists, and save it there every 10 s and at exit
          --token <TOKEN=USER>      Accept this token of a user in token reviews; may be repeated
          --faults                  Serve /informant/faults too, to drop watches and inject errors
          --fault <JSON>            Start with this fault, in JSON as for /informant/faults; may be repeated
          --replica <ADDRESS:PORT>  Address of a second replica, which faults can make lag; its kubeconfig context is NAME-replica
      -h, --help                    Print help (see more with '--help')
    ");
}

#[test]
fn help_of_plugin_inspect() {
    insta::assert_snapshot!(help(&["plugin", "inspect"]), @"
    Show a component's roles, imports and manifest

    Usage: informant plugin inspect [OPTIONS] <FILE>

    Arguments:
      <FILE>  Component or script file

    Options:
      -c, --config <FILE>    Configuration file: the manifest may depend on the `config` of the plugin that has this component
          --plugin <NAME>    The plugin in the configuration file, if several have this component
      -o, --output <FORMAT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help (see more with '--help')
    ");
}

#[test]
fn wrong_arguments_are_explained() {
    let refusal = |args: &[&str]| Cli::try_parse_from(args).map(|_| ()).unwrap_err().to_string();
    insta::assert_snapshot!(refusal(&["informant", "get", "pods", "--index", "image"]), @"
    error: invalid value 'image' for '--index <NAME=VALUE>': write NAME=VALUE, for example image=nginx:1.25

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refusal(&["informant", "chekc"]), @"
    error: unrecognized subcommand 'chekc'

      tip: a similar subcommand exists: 'check'

    Usage: informant [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn help_of_status() {
    insta::assert_snapshot!(help(&["status"]), @r"
    Show the status of a running `informant run`: configuration, informers, plugins

    Usage: informant status [OPTIONS]

    Options:
      -o, --output <FORMAT>
              Output format [default: table] [possible values: table, json]
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')

    Connection:
          --informant-namespace <NAMESPACE>
              Open a port-forward to Informant's pod in this namespace: the Ready pod with the label app.kubernetes.io/name=informant
          --pod <NAME>
              Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
          --certificate-authority <FILE>
              Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a port-forward, any]
          --insecure-skip-tls-verify
              Accept any certificate: a server in place of the daemon would receive your token
          --tls-server-name <NAME>
              Name that the certificate must be valid for [default: the host of --admin; through a port-forward, informant.NAMESPACE.svc]
          --kubeconfig <FILE>
              Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>
              Kubeconfig context [default: the kubeconfig's current context]
          --token-file <FILE>
              File with the token to send [default: the token of the kubeconfig's user]
          --service-account <[NAMESPACE/]NAME>
              Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    ");
}

#[test]
fn help_of_plugin_list() {
    insta::assert_snapshot!(help(&["plugin", "list"]), @r"
    List the plugins of a running `informant run`

    Usage: informant plugin list [OPTIONS]

    Options:
      -o, --output <FORMAT>
              Output format [default: table] [possible values: table, wide, json]
          --shard <NUMBER>
              Ask only the replica that holds this shard, with [ha] shards [default: ask all that hold one]
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')

    Connection:
          --informant-namespace <NAMESPACE>
              Open a port-forward to Informant's pod in this namespace: the Ready pod with the label app.kubernetes.io/name=informant
          --pod <NAME>
              Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
          --certificate-authority <FILE>
              Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a port-forward, any]
          --insecure-skip-tls-verify
              Accept any certificate: a server in place of the daemon would receive your token
          --tls-server-name <NAME>
              Name that the certificate must be valid for [default: the host of --admin; through a port-forward, informant.NAMESPACE.svc]
          --kubeconfig <FILE>
              Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>
              Kubeconfig context [default: the kubeconfig's current context]
          --token-file <FILE>
              File with the token to send [default: the token of the kubeconfig's user]
          --service-account <[NAMESPACE/]NAME>
              Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    ");
}

#[test]
fn help_of_plugin_pause() {
    insta::assert_snapshot!(help(&["plugin", "pause"]), @r"
    Pause a plugin: changes wait, merged by object

    Usage: informant plugin pause [OPTIONS] <NAME>

    Arguments:
      <NAME>  Plugin name, as in the configuration

    Options:
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')

    Connection:
          --informant-namespace <NAMESPACE>
              Open a port-forward to Informant's pod in this namespace: the Ready pod with the label app.kubernetes.io/name=informant
          --pod <NAME>
              Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
          --certificate-authority <FILE>
              Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a port-forward, any]
          --insecure-skip-tls-verify
              Accept any certificate: a server in place of the daemon would receive your token
          --tls-server-name <NAME>
              Name that the certificate must be valid for [default: the host of --admin; through a port-forward, informant.NAMESPACE.svc]
          --kubeconfig <FILE>
              Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>
              Kubeconfig context [default: the kubeconfig's current context]
          --token-file <FILE>
              File with the token to send [default: the token of the kubeconfig's user]
          --service-account <[NAMESPACE/]NAME>
              Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    ");
}

#[test]
fn help_of_plugin_resume() {
    insta::assert_snapshot!(help(&["plugin", "resume"]), @r"
    End a plugin's pause or quarantine

    Usage: informant plugin resume [OPTIONS] <NAME>

    Arguments:
      <NAME>  Plugin name, as in the configuration

    Options:
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')

    Connection:
          --informant-namespace <NAMESPACE>
              Open a port-forward to Informant's pod in this namespace: the Ready pod with the label app.kubernetes.io/name=informant
          --pod <NAME>
              Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
          --certificate-authority <FILE>
              Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a port-forward, any]
          --insecure-skip-tls-verify
              Accept any certificate: a server in place of the daemon would receive your token
          --tls-server-name <NAME>
              Name that the certificate must be valid for [default: the host of --admin; through a port-forward, informant.NAMESPACE.svc]
          --kubeconfig <FILE>
              Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>
              Kubeconfig context [default: the kubeconfig's current context]
          --token-file <FILE>
              File with the token to send [default: the token of the kubeconfig's user]
          --service-account <[NAMESPACE/]NAME>
              Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    ");
}

#[test]
fn help_of_plugin_requeue() {
    insta::assert_snapshot!(help(&["plugin", "requeue"]), @r"
    Redeliver dead-lettered events to a plugin

    Usage: informant plugin requeue [OPTIONS] <--all|--key <NAMESPACE/NAME>|--resource <RESOURCE>|--namespace <NAMESPACE>|--cluster <NAME>> <NAME>

    Arguments:
      <NAME>  Plugin name, as in the configuration

    Options:
          --all
              All dead letters
          --key <NAMESPACE/NAME>
              This object, whether the plugin failed on it or not
          --resource <RESOURCE>
              Only objects of this resource: v1/pods, pods, Pod; required if objects of several resources have the key
      -n, --namespace <NAMESPACE>
              Only objects in this namespace
          --cluster <NAME>
              Only objects in these clusters, named as in [cluster.NAME], separated by commas
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')

    Connection:
          --informant-namespace <NAMESPACE>
              Open a port-forward to Informant's pod in this namespace: the Ready pod with the label app.kubernetes.io/name=informant
          --pod <NAME>
              Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
          --certificate-authority <FILE>
              Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a port-forward, any]
          --insecure-skip-tls-verify
              Accept any certificate: a server in place of the daemon would receive your token
          --tls-server-name <NAME>
              Name that the certificate must be valid for [default: the host of --admin; through a port-forward, informant.NAMESPACE.svc]
          --kubeconfig <FILE>
              Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>
              Kubeconfig context [default: the kubeconfig's current context]
          --token-file <FILE>
              File with the token to send [default: the token of the kubeconfig's user]
          --service-account <[NAMESPACE/]NAME>
              Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    ");
}

#[test]
fn help_of_plugin_capture() {
    let help = help(&["plugin", "capture"]);
    // The connection is that of `plugin trigger`.
    insta::assert_snapshot!(help.split("Connection:").next().unwrap(), @r"
    Write the next call for an object, which this asks for, as a scenario

    Usage: informant plugin capture [OPTIONS] --key <NAMESPACE/NAME> <NAME>

    Arguments:
      <NAME>  Plugin name, as in the configuration

    Options:
          --key <NAMESPACE/NAME>
              The object to call the handler for; one with a dead letter gets that event
          --resource <RESOURCE>
              Its resource: v1/pods, pods, Pod; required if objects of several resources have the key
          --cluster <NAME>
              Its cluster, named as in [cluster.NAME]; required if objects of several clusters have the key
          --out <FILE>
              File to write, which does not exist yet and whose name ends in .scenario.yaml [default: stdout]
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')
    ");
}

#[test]
fn help_of_plugin_trigger() {
    insta::assert_snapshot!(help(&["plugin", "trigger"]), @r"
    Call a plugin's handler for live objects, although nothing changed

    Usage: informant plugin trigger [OPTIONS] <--all|--key <NAMESPACE/NAME>|--resource <RESOURCE>|--informer <NAME>|--namespace <NAMESPACE>|--cluster <NAME>|--selector <SELECTOR>|--timer <NAME>> <NAME>

    Arguments:
      <NAME>  Plugin name, as in the configuration

    Options:
          --all
              Every object that the plugin handles
          --key <NAMESPACE/NAME>
              This object
          --resource <RESOURCE>
              Only objects of this resource: v1/pods, pods, Pod; required if objects of several resources have the key
          --informer <NAME>
              Only objects of this informer
      -n, --namespace <NAMESPACE>
              Only objects in this namespace
          --cluster <NAME>
              Only objects in these clusters, named as in [cluster.NAME], separated by commas
      -l, --selector <SELECTOR>
              Only objects with these labels
          --timer <NAME>
              This timer instead of objects
          --admin <ADDRESS:PORT|https://HOST:PORT>
              The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is there, [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>
              Configuration file [default: config.toml]
      -h, --help
              Print help (see more with '--help')

    Connection:
          --informant-namespace <NAMESPACE>
              Open a port-forward to Informant's pod in this namespace: the Ready pod with the label app.kubernetes.io/name=informant
          --pod <NAME>
              Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
          --certificate-authority <FILE>
              Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a port-forward, any]
          --insecure-skip-tls-verify
              Accept any certificate: a server in place of the daemon would receive your token
          --tls-server-name <NAME>
              Name that the certificate must be valid for [default: the host of --admin; through a port-forward, informant.NAMESPACE.svc]
          --kubeconfig <FILE>
              Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>
              Kubeconfig context [default: the kubeconfig's current context]
          --token-file <FILE>
              File with the token to send [default: the token of the kubeconfig's user]
          --service-account <[NAMESPACE/]NAME>
              Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    ");
}
