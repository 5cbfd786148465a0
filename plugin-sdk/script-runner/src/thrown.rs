//! Converts an exception of a script into a message for people and a failure for Informant.

use rquickjs::{CaughtError, Coerced, Ctx, Error, Exception, Function, Object, Value};

use crate::bindings::exports::informant::plugin::lifecycle::Failure;
use crate::bindings::informant::plugin::types::RetryLater;
use crate::location;
use crate::prelude::{MODULE, Prelude};

/// The maximum length of the text of a thrown value that is not an Error, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// The beginnings of the engine's messages about an import.
const NO_MODULE: &str = "Error resolving module '";
const NO_EXPORT: &str = "Could not find export '";

/// A script's file.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    /// After the script is loaded, errors are located by the engine alone.
    pub(crate) fn without_text(&self) -> Source {
        Source {
            name: self.name.clone(),
            text: String::new(),
        }
    }
}

/// An exception.
pub(crate) struct Thrown {
    /// Contains file, line and column if they are known.
    pub(crate) message: String,
    consequence: Consequence,
}

/// What Informant does about it.
#[derive(Clone, Copy, Default)]
enum Consequence {
    /// Retries with back-off.
    #[default]
    Retry,
    /// Retries after this time.
    RetryAfter { milliseconds: u32 },
    /// Does not retry.
    GiveUp,
}

impl Thrown {
    pub(crate) fn new(message: String) -> Thrown {
        Thrown {
            message,
            consequence: Consequence::default(),
        }
    }

    /// Takes the exception from the engine. `called` is the called function with its name.
    pub(crate) fn catch<'js>(
        ctx: &Ctx<'js>,
        error: Error,
        source: &Source,
        prelude: Option<&Prelude>,
        called: Option<(&str, &Function<'js>)>,
    ) -> Thrown {
        let script = &source.name;
        let thrown = match CaughtError::from_error(ctx, error) {
            CaughtError::Exception(exception) => from_error(&exception, source, prelude),
            CaughtError::Value(value) => Thrown::new(describe_value(ctx, &value, script, called)),
            CaughtError::Error(Error::WouldBlock) => Thrown::new(format!(
                "{script}: {} waits for a promise that never settles: a script cannot wait by itself; use `timers` of the \
                 manifest, or return {{ requeueAfter }}",
                called.map_or("the script", |(name, _)| name)
            )),
            CaughtError::Error(error) => Thrown::new(format!("{script}: {error}")),
        };
        // Discards an exception that a getter threw meanwhile.
        let _ = ctx.catch();
        thrown
    }

    pub(crate) fn into_failure(self) -> Failure {
        match self.consequence {
            Consequence::GiveUp => Failure::Permanent(self.message),
            Consequence::RetryAfter { milliseconds } => Failure::RetryAfter(RetryLater {
                message: self.message,
                after_ms: milliseconds,
            }),
            Consequence::Retry => Failure::Retryable(self.message),
        }
    }
}

fn from_error(exception: &Exception<'_>, source: &Source, prelude: Option<&Prelude>) -> Thrown {
    let (object, script) = (exception.as_object(), &source.name);
    let message = exception.message().unwrap_or_default();
    let message = if property::<bool>(object, "refuses") == Some(true) {
        format!("{script} {message}")
    } else if let Some(message) = import_problem(object.ctx(), &message, source, prelude) {
        message
    } else {
        let stack = exception.stack().unwrap_or_default();
        let name = property::<Coerced<String>>(object, "name").map_or_else(|| "Error".to_owned(), |name| name.0);
        let location = location::innermost(&stack, script).map(|location| format!(":{location}"));
        let functions = location::functions(&stack, script).map(|names| format!(" (in {names})"));
        format!(
            "{script}{}: {name}: {message}{}",
            location.unwrap_or_default(),
            functions.unwrap_or_default()
        )
    };
    Thrown {
        message,
        consequence: prelude.map_or_else(Consequence::default, |prelude| consequence(object, prelude)),
    }
}

/// What is wrong with an import, if `message` of the engine is about one.
fn import_problem(ctx: &Ctx<'_>, message: &str, source: &Source, prelude: Option<&Prelude>) -> Option<String> {
    let script = &source.name;
    let unresolved = message.strip_prefix(NO_MODULE);
    if let Some((module, _script)) = unresolved.and_then(|rest| rest.rsplit_once("' from '")) {
        let line = line_of_import(&source.text, module);
        let stem = script.rsplit_once('.').map_or(script.as_str(), |(stem, _)| stem);
        return Some(format!(
            "{script}{line} imports \"{module}\", but a script is one file: bundle it with what it imports \
             (informant plugin build {script} --output {stem}-bundle.js), or import only \"{MODULE}\""
        ));
    }
    let (export, module) = message.strip_prefix(NO_EXPORT)?.split_once("' in module '")?;
    let prelude = prelude.filter(|_| module.trim_end_matches('\'') == MODULE)?;
    let suggestion = prelude.suggestion.clone().restore(ctx).ok()?;
    let is_typed = [".ts", ".mts"].iter().any(|suffix| script.ends_with(suffix));
    let hint = match suggestion.call::<_, Option<String>>((export, prelude.names.clone())) {
        // Types are written like this, and a script sees none of them.
        _ if is_typed && export.starts_with(|first: char| first.is_ascii_uppercase()) => {
            format!("if it is a type, write `type {export}`")
        }
        Ok(Some(meant)) => format!("did you mean {meant}?"),
        _ => format!("it exports {}", prelude.names.join(", ")),
    };
    let line = line_of_import(&source.text, MODULE);
    Some(format!(
        "{script}{line} imports {export} from \"{MODULE}\", which does not export it; {hint}"
    ))
}

/// `:LINE` of the first import of `module` in `text`. The engine does not say it.
fn line_of_import(text: &str, module: &str) -> String {
    let names_it = |line: &str| {
        let is_import = line.contains("import") || line.contains("from");
        is_import
            && ['"', '\'']
                .iter()
                .any(|quote| line.contains(&format!("{module}{quote}")))
    };
    let line = text.lines().position(names_it);
    line.map_or_else(String::new, |line| format!(":{}", line + 1))
}

/// What follows from the Error `object`, as the prelude says.
fn consequence(object: &Object<'_>, prelude: &Prelude) -> Consequence {
    let found = prelude
        .consequence
        .clone()
        .restore(object.ctx())
        .and_then(|function| function.call::<_, Value<'_>>((object.clone(),)));
    match found {
        Ok(found) if found.is_string() => Consequence::GiveUp,
        Ok(found) => found
            .as_number()
            .map_or_else(Consequence::default, |milliseconds| Consequence::RetryAfter {
                milliseconds: milliseconds as u32,
            }),
        Err(_) => Consequence::default(),
    }
}

fn describe_value<'js>(
    ctx: &Ctx<'js>,
    value: &Value<'js>,
    script: &str,
    called: Option<(&str, &Function<'js>)>,
) -> String {
    let json = ctx.json_stringify(value.clone()).ok().flatten();
    let json = json.and_then(|text| text.to_string().ok());
    let mut shown = json.unwrap_or_else(|| match value.is_undefined() {
        true => "undefined".to_owned(),
        false => format!("a value of type {}", value.type_name()),
    });
    if let Some((end, _)) = shown.char_indices().nth(SHOWN_CHARS_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    // QuickJS records where an Error is created, not where a value is thrown: the called function is the best location.
    let location = called.and_then(|(_, function)| {
        let number = |key| property::<u32>(function, key);
        Some(format!(":{}:{}", number("lineNumber")?, number("columnNumber")?))
    });
    let thrower = called.map_or("the script", |(name, _)| name);
    format!(
        "{script}{}: {thrower} threw {shown}, which is not an Error and has no location; write throw new Error(…)",
        location.unwrap_or_default()
    )
}

fn property<'js, T: rquickjs::FromJs<'js>>(object: &Object<'js>, key: &str) -> Option<T> {
    object.get::<_, Option<T>>(key).ok().flatten()
}
