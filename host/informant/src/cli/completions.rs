//! `informant completions`: scripts for shells.

use std::io::{self, Write as _};

use anyhow::Result;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Exit, output};

/// `informant completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<Exit> {
    // Unescaped: it is Informant's own text, for a shell to read.
    output::ignore_broken_pipe(io::stdout().lock().write_all(&script(args.shell)))?;
    Ok(Exit::Done)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown_command(), "informant", &mut script);
    script
}

/// The command line without its hidden commands, which generators do not leave out.
fn shown_command() -> Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("informant")
        .args(all.get_arguments().cloned())
        .subcommands(shown.cloned().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_gets_commands_and_flags() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for word in ["informant", "requeue", "token-file", "show-kind"] {
                assert_eq!(script.contains(word), word != "show-kind", "{shell}: {word}");
            }
            assert!(
                !script.contains(crate::guests::COMPILE),
                "{shell}: the hidden command is completed"
            );
        }
    }
}
