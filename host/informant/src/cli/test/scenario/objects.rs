//! Objects and references to objects.

use std::fmt;

use informant_config::{FilePosition, SourceFile};
use serde_json::Value;

use crate::cli::test::yaml::{Node, Reader, Yaml, documents};
use crate::recorded::reference;

/// An object as a scenario has it.
#[derive(Debug, Clone)]
pub(in crate::cli::test) struct Object {
    pub(in crate::cli::test) position: FilePosition,
    pub(in crate::cli::test) api_version: String,
    pub(in crate::cli::test) kind: String,
    pub(in crate::cli::test) namespace: Option<String>,
    pub(in crate::cli::test) name: String,
    pub(in crate::cli::test) value: Value,
}

/// `v1/pods shop/web-0`, `v1/nodes node-1`.
#[derive(Debug, Clone)]
pub(in crate::cli::test) struct Reference {
    pub(in crate::cli::test) position: FilePosition,
    pub(in crate::cli::test) resource: String,
    /// Empty for cluster-scoped objects.
    pub(in crate::cli::test) namespace: String,
    pub(in crate::cli::test) name: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&reference(&self.resource, &self.namespace, &self.name))
    }
}

/// One object, a list of objects, or a text with documents.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, what: &str) -> Vec<Object> {
    match &node.value {
        Yaml::List(nodes) => nodes.iter().filter_map(|node| object(reader, node, what)).collect(),
        Yaml::Text(text) => {
            let inner = SourceFile::new(reader.file.path(), text.as_str());
            match documents(&inner) {
                Ok(found) => {
                    // The positions are those of the text as a whole: it may be indented, folded or escaped.
                    let at = |found: Node| Node {
                        span: node.span.clone(),
                        ..found
                    };
                    found
                        .into_iter()
                        .filter_map(|found| object(reader, &at(found), what))
                        .collect()
                }
                Err(problem) => {
                    let (line, message) = (problem.position.map_or(1, |at| at.line), problem.message);
                    let help = "write the objects as YAML, separated by lines with `---`";
                    reader.refuse(node, format!("`{what}`, line {line} of the text: {message}"), help);
                    Vec::new()
                }
            }
        }
        _ => object(reader, node, what).into_iter().collect(),
    }
}

pub(super) fn object(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Object> {
    let value = node.to_json();
    let text = |pointer: &str| Some(value.pointer(pointer)?.as_str()?.to_owned());
    let required = ["/apiVersion", "/kind", "/metadata/name"];
    if let Some(missing) = required
        .into_iter()
        .find(|pointer| text(pointer).is_none_or(|text| text.is_empty()))
    {
        let missing = missing[1..].replace('/', ".");
        let help = "an object has at least apiVersion, kind and metadata.name, all of them texts";
        reader.refuse(node, format!("an object in `{what}` lacks `{missing}`"), help);
        return None;
    }
    Some(Object {
        position: reader.position(node),
        api_version: text(required[0])?,
        kind: text(required[1])?,
        name: text(required[2])?,
        namespace: text("/metadata/namespace"),
        value,
    })
}

pub(super) fn read_reference(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Reference> {
    let text = reader.text(node, what)?;
    let parsed = parse(text);
    if parsed.is_none() {
        let help = "write RESOURCE NAMESPACE/NAME, or RESOURCE NAME for a cluster-scoped object: v1/pods shop/web-0";
        reader.refuse(node, format!("`{what}`: \"{text}\" is not a reference"), help);
    }
    let (resource, namespace, name) = parsed?;
    Some(Reference {
        position: reader.position(node),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn parse(text: &str) -> Option<(&str, &str, &str)> {
    let (resource, key) = text.split_once(' ')?;
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let is_resource = (1..=2).contains(&resource.matches('/').count());
    let is_key = !name.is_empty() && !name.contains(['/', ' ']) && (!key.contains('/') || !namespace.is_empty());
    (is_resource && is_key).then_some((resource, namespace, name))
}
