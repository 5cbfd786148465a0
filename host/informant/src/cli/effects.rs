//! `informant plugin effects`: what a plugin in dry run would have done.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;

use super::client::AdminArgs;
use super::plugin::{Format, path};
use super::{Exit, in_cluster, output, table};
use crate::admin::{EffectView, EffectsView};

/// `informant plugin effects`.
#[derive(Debug, Args)]
pub(super) struct EffectsArgs {
    /// Plugin name, as in the configuration
    name: String,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn run(args: &EffectsArgs) -> Result<Exit> {
    let path = path(&args.name, "effects");
    args.admin.with_client(async |client| {
        let effects: EffectsView = client.read(&path).await?;
        client.note_part();
        match args.output {
            Format::Json => output::json(&effects)?,
            Format::Table => {
                output::to_stdout(|out| show(out, &effects))?;
                notes(&args.name, &effects).iter().for_each(|note| output::note(note));
            }
        }
        Ok(Exit::Done)
    })
}

fn show(out: &mut dyn Write, effects: &EffectsView) -> io::Result<()> {
    let headings = ["AGE", "KIND", "ACTION", "TARGET", "DETAIL"];
    table::write(out, headings, effects.items.iter().map(row))
}

fn row(effect: &EffectView) -> [String; 5] {
    let target = effect.target.clone() + &in_cluster(&effect.cluster);
    let detail = match (&effect.error, effect.detail.as_str()) {
        (Some(error), _) => format!("would fail: {error}"),
        (None, "") => table::DASH.to_owned(),
        (None, detail) => detail.to_owned(),
    };
    [
        table::ago(effect.age_ms),
        effect.kind.clone(),
        effect.action.clone(),
        target,
        detail,
    ]
}

/// What the table does not say.
fn notes(name: &str, effects: &EffectsView) -> Vec<String> {
    let mut notes = Vec::new();
    match (effects.dry_run, effects.items.is_empty()) {
        (true, true) => notes.push(format!("plugin/{name} is in dry run and has had no effects")),
        (true, false) => {}
        (false, true) => notes.push(format!(
            "plugin/{name} is not in dry run: set `dry-run = true` in [plugin.{name}]"
        )),
        (false, false) => notes.push(format!(
            "plugin/{name} is no longer in dry run: these are the effects of the last one"
        )),
    }
    if effects.dropped > 0 {
        notes.push(format!("{} older effects are no longer listed", effects.dropped));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(kind: &str, action: &str, target: &str, detail: &str) -> EffectView {
        EffectView {
            kind: kind.to_owned(),
            action: action.to_owned(),
            target: target.to_owned(),
            detail: detail.to_owned(),
            age_ms: 61_000,
            ..EffectView::default()
        }
    }

    #[test]
    fn effects_are_listed_with_what_was_withheld() {
        let failed = EffectView {
            cluster: "east".to_owned(),
            error: Some("conflict".to_owned()),
            ..effect("kube", "update", "v1/pods web/a", "{}")
        };
        let effects = EffectsView {
            dry_run: true,
            dropped: 3,
            items: vec![
                effect("kube", "patch", "v1/pods web/a", r#"{"a":1}"#),
                failed,
                effect("kv", "delete", "seen", ""),
            ],
        };
        let mut out = Vec::new();
        show(&mut out, &effects).unwrap();
        let text = String::from_utf8(out).unwrap();
        insta::assert_snapshot!(text + &notes("greeter", &effects).join("\n"), @r#"
        AGE   KIND   ACTION   TARGET                          DETAIL
        61s   kube   patch    v1/pods web/a                   {"a":1}
        61s   kube   update   v1/pods web/a in cluster east   would fail: conflict
        61s   kv     delete   seen                            -
        3 older effects are no longer listed
        "#);
        let none = EffectsView::default();
        insta::assert_snapshot!(notes("greeter", &none).join("\n"), @"plugin/greeter is not in dry run: set `dry-run = true` in [plugin.greeter]");
    }
}
