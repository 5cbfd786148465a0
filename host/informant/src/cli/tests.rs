//! The command line as people read it.

use clap::CommandFactory;

use super::*;

fn help(path: &[&str]) -> String {
    let mut command = Cli::command();
    command.build();
    let mut command = &mut command;
    for name in path {
        command = command.find_subcommand_mut(name).expect("a command");
    }
    command.render_help().to_string()
}

#[test]
fn the_command_line_holds_together() {
    Cli::command().debug_assert();
}

#[test]
fn help_names_every_command() {
    insta::assert_snapshot!(help(&[]), @r#"
    Runs Kubernetes informers once, natively, and calls handlers and index functions that are WebAssembly components

    Usage: informant [OPTIONS] <COMMAND>

    Commands:
      run        Runs the informers and plugins of a configuration
      check      Judges a configuration: the file, its components, and what the cluster says to it
      get        Shows objects out of the cache of a running `informant run`
      status     Shows how a running `informant run` fares: configuration, informers, plugins
      rbac       Prints the least rights in the cluster that a configuration needs, as YAML to apply
      apiserver  Serves the embedded API server, for trying things out without a cluster
      plugin     Works on plugins
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]

    Exit codes:
      0    done; for run: stopped by one SIGINT or SIGTERM, in order
      1    failed; for get and plugin requeue: not found
      2    the command line is wrong
      3    the configuration is refused
      4    not ready: for get, the index is not attached, or --at-least not seen in time
      5    for get: not synced, the first list is not in the cache
      130  run was ended at once by a second SIGINT (143: SIGTERM)
    "#);
}

#[test]
fn help_of_run() {
    insta::assert_snapshot!(help(&["run"]), @r#"
    Runs the informers and plugins of a configuration

    Usage: informant run [OPTIONS]

    Options:
      -c, --config <FILE>                The configuration [default: config.toml]
          --admin-listen <ADDRESS:PORT>  Where the admin server listens; port 0 takes a free one [default: [admin] in the configuration, 127.0.0.1:8089]
          --cache-dir <FOLDER>           Where compiled components are kept [default: $XDG_CACHE_HOME/informant, ~/.cache/informant] [env: INFORMANT_CACHE_DIR]
      -h, --help                         Print help (see more with '--help')

    Cluster:
          --kubeconfig <FILE>  The kubeconfig [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>     The context of the kubeconfig [default: [cluster] in the configuration, the kubeconfig's current context]

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_rbac() {
    insta::assert_snapshot!(help(&["rbac"]), @r#"
    Prints the least rights in the cluster that a configuration needs, as YAML to apply

    Usage: informant rbac [OPTIONS]

    Options:
      -c, --config <FILE>          The configuration [default: config.toml]
      -n, --namespace <NAMESPACE>  The namespace that Informant runs in: its ServiceAccount's [default: informant]
          --name <NAME>            What the ServiceAccount, the roles and the bindings are called [default: informant]
          --cluster <NAME>         The rights in this one of several clusters, as in [cluster.NAME]
      -h, --help                   Print help (see more with '--help')

    Cluster:
          --kubeconfig <FILE>  The kubeconfig [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>     The context of the kubeconfig [default: [cluster] in the configuration, the kubeconfig's current context]

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_check() {
    insta::assert_snapshot!(help(&["check"]), @r#"
    Judges a configuration: the file, its components, and what the cluster says to it

    Usage: informant check [OPTIONS]

    Options:
      -c, --config <FILE>     The configuration [default: config.toml]
          --cluster [<NAME>]  A cluster that cannot be reached is an error, not a warning; with a name, as in [cluster.NAME], only that one is asked; several are separated by commas
          --offline           Does not ask the cluster
      -h, --help              Print help (see more with '--help')

    Cluster:
          --kubeconfig <FILE>  The kubeconfig [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service account]
          --context <NAME>     The context of the kubeconfig [default: [cluster] in the configuration, the kubeconfig's current context]

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_get() {
    insta::assert_snapshot!(help(&["get"]), @r#"
    Shows objects out of the cache of a running `informant run`

    Usage: informant get [OPTIONS] <RESOURCE> [NAME]

    Arguments:
      <RESOURCE>  An informer's name, or a resource that one informer watches: pods, v1/pods, Pod; or `sources`, how each source fares
      [NAME]      Only objects of this name; of sources, only this informer's

    Options:
      -n, --namespace <NAMESPACE>  Only objects of this namespace [default: all]
      -A, --all-namespaces         Objects of all namespaces, which is the default; kubectl's habit
          --cluster <NAME>         Only objects of this cluster, as in [cluster.NAME]; several are separated by commas [default: all of the informer's]
          --all-clusters           Objects of all clusters of the informer, which is the default
          --index <NAME=VALUE>     Only objects that this index finds under this value
      -l, --selector <SELECTOR>    Only objects whose labels match: app=web,tier!=db,env in (a,b),!canary
          --at-least <VERSION>     Waits, for at most 10s, until the cache has seen this resource version, as the answer to one's own write names it
      -o, --output <FORMAT>        How they are shown [default: table] [possible values: table, wide, json, yaml, name]
          --no-headers             Leaves the table's headings out
          --admin <ADDRESS:PORT>   The admin server of the daemon [default: [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>          The configuration [default: config.toml]
      -h, --help                   Print help (see more with '--help')

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_apiserver() {
    insta::assert_snapshot!(help(&["apiserver"]), @r#"
    Serves the embedded API server, for trying things out without a cluster

    Usage: informant apiserver [OPTIONS]

    Options:
          --listen <ADDRESS:PORT>   Where to listen, without asking who is there; port 0 takes a free one [default: 127.0.0.1:8088]
          --kubeconfig-out <FILE>   Writes a kubeconfig for this server, for kubectl and for --kubeconfig
          --context-name <NAME>     What the kubeconfig calls this server: its cluster, user and context [default: informant]
          --tls                     Speaks TLS, with a certificate authority made for this run; the kubeconfig carries it
          --snapshot <FILE>         Begins with the state in this file, if it is there, and keeps it there: every 10 s and at the end
          --faults                  Serves /informant/faults too, where watches can be dropped and errors ordered
          --fault <JSON>            Begins with this fault, in JSON as for /informant/faults; may be given more than once
          --replica <ADDRESS:PORT>  Where a second replica listens, which faults can make lag; the kubeconfig's context NAME-replica
      -h, --help                    Print help (see more with '--help')

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_plugin_inspect() {
    insta::assert_snapshot!(help(&["plugin", "inspect"]), @r#"
    Shows what a component is: its roles, its imports, its manifest

    Usage: informant plugin inspect [OPTIONS] <FILE>

    Arguments:
      <FILE>  The component

    Options:
      -o, --output <FORMAT>  How it is shown [default: text] [possible values: text, json]
      -h, --help             Print help (see more with '--help')

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn wrong_arguments_say_what_is_wanted() {
    let refusal = |args: &[&str]| Cli::try_parse_from(args).map(|_| ()).unwrap_err().to_string();
    insta::assert_snapshot!(refusal(&["informant", "get", "pods", "--index", "image"]), @"
    error: invalid value 'image' for '--index <NAME=VALUE>': write NAME=VALUE, as in image=nginx:1.27

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
    insta::assert_snapshot!(help(&["status"]), @r#"
    Shows how a running `informant run` fares: configuration, informers, plugins

    Usage: informant status [OPTIONS]

    Options:
      -o, --output <FORMAT>       How it is shown [default: table] [possible values: table, json]
          --admin <ADDRESS:PORT>  The admin server of the daemon [default: [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>         The configuration [default: config.toml]
      -h, --help                  Print help (see more with '--help')

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_plugin_list() {
    insta::assert_snapshot!(help(&["plugin", "list"]), @r#"
    Shows the plugins of a running `informant run`

    Usage: informant plugin list [OPTIONS]

    Options:
      -o, --output <FORMAT>       How they are shown [default: table] [possible values: table, json]
          --admin <ADDRESS:PORT>  The admin server of the daemon [default: [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>         The configuration [default: config.toml]
      -h, --help                  Print help (see more with '--help')

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_plugin_resume() {
    insta::assert_snapshot!(help(&["plugin", "resume"]), @r#"
    Ends a plugin's quarantine

    Usage: informant plugin resume [OPTIONS] <NAME>

    Arguments:
      <NAME>  The plugin's name in the configuration

    Options:
          --admin <ADDRESS:PORT>  The admin server of the daemon [default: [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>         The configuration [default: config.toml]
      -h, --help                  Print help (see more with '--help')

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}

#[test]
fn help_of_plugin_requeue() {
    insta::assert_snapshot!(help(&["plugin", "requeue"]), @r#"
    Has a plugin told again of what it failed on, or of one object

    Usage: informant plugin requeue [OPTIONS] <NAME>

    Arguments:
      <NAME>  The plugin's name in the configuration

    Options:
          --key <NAMESPACE/NAME>  This object, whether the plugin failed on it or not [default: all dead letters]
          --all                   All dead letters, which is the default
          --admin <ADDRESS:PORT>  The admin server of the daemon [default: [admin] in the configuration, 127.0.0.1:8089]
      -c, --config <FILE>         The configuration [default: config.toml]
      -h, --help                  Print help (see more with '--help')

    Log:
          --log-level <FILTER>   What is logged: a level, or per module as in "info,informant_informer=debug" [env: INFORMANT_LOG] [default: info]
          --log-format <FORMAT>  How lines look [default: plain] [possible values: plain, json]
    "#);
}
