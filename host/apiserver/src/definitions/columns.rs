//! The columns that a definition adds to its resource's table (`additionalPrinterColumns`).
//!
//! Source: apiextensions-apiserver `pkg/registry/customresource/tableconvertor`.

use serde_json::{Value, json};

use crate::json_path::JsonPath;

#[derive(Debug)]
pub(crate) struct CustomColumn {
    pub(crate) name: String,
    pub(crate) type_: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    path: JsonPath,
}

impl CustomColumn {
    /// A column by its JSON path in Kubernetes' notation.
    ///
    /// # Errors
    /// The error of the path's parser.
    pub(super) fn new(column: &Value) -> Result<Self, String> {
        let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
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
            path: JsonPath::parse(&path)?,
        })
    }

    /// The column of a resource whose definition has no columns.
    pub(super) fn age() -> Self {
        let column = json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" });
        Self::new(&column).expect("the path is well formed")
    }

    /// The cell of `object`; `since` formats how long ago a time was.
    pub(crate) fn cell(&self, object: &Value, since: impl Fn(&str) -> String) -> Value {
        let Some(value) = self.path.find(object).into_iter().next() else {
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
