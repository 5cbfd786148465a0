//! Grants in the form of config.toml: the line to paste that messages contain.

use super::{KubeGrant, ResourceAttributes};

/// The complete line `allow.kube` that grants `grants` and `more`.
///
/// ```
/// use informant_spec::{KubeGrant, KubeResource, KubeVerb, allow_line};
///
/// let patch = KubeGrant {
///     verbs: vec![KubeVerb::Patch],
///     resource: KubeResource::parse("v1/pods").unwrap(),
///     namespaces: None,
///     names: None,
///     subresources: Vec::new(),
/// };
/// assert_eq!(
///     allow_line(&[], &[patch]),
///     r#"allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]"#
/// );
/// ```
#[must_use]
pub fn allow_line(grants: &[KubeGrant], more: &[KubeGrant]) -> String {
    let mut all = grants.to_vec();
    for new in more {
        match all.iter_mut().find(|grant| grant.has_scope_of(new)) {
            Some(grant) => {
                let missing = new.verbs.iter().filter(|verb| !grant.verbs.contains(verb));
                let missing: Vec<_> = missing.copied().collect();
                grant.verbs.extend(missing);
            }
            None => all.push(new.clone()),
        }
    }
    let all: Vec<String> = all.iter().map(inline_table).collect();
    format!("allow.kube = [{}]", all.join(", "))
}

fn inline_table(grant: &KubeGrant) -> String {
    let verbs: Vec<&str> = grant.verbs.iter().map(|verb| verb.as_str()).collect();
    let mut keys = vec![
        format!("verbs = {}", list(&verbs)),
        format!("resource = \"{}\"", grant.resource),
    ];
    keys.extend(
        grant
            .namespaces
            .as_ref()
            .map(|words| format!("namespaces = {}", list(words))),
    );
    keys.extend(grant.names.as_ref().map(|words| format!("names = {}", list(words))));
    if !grant.subresources.is_empty() {
        keys.push(format!("subresources = {}", list(&grant.subresources)));
    }
    format!("{{ {} }}", keys.join(", "))
}

/// A list of strings. Rust's escaping is enough for the contents of grants.
fn list(words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{:?}", word.as_ref())).collect();
    format!("[{}]", words.join(", "))
}

impl ResourceAttributes<'_> {
    /// The grant to suggest: of this namespace, but of any name.
    pub fn suggested_grant(&self) -> KubeGrant {
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        KubeGrant {
            verbs: vec![self.verb],
            resource: self.resource.clone(),
            namespaces: some(self.namespace).map(|namespace| vec![namespace]),
            names: None,
            subresources: some(self.subresource).into_iter().collect(),
        }
    }
}
