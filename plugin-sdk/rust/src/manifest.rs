//! The manifest: what a plugin wants to be told, and what it offers.
//!
//! It becomes a JSON document that Informant reads strictly. What is not said has the contract's default: a handler
//! that names no kinds is told about every object, whole.

use serde::{Serialize, Serializer};

#[cfg(not(target_arch = "wasm32"))]
mod choice;
mod need;

pub use need::{KubeNeed, Need, Verb};

/// Who a plugin is: the crate that calls [`export!`](crate::export!), which implements this.
pub trait Named {
    /// The crate's name.
    const NAME: &'static str;
    /// The crate's version.
    const VERSION: &'static str;
}

/// What a plugin wants and offers. Its name and version are those of its crate.
///
/// ```
/// # use informant_plugin_sdk::{Events, Manifest};
/// let manifest = Manifest::new().events(Events::of("v1", "Pod").fields(["/status/containerStatuses/*/restartCount"]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Manifest {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<Events>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indexes: Option<Indexes>,
    needs: Vec<Need>,
}

impl Manifest {
    /// A manifest that asks for nothing in particular: a handler is told about every object, whole.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to be told about these objects too. Of several that fit an object, the one that names most of its type
    /// counts.
    #[must_use]
    pub fn events(mut self, events: Events) -> Self {
        self.events.push(events);
        self
    }

    /// Offers an index of that name over the informers of the plugin's section; of every object, whole, unless
    /// [`indexed`](Self::indexed) says otherwise.
    #[must_use]
    pub fn index(mut self, name: impl Into<String>) -> Self {
        self.indexes.get_or_insert_default().names.push(name.into());
        self
    }

    /// Asks for these objects to be handed to the index functions.
    #[must_use]
    pub fn indexed(mut self, objects: Objects) -> Self {
        self.indexes.get_or_insert_default().objects.push(objects);
        self
    }

    /// Says that the plugin cannot do without this: `Need::kube([Verb::Patch], "v1/pods")`. Where config.toml does not
    /// grant it, the plugin is not loaded, and the message is the line to paste.
    #[must_use]
    pub fn needs(mut self, need: impl Into<Need>) -> Self {
        self.needs.push(need.into());
        self
    }

    /// The document, for the plugin `P`.
    pub(crate) fn to_json<P: Named>(&self) -> Vec<u8> {
        let document = Document {
            name: P::NAME,
            version: P::VERSION,
            manifest: self,
        };
        serde_json::to_vec(&document).expect("a manifest is strings, lists and flags")
    }
}

#[derive(Serialize)]
struct Document<'a> {
    name: &'static str,
    version: &'static str,
    #[serde(flatten)]
    manifest: &'a Manifest,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Indexes {
    names: Vec<String>,
    #[serde(serialize_with = "or_all")]
    objects: Vec<Objects>,
}

/// The contract wants the objects of indexes named.
fn or_all<S: Serializer>(objects: &Vec<Objects>, serializer: S) -> Result<S::Ok, S::Error> {
    if objects.is_empty() {
        [Objects::of("*", "*")].serialize(serializer)
    } else {
        objects.serialize(serializer)
    }
}

/// How much of an object is handed over. Always a JSON document of the object's own shape with apiVersion and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PayloadKind {
    /// All of it, but for what the informer drops.
    #[default]
    Whole,
    /// `metadata` alone.
    Metadata,
    /// What these JSON pointers name, `*` for every element of a list or every value of a map. What is absent is left
    /// out.
    Fields(Vec<String>),
}

/// Which objects a handler is told about, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Events {
    api_version: String,
    kind: String,
    payload: PayloadKind,
    old: bool,
    #[serde(rename = "changed-only")]
    changed_only: bool,
}

impl Events {
    /// Objects of one apiVersion (`v1`, `apps/v1`) and kind; `*` stands for any.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        let (api_version, kind) = (api_version.into(), kind.into());
        Self {
            api_version,
            kind,
            payload: PayloadKind::Whole,
            old: false,
            changed_only: false,
        }
    }

    /// Every object.
    pub fn all() -> Self {
        Self::of("*", "*")
    }

    /// Hand over `metadata` alone.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.payload = PayloadKind::Metadata;
        self
    }

    /// Hand over what these JSON pointers name: less to copy and to parse. See [`PayloadKind::Fields`].
    #[must_use]
    pub fn fields<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.payload = PayloadKind::Fields(pointers.into_iter().map(Into::into).collect());
        self
    }

    /// Hand over the old state with an update. Costs as much again per call.
    #[must_use]
    pub fn with_old(mut self) -> Self {
        self.old = true;
        self
    }

    /// Leave out updates after which the payload is byte for byte what it was.
    #[must_use]
    pub fn changed_only(mut self) -> Self {
        self.changed_only = true;
        self
    }
}

/// Which objects the index functions are handed, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Objects {
    api_version: String,
    kind: String,
    payload: PayloadKind,
}

impl Objects {
    /// Objects of one apiVersion (`v1`, `apps/v1`) and kind; `*` stands for any.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            payload: PayloadKind::Whole,
        }
    }

    /// Hand over `metadata` alone.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.payload = PayloadKind::Metadata;
        self
    }

    /// Hand over what these JSON pointers name. See [`PayloadKind::Fields`].
    #[must_use]
    pub fn fields<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.payload = PayloadKind::Fields(pointers.into_iter().map(Into::into).collect());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tested;

    impl Named for Tested {
        const NAME: &'static str = "tested";
        const VERSION: &'static str = "1.2.3";
    }

    fn json(manifest: &Manifest) -> serde_json::Value {
        serde_json::from_slice(&manifest.to_json::<Tested>()).expect("it is JSON")
    }

    #[test]
    fn what_is_not_said_is_left_to_the_contract() {
        let expected = serde_json::json!({ "name": "tested", "version": "1.2.3", "needs": [] });
        assert_eq!(json(&Manifest::new()), expected);
    }

    #[test]
    fn needs_are_written_as_the_contract_says() {
        let manifest = Manifest::new()
            .needs(Need::kube([Verb::Get, Verb::Patch], "v1/pods"))
            .needs(
                Need::kube([Verb::Update], "v1/pods")
                    .namespace("web")
                    .name("a")
                    .subresource("status"),
            );
        let expected = serde_json::json!([
            { "kube": { "verbs": ["get", "patch"], "resource": "v1/pods" } },
            { "kube": { "verbs": ["update"], "resource": "v1/pods", "namespaces": ["web"], "names": ["a"], "subresources": ["status"] } },
        ]);
        assert_eq!(json(&manifest)["needs"], expected);
    }

    #[test]
    fn an_index_of_nothing_in_particular_is_of_everything() {
        let indexes = &json(&Manifest::new().index("name"))["indexes"];
        let all = serde_json::json!([{ "apiVersion": "*", "kind": "*", "payload": "whole" }]);
        assert_eq!(indexes["objects"], all);
    }

    #[test]
    fn the_document_is_what_the_contract_says() {
        let manifest = Manifest::new()
            .events(Events::of("v1", "Pod").fields(["/spec/nodeName"]).with_old())
            .events(Events::of("apps/v1", "*").metadata().changed_only())
            .events(Events::all())
            .index("image")
            .indexed(Objects::of("v1", "Pod").fields(["/spec/containers/*/image"]));
        let event = |api_version, kind, payload: serde_json::Value, old, changed_only| {
            serde_json::json!({
                "apiVersion": api_version, "kind": kind, "payload": payload, "old": old, "changed-only": changed_only,
            })
        };
        assert_eq!(
            json(&manifest),
            serde_json::json!({
                "name": "tested",
                "version": "1.2.3",
                "events": [
                    event("v1", "Pod", serde_json::json!({ "fields": ["/spec/nodeName"] }), true, false),
                    event("apps/v1", "*", "metadata".into(), false, true),
                    event("*", "*", "whole".into(), false, false),
                ],
                "indexes": {
                    "names": ["image"],
                    "objects": [{ "apiVersion": "v1", "kind": "Pod", "payload": { "fields": ["/spec/containers/*/image"] } }],
                },
                "needs": [],
            })
        );
    }
}
