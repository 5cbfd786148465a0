//! `informant explain [CODE]`: prints a runbook, which is embedded in the program.

mod page;

use anyhow::Result;
use clap::Args;
use informant_spec::suggest::did_you_mean;

use super::table;
use super::{Exit, output};
use crate::logging;
use crate::runbooks::RUNBOOKS;

/// `informant explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The code of a problem, as in the log, `informant status` and alerts [default: list the codes]
    code: Option<String>,
}

pub(super) fn run(args: &ExplainArgs) -> Result<Exit> {
    let Some(code) = &args.code else {
        let rows = RUNBOOKS
            .iter()
            .map(|runbook| [runbook.code.to_owned(), runbook.summary().to_owned()]);
        output::to_stdout(|out| table::write(out, ["CODE", "PROBLEM"], rows))?;
        return Ok(Exit::Done);
    };
    match RUNBOOKS.iter().find(|runbook| runbook.code == code) {
        Some(runbook) => {
            let styles = logging::shows_styles(&std::io::stdout());
            output::own_text(&page::render(runbook.page, styles))?;
            Ok(Exit::Done)
        }
        None => {
            let codes: Vec<_> = RUNBOOKS.iter().map(|runbook| runbook.code).collect();
            let help = did_you_mean(code, &codes, "codes");
            output::note(&format!("error: there is no code `{code}`; {help}"));
            Ok(Exit::Failed)
        }
    }
}
