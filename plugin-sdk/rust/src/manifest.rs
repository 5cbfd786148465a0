//! The manifest: which events a plugin receives, when it is called without one, which indexes it offers, and which
//! permissions it needs.
//!
//! It is sent to Informant as a JSON document, in which unknown keys are an error. Members that are left out have the
//! contract's defaults: a handler without event rules receives every object, whole. A member at its default is left
//! out, so that a plugin that does not use what a later contract adds works with an earlier Informant, too.

use serde::{Serialize, Serializer};

use crate::failure::{Failure, Result};
use crate::projection::Kind;

#[cfg(not(target_arch = "wasm32"))]
mod matching;
mod metric;
mod need;
mod reconciles;
mod timer;

pub use metric::Metric;
pub use need::{KubeNeed, Need, Verb};
pub use reconciles::{Reconciles, Related};
pub use timer::Timer;

/// The name and version of the crate that calls [`export!`](crate::export!), which implements this trait.
pub trait Named {
    /// The crate's name.
    const NAME: &'static str;
    /// The crate's version.
    const VERSION: &'static str;
}

/// What a plugin receives, offers and needs. Its name and version are those of its crate.
///
/// ```
/// # use informant_plugin_sdk::{Events, Manifest};
/// let manifest = Manifest::new().events(Events::of("v1", "Pod").fields(["/status/containerStatuses/*/restartCount"]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Manifest {
    #[serde(skip_serializing_if = "Events::are_default")]
    events: Vec<Events>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reconciler: Option<Reconciles>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timers: Vec<Timer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indexes: Option<Indexes>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs: Vec<Need>,
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<Metric>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    parallel: bool,
}

impl Manifest {
    /// An empty manifest: a handler receives every object, whole.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule for the objects that the handler receives. If several rules match an object, the most specific one
    /// applies.
    #[must_use]
    pub fn events(mut self, events: Events) -> Self {
        self.events.push(events);
        self
    }

    /// Names the objects that the plugin reconciles, and what leads to them. Required with the role `reconciler`, which
    /// has no [`events`](Self::events).
    #[must_use]
    pub fn reconciles(mut self, objects: Reconciles) -> Self {
        self.reconciler = Some(objects);
        self
    }

    /// Adds a timer, which calls [`TimerHandler::on_timer`](crate::TimerHandler::on_timer). Required with the role
    /// `timers`.
    #[must_use]
    pub fn timer(mut self, timer: Timer) -> Self {
        self.timers.push(timer);
        self
    }

    /// Offers an index with this name on the informers of the plugin's section. It covers every object, whole, unless
    /// [`indexed`](Self::indexed) restricts it.
    #[must_use]
    pub fn index(mut self, name: impl Into<String>) -> Self {
        self.indexes.get_or_insert_default().names.push(name.into());
        self
    }

    /// Adds a rule for the objects that the index functions receive.
    #[must_use]
    pub fn indexed(mut self, objects: Objects) -> Self {
        self.indexes.get_or_insert_default().objects.push(objects);
        self
    }

    /// Declares a permission that the plugin requires: `Need::kube([Verb::Patch], "v1/pods")`. If config.toml does not
    /// grant it, Informant does not load the plugin, and the error contains the line to add.
    #[must_use]
    pub fn needs(mut self, need: impl Into<Need>) -> Self {
        self.needs.push(need.into());
        self
    }

    /// An event whose call deferred writes counts as handled only when the cache has seen them, but after 10 s at the
    /// latest. So the next call for the object reads its own writes from [`store`](crate::store). The plugin needs an
    /// informer for each object that it writes to.
    #[must_use]
    pub fn writes_seen(mut self) -> Self {
        self.writes = Some("seen");
        self
    }

    /// Declares a metric of the plugin's own, which [`metrics`](crate::metrics) changes.
    #[must_use]
    pub fn metric(mut self, metric: Metric) -> Self {
        self.metrics.push(metric);
        self
    }

    /// Several instances of the plugin may handle its events: `limits.instances` in its section. Each object belongs to
    /// one of them, which receives all its events, one at a time. Instances share no memory: what a handler remembers
    /// about one object must not be needed for another. For handlers that wait.
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.parallel = true;
        self
    }

    /// Refuses what contradicts itself, as Informant does.
    ///
    /// # Errors
    /// [`Failure::Permanent`] that names the rule.
    pub(crate) fn check(&self) -> Result {
        let contradicts = |rule: &&Events| rule.payload == PayloadKind::None && (rule.changed_only || rule.old);
        match self.events.iter().find(contradicts) {
            None => self.check_timers(),
            Some(Events { api_version, kind, .. }) => Err(Failure::permanent(format_args!(
                "manifest: the rule for {api_version} {kind} has payload_none and changed_only or with_old: without a \
                 payload there is nothing to compare; remove one of the two"
            ))),
        }
    }

    fn check_timers(&self) -> Result {
        for (position, timer) in self.timers.iter().enumerate() {
            let name = &timer.name;
            if timer.has_stray_zone() {
                return Err(Failure::permanent(format_args!(
                    "manifest: the timer {name:?} has a zone, which belongs to Timer::cron: remove it"
                )));
            }
            if self.timers[..position].iter().any(|other| other.name == *name) {
                return Err(Failure::permanent(format_args!(
                    "manifest: there are two timers {name:?}: give each its own name"
                )));
            }
        }
        Ok(())
    }

    /// The names of the indexes, in the order of the manifest.
    pub(crate) fn index_names(&self) -> &[String] {
        self.indexes.as_ref().map_or(&[], |indexes| &indexes.names)
    }

    /// The names of the timers.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn timer_names(&self) -> Vec<&str> {
        self.timers.iter().map(|timer| timer.name.as_str()).collect()
    }

    /// How much of an object that it reconciles the plugin receives.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn reconciled_payload(&self) -> PayloadKind {
        self.reconciler
            .as_ref()
            .map_or_else(PayloadKind::default, Reconciles::payload)
    }

    /// The types of objects that belong to those that it reconciles. `None` without a reconciler.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn owned_types(&self) -> Option<Vec<(String, String)>> {
        self.reconciler.as_ref().map(Reconciles::owned_types)
    }

    /// The metrics of its own.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The JSON document for the plugin `P`.
    pub(crate) fn to_json<P: Named>(&self) -> Vec<u8> {
        let document = Document {
            name: P::NAME,
            version: P::VERSION,
            manifest: self,
        };
        serde_json::to_vec(&document).expect("a manifest consists of strings, lists and booleans")
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

/// The contract requires at least one rule.
fn or_all<S: Serializer>(objects: &Vec<Objects>, serializer: S) -> Result<S::Ok, S::Error> {
    if objects.is_empty() {
        [Objects::of("*", "*")].serialize(serializer)
    } else {
        objects.serialize(serializer)
    }
}

/// How much of an object a plugin receives: a JSON document in the shape of the object, with apiVersion and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PayloadKind {
    /// The whole object, without the fields that the informer drops.
    #[default]
    Whole,
    /// Only `metadata`.
    Metadata,
    /// Only the fields at these JSON pointers; `*` matches every element of a list or every value of a map. Absent
    /// fields are left out.
    Fields(Vec<String>),
    /// No document, only what an [`Event`](crate::Event) has. Only for handlers.
    None,
}

impl PayloadKind {
    /// Whether the manifest may leave it out.
    fn is_default(&self) -> bool {
        *self == Self::Whole
    }
}

/// Which objects a handler receives, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Events {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    label_selector: String,
    #[serde(skip_serializing_if = "PayloadKind::is_default")]
    payload: PayloadKind,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    old: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    changed_only: bool,
}

impl Events {
    /// Objects of one apiVersion (`v1`, `apps/v1`) and kind; `*` matches any.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        let (api_version, kind) = (api_version.into(), kind.into());
        Self {
            api_version,
            kind,
            namespaces: Vec::new(),
            label_selector: String::new(),
            payload: PayloadKind::Whole,
            old: false,
            changed_only: false,
        }
    }

    /// Objects of the kind of `T`, and the part of them that `T` reads.
    pub fn of_type<T: Kind>() -> Self {
        Self {
            payload: T::payload(),
            ..Self::of(T::API_VERSION, T::KIND)
        }
    }

    /// Every object.
    pub fn all() -> Self {
        Self::of("*", "*")
    }

    /// Whether the manifest may leave them out: every object, whole.
    fn are_default(rules: &[Self]) -> bool {
        rules.is_empty() || rules == [Self::all()]
    }

    /// Only `metadata`.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.payload = PayloadKind::Metadata;
        self
    }

    /// Only the fields at these JSON pointers: less to copy and to parse. See [`PayloadKind::Fields`].
    #[must_use]
    pub fn fields<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.payload = PayloadKind::Fields(pointers.into_iter().map(Into::into).collect());
        self
    }

    /// No document: the handler receives only the [`Event`](crate::Event). Implement
    /// [`EventHandler<()>`](crate::EventHandler). Cannot be combined with [`changed_only`](Self::changed_only) and
    /// [`with_old`](Self::with_old).
    #[must_use]
    pub fn payload_none(mut self) -> Self {
        self.payload = PayloadKind::None;
        self
    }

    /// Only objects in these namespaces.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Only objects that match this label selector: `app=web,tier in (a, b)`. An object that starts to match is an add,
    /// one that no longer matches is a delete.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// Include the old state in updates. This doubles the payload of a call.
    #[must_use]
    pub fn with_old(mut self) -> Self {
        self.old = true;
        self
    }

    /// Skip updates that leave the payload identical, byte for byte.
    #[must_use]
    pub fn changed_only(mut self) -> Self {
        self.changed_only = true;
        self
    }
}

/// Which objects the index functions receive, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Objects {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "PayloadKind::is_default")]
    payload: PayloadKind,
}

impl Objects {
    /// Objects of one apiVersion (`v1`, `apps/v1`) and kind; `*` matches any.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            payload: PayloadKind::Whole,
        }
    }

    /// Only `metadata`.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.payload = PayloadKind::Metadata;
        self
    }

    /// Only the fields at these JSON pointers. See [`PayloadKind::Fields`].
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
    fn an_empty_manifest_leaves_the_defaults_to_the_contract() {
        let expected = serde_json::json!({ "name": "tested", "version": "1.2.3" });
        assert_eq!(json(&Manifest::new()), expected);
        assert_eq!(json(&Manifest::new().events(Events::all())), expected);
    }

    #[test]
    fn needs_match_the_contract() {
        let manifest = Manifest::new()
            .needs(Need::kube([Verb::Get, Verb::Patch], "v1/pods"))
            .needs(
                Need::kube([Verb::Update], "v1/pods")
                    .namespace("web")
                    .name("a")
                    .subresource("status"),
            )
            .needs(Need::events());
        let expected = serde_json::json!([
            { "kube": { "verbs": ["get", "patch"], "resource": "v1/pods" } },
            { "kube": { "verbs": ["update"], "resource": "v1/pods", "namespaces": ["web"], "names": ["a"], "subresources": ["status"] } },
            { "events": {} },
        ]);
        assert_eq!(json(&manifest)["needs"], expected);
    }

    #[test]
    fn an_index_without_rules_covers_every_object() {
        let indexes = &json(&Manifest::new().index("name"))["indexes"];
        let all = serde_json::json!([{ "apiVersion": "*", "kind": "*" }]);
        assert_eq!(indexes["objects"], all);
    }

    #[test]
    fn the_document_matches_the_contract() {
        let manifest = Manifest::new()
            .events(Events::of("v1", "Pod").fields(["/spec/nodeName"]).with_old())
            .events(Events::of("apps/v1", "*").metadata().changed_only())
            .events(Events::all())
            .events(
                Events::of("v1", "Node")
                    .namespaces(["a", "b"])
                    .label_selector("x=y")
                    .payload_none(),
            )
            .index("image")
            .indexed(Objects::of("v1", "Pod").fields(["/spec/containers/*/image"]));
        // Members at their default are left out.
        let event = |api_version, kind, payload: serde_json::Value, old: bool, changed_only: bool| {
            let mut event = serde_json::json!({ "apiVersion": api_version, "kind": kind });
            if payload != "whole" {
                event["payload"] = payload;
            }
            for (name, is_set) in [("old", old), ("changedOnly", changed_only)] {
                if is_set {
                    event[name] = true.into();
                }
            }
            event
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
                    {
                        "apiVersion": "v1", "kind": "Node", "namespaces": ["a", "b"], "labelSelector": "x=y",
                        "payload": "none",
                    },
                ],
                "indexes": {
                    "names": ["image"],
                    "objects": [{ "apiVersion": "v1", "kind": "Pod", "payload": { "fields": ["/spec/containers/*/image"] } }],
                },
            })
        );
    }

    #[test]
    fn timers_are_part_of_the_document() {
        let manifest = Manifest::new().timer(Timer::cron("report", "0 8 * * *"));
        let expected = serde_json::json!([{ "name": "report", "cron": "0 8 * * *" }]);
        assert_eq!(json(&manifest)["timers"], expected);
    }

    #[test]
    fn timers_with_a_stray_zone_or_equal_names_are_refused() {
        let poll = || Timer::every("poll", std::time::Duration::from_secs(10));
        assert_eq!(Manifest::new().timer(poll()).check(), Ok(()));
        for (timers, reason) in [
            (vec![poll().zone("UTC")], "the timer \"poll\" has a zone"),
            (vec![poll(), poll()], "there are two timers \"poll\""),
        ] {
            let manifest = timers.into_iter().fold(Manifest::new(), Manifest::timer);
            let message = manifest.check().expect_err("it is refused").message().to_owned();
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn comparisons_without_a_payload_are_refused() {
        let rule = Events::of("v1", "Pod").payload_none();
        assert_eq!(Manifest::new().events(rule.clone()).check(), Ok(()));
        for rule in [rule.clone().changed_only(), rule.with_old()] {
            let refused = Manifest::new().events(rule).check();
            let message = refused.expect_err("it contradicts itself").message().to_owned();
            assert!(message.contains("the rule for v1 Pod has payload_none"), "{message}");
        }
    }
}
