//! Paths in Kubernetes' JSONPath notation: `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Source: client-go `util/jsonpath`. Evaluated as RFC 9535 does.

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// Longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 512;

/// How many brackets and parentheses a path may open: its parser recurses for each.
pub const PATH_BRACKETS_MAX: usize = 16;

/// A path to values in an object.
#[derive(Clone, Debug)]
pub struct JsonPath(JpQuery);

impl JsonPath {
    /// Reads a path: `.metadata.name`, also with the root before it (`$.metadata.name`, `@.metadata.name`).
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(path: &str) -> Result<Self, String> {
        let brackets = path.matches(['[', '(', '!']).count();
        if path.len() > PATH_BYTES_MAX || brackets > PATH_BRACKETS_MAX {
            return Err(format!(
                "must have at most {PATH_BYTES_MAX} bytes and open at most {PATH_BRACKETS_MAX} brackets"
            ));
        }
        let path = path.trim();
        let path = path.strip_prefix(['$', '@']).unwrap_or(path);
        let query = parse_json_path(&rfc_9535(path)).map_err(|error| error.to_string())?;
        Ok(Self(query))
    }

    /// The values that the path leads to.
    #[must_use]
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let found = js_path_process(&self.0, value).unwrap_or_default();
        found.into_iter().map(|found| found.val()).collect()
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
