//! `-o jsonpath=TEMPLATE`: text with expressions in braces, as kubectl has it.
//!
//! ```text
//! {range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}
//! ```
//! Source: client-go `util/jsonpath`, kubectl reference "JSONPath Support". A path without a value prints nothing.

use informant_apiserver::json_path::JsonPath;
use serde_json::Value;

/// How deep loops may be nested.
const LOOPS_MAX: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Template {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    Text(String),
    Values(Path),
    /// `{range PATH}…{end}`.
    Range(Path, Vec<Node>),
}

/// A path from the current value, or from the root.
#[derive(Debug, Clone)]
struct Path {
    path: JsonPath,
    from_root: bool,
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // Without braces, all of it is one path.
        if !text.contains('{') {
            let nodes = vec![Node::Values(Path::parse(text)?)];
            return Ok(Self { nodes });
        }
        let mut rest = text;
        let nodes = nodes(&mut rest, 0)?;
        Ok(Self { nodes })
    }

    /// The text for `root`.
    pub(super) fn render(&self, root: &Value) -> String {
        let mut out = String::new();
        render(&self.nodes, root, root, &mut out);
        out
    }
}

impl Path {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let path = match text.starts_with(['.', '[', '$', '@']) {
            true => JsonPath::parse(text),
            // kubectl accepts a name without a dot.
            false => JsonPath::parse(&format!(".{text}")),
        };
        Ok(Self {
            path: path.map_err(|error| format!("{{{text}}}: {error}"))?,
            from_root: text.starts_with('$'),
        })
    }
}

/// Reads nodes up to the end of the text, or of a loop if `depth` is not 0.
fn nodes(rest: &mut &str, depth: usize) -> Result<Vec<Node>, String> {
    let mut found = Vec::new();
    loop {
        let Some((text, after)) = rest.split_once('{') else {
            if depth > 0 {
                return Err("{range} has no {end}".to_owned());
            }
            found.push(Node::Text(rest.to_owned()));
            *rest = "";
            return Ok(found);
        };
        found.push(Node::Text(text.to_owned()));
        let end = expression_end(after).ok_or_else(|| format!("{{{after} has no closing brace"))?;
        let expression = after[..end].trim();
        *rest = &after[end + 1..];
        if expression == "end" {
            return match depth {
                0 => Err("{end} has no {range}".to_owned()),
                _ => Ok(found),
            };
        }
        if let Some(path) = expression.strip_prefix("range ") {
            if depth == LOOPS_MAX {
                return Err(format!("{{range}} is nested more than {LOOPS_MAX} times"));
            }
            let path = Path::parse(path)?;
            found.push(Node::Range(path, nodes(rest, depth + 1)?));
        } else if expression.starts_with(['"', '\'']) {
            found.push(Node::Text(quoted(expression)?));
        } else {
            found.push(Node::Values(Path::parse(expression)?));
        }
    }
}

/// The closing brace of an expression that begins `text`; braces in quotes do not count.
fn expression_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, char) in text.char_indices() {
        match (quote, char) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), _) if open == char => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}

/// The text between quotes.
fn quoted(expression: &str) -> Result<String, String> {
    let quote = &expression[..1];
    let inner = expression[1..].strip_suffix(quote);
    let inner = inner.ok_or_else(|| format!("{expression} has no closing quote"))?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => return Err(format!("{expression} ends with a backslash")),
            },
            char => out.push(char),
        }
    }
    Ok(out)
}

fn render(nodes: &[Node], root: &Value, current: &Value, out: &mut String) {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Values(path) => {
                for (number, value) in path.find(root, current).into_iter().enumerate() {
                    if number > 0 {
                        out.push(' ');
                    }
                    out.push_str(&text_of(value));
                }
            }
            Node::Range(path, inner) => {
                for value in path.find(root, current) {
                    render(inner, root, value, out);
                }
            }
        }
    }
}

impl Path {
    fn find<'v>(&self, root: &'v Value, current: &'v Value) -> Vec<&'v Value> {
        self.path.find(if self.from_root { root } else { current })
    }
}

/// A text without quotes, everything else as JSON.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: &str) -> String {
        let list = json!({ "kind": "List", "items": [
            { "metadata": { "name": "a", "labels": { "example.com/app": "web" } }, "status": { "phase": "Running" }, "n": 1 },
            { "metadata": { "name": "b" }, "status": { "phase": "Pending" }, "n": 2, "list": [{ "x": 1 }] },
        ] });
        Template::parse(template).map_or_else(|error| format!("error: {error}"), |found| found.render(&list))
    }

    #[test]
    fn templates_print_what_kubectl_prints() {
        for (template, text) in [
            ("{.items[*].metadata.name}", "a b"),
            (".items[0].metadata.name", "a"),
            ("{items[1].status.phase}", "Pending"),
            ("{.items[-1:].metadata.name}", "b"),
            (
                "{range .items[*]}{.metadata.name}={.status.phase}{\"\\n\"}{end}",
                "a=Running\nb=Pending\n",
            ),
            ("{.items[?(@.status.phase==\"Running\")].metadata.name}", "a"),
            ("{.items[?(@.n>1)].metadata.name}", "b"),
            (r"{.items[0].metadata.labels.example\.com/app}", "web"),
            ("{.items[0].metadata.labels['example.com/app']}", "web"),
            ("{range .items[*]}[{$.kind}{'}'}]{end}", "[List}][List}]"),
            ("{.items[1].list}", "[{\"x\":1}]"),
            ("a{.none}b", "ab"),
            ("{range .items[*]}{range .list[*]}{.x};{end}{end}", "1;"),
            ("{..name}", "a b"),
            ("{@.kind}", "List"),
        ] {
            assert_eq!(rendered(template), text, "{template}");
        }
    }

    #[test]
    fn errors_name_the_expression() {
        insta::assert_snapshot!(rendered("{.items"), @"error: {.items has no closing brace");
        insta::assert_snapshot!(rendered("{range .items[*]}x"), @"error: {range} has no {end}");
        insta::assert_snapshot!(rendered("x{end}"), @"error: {end} has no {range}");
        insta::assert_snapshot!(rendered("{\"x}"), @r#"error: {"x} has no closing brace"#);
        assert!(rendered("{.items[}").starts_with("error: {.items[}: "));
        assert!(Template::parse(&"{range .a}".repeat(40)).is_err());
    }
}
