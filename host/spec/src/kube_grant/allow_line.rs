//! Grants in the form of config.toml: the line to paste that messages contain.

use super::{InformerGrant, KubeGrant, KubeVerb, ResourceAttributes};

/// The complete line `allow.kube` that grants `grants`, `informers` and `more`.
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
///     allow_line(&[], &[], &[patch]),
///     r#"allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]"#
/// );
/// ```
#[must_use]
pub fn allow_line(grants: &[KubeGrant], informers: &[InformerGrant], more: &[KubeGrant]) -> String {
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
    let of_informers = informers.iter().map(of_informer);
    let all: Vec<String> = of_informers.chain(all.iter().map(of_resource)).collect();
    format!("allow.kube = [{}]", all.join(", "))
}

fn of_resource(grant: &KubeGrant) -> String {
    let mut keys = vec![verbs(&grant.verbs), format!("resource = \"{}\"", grant.resource)];
    keys.extend(grant.namespaces.as_deref().map(|words| key("namespaces", words)));
    keys.extend(grant.names.as_deref().map(|words| key("names", words)));
    keys.extend(subresources(&grant.subresources));
    inline_table(&keys)
}

fn of_informer(grant: &InformerGrant) -> String {
    let mut keys = vec![verbs(&grant.verbs), format!("informer = {:?}", grant.informer)];
    if !grant.exclude.is_empty() {
        let excluded: Vec<String> = grant.exclude.entries().map(|(text, _)| text).collect();
        keys.push(key("exclude", &excluded));
    }
    keys.extend(subresources(&grant.subresources));
    inline_table(&keys)
}

fn inline_table(keys: &[String]) -> String {
    format!("{{ {} }}", keys.join(", "))
}

fn verbs(verbs: &[KubeVerb]) -> String {
    let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
    key("verbs", &verbs)
}

fn subresources(subresources: &[String]) -> Option<String> {
    (!subresources.is_empty()).then(|| key("subresources", subresources))
}

/// A list of strings. Rust's escaping is enough for the contents of grants.
fn key(name: &str, words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{:?}", word.as_ref())).collect();
    format!("{name} = [{}]", words.join(", "))
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
