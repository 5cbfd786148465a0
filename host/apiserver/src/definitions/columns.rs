//! The columns that a definition adds to its resource's table (`additionalPrinterColumns`).
//!
//! Source: apiextensions-apiserver `pkg/registry/customresource/tableconvertor`.

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::{Value, json};

/// Longest JSON path of a column, in bytes.
const PATH_BYTES_MAX: usize = 512;

/// How many brackets and parentheses a path may open: its parser recurses for each.
const PATH_BRACKETS_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct CustomColumn {
    pub(crate) name: String,
    pub(crate) type_: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    query: JpQuery,
}

impl CustomColumn {
    /// A column by its JSON path in Kubernetes' notation.
    ///
    /// # Errors
    /// The error of the path's parser.
    pub(super) fn new(column: &Value) -> Result<Self, String> {
        let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let brackets = path.matches(['[', '(', '!']).count();
        if path.len() > PATH_BYTES_MAX || brackets > PATH_BRACKETS_MAX {
            return Err(format!(
                "must have at most {PATH_BYTES_MAX} bytes and open at most {PATH_BRACKETS_MAX} brackets"
            ));
        }
        let query = parse_json_path(&rfc_9535(&path)).map_err(|error| error.to_string())?;
        let description = match text("description") {
            said if said.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {path}")
            }
            said => said,
        };
        Ok(Self {
            name: text("name"),
            type_: text("type"),
            format: text("format"),
            description,
            priority: column["priority"].as_i64().unwrap_or(0),
            query,
        })
    }

    /// The column of a resource whose definition has no columns.
    pub(super) fn age() -> Self {
        let column = json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" });
        Self::new(&column).expect("the path is well formed")
    }

    /// The cell of `object`; `since` formats how long ago a time was.
    pub(crate) fn cell(&self, object: &Value, since: impl Fn(&str) -> String) -> Value {
        let found = js_path_process(&self.query, object).unwrap_or_default();
        let Some(value) = found.into_iter().next().map(|found| found.val()) else {
            return Value::Null;
        };
        match (self.type_.as_str(), value) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(text)) => json!(text),
            ("string", other) => json!(other.to_string()),
            ("integer", Value::Number(number)) => match number.as_f64() {
                Some(float) if number.as_i64().is_none() => json!(float as i64),
                _ => json!(number),
            },
            ("number", Value::Number(number)) => json!(number),
            ("boolean", Value::Bool(flag)) => json!(flag),
            ("date", Value::String(time)) => json!(since(time)),
            _ => Value::Null,
        }
    }
}

/// Kubernetes' notation as RFC 9535's: a root, and names with escaped dots in brackets.
fn rfc_9535(path: &str) -> String {
    let mut out = String::from("$");
    let mut rest = path.trim();
    while !rest.is_empty() {
        // A name extends to the next dot or bracket that is not escaped.
        let name = rest.strip_prefix('.').filter(|rest| !rest.starts_with(['.', '[', '*']));
        let Some(name) = name else {
            let end = bracket_end(rest);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        };
        let end = name_end(name);
        let (name, after) = name.split_at(end);
        rest = after;
        if name.contains('\\') || name.contains('-') || name.contains('/') {
            out.push_str("['");
            out.push_str(&name.replace('\\', ""));
            out.push_str("']");
        } else if !name.is_empty() {
            out.push('.');
            out.push_str(name);
        }
    }
    out
}

fn name_end(name: &str) -> usize {
    let mut escaped = false;
    let end = name.find(|it: char| {
        let ends = !escaped && matches!(it, '.' | '[');
        escaped = !escaped && it == '\\';
        ends
    });
    end.unwrap_or(name.len())
}

/// The end of a bracket, wildcard or descent: after the closing bracket, at least one character later.
fn bracket_end(rest: &str) -> usize {
    if rest.starts_with('[') {
        let mut depth = 0_usize;
        for (index, it) in rest.char_indices() {
            match it {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        return rest.len();
    }
    if rest.starts_with("..") || rest.starts_with(".*") {
        return 2;
    }
    if rest.starts_with(".[") {
        // RFC 9535 has no dot before a bracket; the path is refused.
        return 1;
    }
    rest.chars().next().map_or(rest.len(), char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &Value) {
        let column = json!({ "name": "c", "type": "string", "jsonPath": path });
        let object = json!({
            "metadata": { "annotations": { "example.com/who": "me" } },
            "spec": { "replicas": 3, "host-name": "h" },
            "status": { "conditions": [{ "type": "A", "status": "False" }, { "type": "Ready", "status": "True" }] },
        });
        let column = CustomColumn::new(&column).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(column.cell(&object, str::to_owned), *expected, "{path}");
    }

    proptest::proptest! {
        /// Any text is a column or an error, and neither takes long.
        #[test]
        fn any_path_is_read_or_refused(path in "[.\\[\\]()?@!*'\\\\a-c\"=& ]{0,60}") {
            let column = json!({ "name": "c", "type": "string", "jsonPath": path });
            if let Ok(column) = CustomColumn::new(&column) {
                column.cell(&json!({ "a": [{ "b": 1 }], "b": null }), str::to_owned);
            }
        }
    }

    #[test]
    fn paths_that_would_take_the_stack_are_refused() {
        let column = json!({ "name": "c", "type": "string", "jsonPath": format!(".a[?({}", "(".repeat(400)) });
        assert!(CustomColumn::new(&column).is_err());
    }

    #[test]
    fn paths_lead_where_kubernetes_jsonpath_leads() {
        check(".spec.replicas", &json!("3"));
        check(".spec.absent.deeper", &Value::Null);
        check(".spec.host-name", &json!("h"));
        check(".status.conditions[0].status", &json!("False"));
        check(".status.conditions[?(@.type==\"Ready\")].status", &json!("True"));
        check(".status.conditions[*].type", &json!("A"));
        check(r".metadata.annotations.example\.com/who", &json!("me"));
        check(".metadata.annotations['example.com/who']", &json!("me"));
    }
}
