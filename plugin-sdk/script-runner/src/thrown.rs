//! Converts an exception of a script into a message for people and a failure for Informant.

use rquickjs::{CaughtError, Coerced, Ctx, Error, Exception, Function, Object, Value};

use crate::bindings::exports::informant::plugin::lifecycle::Failure;
use crate::bindings::informant::plugin::types::RetryLater;
use crate::location;

/// The maximum length of the text of a thrown value that is not an Error, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// An exception.
pub(crate) struct Thrown {
    /// Contains file, line and column if they are known.
    pub(crate) message: String,
    permanent: bool,
    retry_after_ms: Option<u32>,
}

impl Thrown {
    pub(crate) fn new(message: String) -> Thrown {
        Thrown {
            message,
            permanent: false,
            retry_after_ms: None,
        }
    }

    /// Takes the exception from the engine. `called` is the called function with its name.
    pub(crate) fn catch<'js>(
        ctx: &Ctx<'js>,
        error: Error,
        script: &str,
        called: Option<(&str, &Function<'js>)>,
    ) -> Thrown {
        let thrown = match CaughtError::from_error(ctx, error) {
            CaughtError::Exception(exception) => from_error(&exception, script),
            CaughtError::Value(value) => Thrown::new(describe_value(ctx, &value, script, called)),
            CaughtError::Error(Error::WouldBlock) => Thrown::new(format!(
                "{script}: {} waits for a promise that never settles: scripts have no timers and no I/O",
                called.map_or("the script", |(name, _)| name)
            )),
            CaughtError::Error(error) => Thrown::new(format!("{script}: {error}")),
        };
        // Discards an exception that a getter threw meanwhile.
        let _ = ctx.catch();
        thrown
    }

    pub(crate) fn into_failure(self) -> Failure {
        match self.retry_after_ms {
            _ if self.permanent => Failure::Permanent(self.message),
            Some(after_ms) => Failure::RetryAfter(RetryLater {
                message: self.message,
                after_ms,
            }),
            None => Failure::Retryable(self.message),
        }
    }
}

fn from_error(exception: &Exception<'_>, script: &str) -> Thrown {
    let object = exception.as_object();
    let stack = exception.stack().unwrap_or_default();
    let message = exception.message().unwrap_or_default();
    let message = if property::<bool>(object, "refuses") == Some(true) {
        format!("{script} {message}")
    } else {
        let name = property::<Coerced<String>>(object, "name").map_or_else(|| "Error".to_owned(), |name| name.0);
        let location = location::innermost(&stack, script).map(|location| format!(":{location}"));
        let hint = match message.starts_with("could not load module") {
            true => "; a script is one file: bundle what it imports (esbuild --bundle --format=esm)",
            false => "",
        };
        let functions = location::functions(&stack, script).map(|names| format!(" (in {names})"));
        format!(
            "{script}{}: {name}: {message}{hint}{}",
            location.unwrap_or_default(),
            functions.unwrap_or_default()
        )
    };
    Thrown {
        message,
        permanent: property(object, "permanent").unwrap_or(false),
        retry_after_ms: property::<f64>(object, "retryAfter").map(|milliseconds| milliseconds as u32),
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
