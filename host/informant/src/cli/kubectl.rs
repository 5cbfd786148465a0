//! The program as a kubectl plugin: called as `kubectl-informant`, which is what `kubectl informant` runs.
//!
//! It is the same command line, but commands that talk to the daemon open a port-forward to its pod unless a flag names
//! an admin server, and help shows what you type.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;

use super::client::NAMESPACE_DEFAULT;

/// The file name that makes the program a kubectl plugin.
const PLUGIN: &str = "kubectl-informant";

/// How the plugin is called.
pub(super) const CALLED: &str = "kubectl informant";

/// The flag for the namespace of Informant's pod.
const POD_NAMESPACE: &str = "informant_namespace";

/// Whether `program`, the first argument of the process, is the plugin.
pub(super) fn is_plugin(program: Option<&OsString>) -> bool {
    program.and_then(|program| Path::new(program).file_stem()) == Some(PLUGIN.as_ref())
}

pub(super) fn plugin(command: Command) -> Command {
    with_port_forward(command.name(PLUGIN).bin_name(CALLED))
}

/// Lets every command that can open a port-forward do so by default. `-n` selects Informant's namespace where it does
/// not select the objects'.
fn with_port_forward(mut command: Command) -> Command {
    let has = |command: &Command, id: &str| command.get_arguments().any(|argument| argument.get_id() == id);
    if has(&command, POD_NAMESPACE) {
        let is_free = !has(&command, "namespace");
        command = command.mut_arg(POD_NAMESPACE, |argument| {
            let argument = argument.help(HELP).default_value(NAMESPACE_DEFAULT);
            match is_free {
                true => argument.short('n').visible_alias("namespace"),
                false => argument,
            }
        });
    }
    let names: Vec<_> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, with_port_forward))
}

const HELP: &str = "Namespace of Informant's pod: the Ready one with the label app.kubernetes.io/name=informant";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::{Cli, tests::help_of};
    use super::*;

    #[test]
    fn file_name_decides_whether_the_program_is_a_plugin() {
        let is = |program: &str| is_plugin(Some(&program.into()));
        assert!(is("kubectl-informant") && is("/usr/bin/kubectl-informant") && is("kubectl-informant.exe"));
        assert!(!is("informant") && !is("kubectl-informant-x") && !is("/kubectl-informant/informant"));
        assert!(!is_plugin(None));
    }

    #[test]
    fn plugin_is_consistent() {
        plugin(Cli::command()).debug_assert();
    }

    #[test]
    fn plugin_help_shows_what_is_typed() {
        let help = help_of(plugin(Cli::command()), &[]);
        let usage = help.lines().find(|line| line.starts_with("Usage: "));
        assert_eq!(usage, Some("Usage: kubectl informant [OPTIONS] <COMMAND>"));
        insta::assert_snapshot!(help_of(plugin(Cli::command()), &["status"]), @r"
        Show the status of a running `informant run`: configuration, informers, plugins

        Usage: kubectl informant status [OPTIONS]

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
          -n, --informant-namespace <NAMESPACE>
                  Namespace of Informant's pod: the Ready one with the label app.kubernetes.io/name=informant [default: informant] [alias: --namespace]
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
        let of_get = help_of(plugin(Cli::command()), &["get"]);
        let lines = of_get.lines().filter(|line| line.contains("<NAMESPACE>"));
        let lines: Vec<_> = lines.map(str::trim).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        -n, --namespace <NAMESPACE>
        --informant-namespace <NAMESPACE>
        ");
    }
}
