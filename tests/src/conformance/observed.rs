//! An informer of the library, and everything that can be observed of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, SourceState};
use informant_informer::{
    InformerMetrics, InformerOptions, ReflectorOptions, ReflectorStatus, SharedInformer, SourceSpec, TokioEnvironment,
};
use informant_object::{FieldSelector, Key};
use informant_spec::GroupVersionResource;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::FastClock;
use super::recording_handler::{ObjectState, RecordingHandler, violations};
use crate::client::Client;
use crate::cluster::Login;
use crate::daemon::sum_of;
use crate::wait;

/// The deadline of every wait, including a restart of the real API server on busy cores.
pub const ARRIVES_WITHIN: Duration = Duration::from_secs(120);

/// CallKind an informer watches, and how.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The watched resource.
    pub resource: GroupVersionResource,
    /// The kind of its objects.
    pub kind: String,
    /// The namespace; none means all.
    pub namespace: Option<String>,
    /// The field selector; empty means all objects.
    pub field_selector: String,
    /// Whether WatchList is tried first.
    pub watch_list: bool,
    /// The number of items on a page of a list.
    pub page_items: Option<usize>,
    /// The minimum `timeoutSeconds` of a watch.
    pub watch_timeout_min: Duration,
    /// How much faster its clock runs.
    pub speed: u32,
    /// The user it authenticates as.
    pub login: Login,
}

impl Setting {
    /// All objects of a resource in `namespace`, with all permissions, at a twentieth of the usual deadlines.
    pub fn of(resource: GroupVersionResource, kind: &str, namespace: Option<&str>) -> Self {
        Self {
            resource,
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            field_selector: String::new(),
            watch_list: true,
            page_items: None,
            watch_timeout_min: Duration::from_secs(300),
            speed: 20,
            login: Login::admin(),
        }
    }

    /// The config maps in `namespace`.
    pub fn config_maps(namespace: &str) -> Self {
        Self::of(
            GroupVersionResource::new("", "v1", "configmaps"),
            "ConfigMap",
            Some(namespace),
        )
    }

    fn spec(&self) -> Result<SourceSpec> {
        let mut spec = SourceSpec::new("observed", self.resource.clone(), self.kind.clone());
        spec.namespace = self.namespace.clone();
        spec.namespaced = self.namespace.is_some();
        if !self.field_selector.is_empty() {
            spec.field_selector = Some(FieldSelector::parse(&self.field_selector)?);
        }
        Ok(spec)
    }

    /// The list with which a direct client reads the actual state.
    fn path(&self) -> String {
        let selector = form_urlencoded::byte_serialize(self.field_selector.as_bytes()).collect::<String>();
        let path = self.resource.path(self.namespace.as_deref());
        format!("{path}?fieldSelector={selector}")
    }
}

/// A running informer and its handler. It stops when dropped.
pub struct ObservedInformer {
    setting: Setting,
    /// The handler, which records its calls.
    pub handler: RecordingHandler,
    informer: SharedInformer,
    registry: Registry,
}

impl ObservedInformer {
    /// Starts an informer on `kube`.
    ///
    /// # Errors
    /// If the setting is inconsistent.
    pub fn start(setting: Setting, kube: kube::Client, seed: u64) -> Result<Self> {
        let environment = FastClock::new(Arc::new(TokioEnvironment::current(seed)), setting.speed);
        let mut registry = Registry::with_prefix("informant");
        let metrics = InformerMetrics::register(&mut registry);
        let reflector = ReflectorOptions {
            watch_list: setting.watch_list,
            page_items: setting.page_items,
            watch_timeout_min: setting.watch_timeout_min,
            ..ReflectorOptions::default()
        };
        let options = InformerOptions {
            reflector,
            ..InformerOptions::default()
        };
        let informer = SharedInformer::start_with(
            setting.spec()?,
            kube,
            Arc::new(environment),
            Catalog::new(),
            &metrics,
            options,
        )?;
        let handler = RecordingHandler::default();
        informer.add_handler(Box::new(handler.clone()), ListenerOptions::default())?;
        Ok(Self {
            setting,
            handler,
            informer,
            registry,
        })
    }

    /// The informer.
    pub fn informer(&self) -> &SharedInformer {
        &self.informer
    }

    /// Its current status.
    pub fn status(&self) -> ReflectorStatus {
        self.informer.status()
    }

    /// The last error, as it is shown; empty if there is none.
    pub fn last_error(&self) -> String {
        self.status().last_error.map(|(text, _)| text).unwrap_or_default()
    }

    /// A counter or gauge of it, summed over the series that have `labels`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let mut text = String::new();
        let encoded = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        encoded.expect("writing to a string cannot fail");
        sum_of(&text, name, labels).unwrap_or_default()
    }

    /// How often it relisted for that reason; for any reason if it is empty.
    pub fn relists(&self, reason: &str) -> f64 {
        let label = format!("reason=\"{reason}\"");
        let labels = if reason.is_empty() {
            &[][..]
        } else {
            &[label.as_str()][..]
        };
        self.metric("informant_reflector_relists_total", labels)
    }

    /// Waits for a condition on its status.
    ///
    /// # Errors
    /// If it does not hold in time; the error contains the status.
    pub async fn until(&self, what: &str, condition: impl Fn(&ReflectorStatus) -> bool) -> Result<ReflectorStatus> {
        wait::until(what, ARRIVES_WITHIN, async || {
            let status = self.status();
            if condition(&status) {
                Ok(status)
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await
    }

    /// Waits for a state.
    ///
    /// # Errors
    /// As [`until`](Self::until).
    pub async fn until_state(&self, state: SourceState) -> Result<ReflectorStatus> {
        self.until(state.as_str(), |status| status.state == state).await
    }

    /// Waits until the API server refuses it, with this text in the error.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn until_forbidden(&self, text: &str) -> Result<ReflectorStatus> {
        self.until(&format!("the refusal: {text}"), |status| {
            let is_said = |(error, _): &(String, Duration)| error.contains(text);
            status.state == SourceState::Forbidden && status.last_error.as_ref().is_some_and(is_said)
        })
        .await
    }

    /// Waits until it is live and both the cache and the handler's view equal what `direct` reads, byte by byte; then
    /// checks the recorded calls.
    ///
    /// # Errors
    /// If that does not happen, or the contract was broken.
    pub async fn settle(&self, direct: &Client) -> Result<()> {
        let settled = wait::until("the cache to equal the cluster", ARRIVES_WITHIN, async || {
            let status = self.status();
            if status.state != SourceState::Live {
                return Err(format!("{status:?}"));
            }
            self.differs(direct)
                .await
                .map_err(|error| format!("{error:#}"))?
                .map_or(Ok(()), Err)
        });
        settled.await.with_context(|| format!("{:?}", self.status()))?;
        let violations = violations(&self.handler.calls());
        ensure!(violations.is_empty(), "{}", violations.join("\n"));
        ensure!(self.handler.synced() == 1, "synced {} times", self.handler.synced());
        Ok(())
    }

    /// How cache, handler and cluster differ.
    async fn differs(&self, direct: &Client) -> Result<Option<String>> {
        let list = direct.get(&self.setting.path()).await?;
        let items = list.get("items").and_then(Value::as_array).context("no items")?;
        let truth: BTreeMap<Key, Value> = items.iter().map(|item| self.kept_form(item)).collect();
        let mut kept = BTreeMap::new();
        for object in self.informer.snapshot().iter() {
            kept.insert(object.key().to_key(), serde_json::from_slice::<Value>(object.json())?);
        }
        if kept != truth {
            return Ok(Some(first_difference("the cache", &kept, &truth)));
        }
        let view = self.handler.view();
        let expected: BTreeMap<Key, ObjectState> =
            truth.iter().map(|(key, item)| (key.clone(), state_of(item))).collect();
        Ok((view != expected).then(|| first_difference("the handler", &view, &expected)))
    }

    /// An item of a list, as the cache stores it.
    fn kept_form(&self, item: &Value) -> (Key, Value) {
        let mut item = item.clone();
        if let Some(metadata) = item["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        item["apiVersion"] = self.setting.resource.api_version().into();
        item["kind"] = self.setting.kind.clone().into();
        let text = |name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
        (Key::new(&text("namespace"), &text("name")), item)
    }
}

fn state_of(item: &Value) -> ObjectState {
    let text = |name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
    (text("uid"), text("resourceVersion").parse().unwrap_or_default())
}

fn first_difference<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &BTreeMap<Key, T>,
    truth: &BTreeMap<Key, T>,
) -> String {
    let odd = found
        .keys()
        .chain(truth.keys())
        .find(|key| found.get(*key) != truth.get(*key));
    let Some(key) = odd else { return String::new() };
    format!(
        "{what} has {} objects of {}; {key}: {:?}, expected {:?}",
        found.len(),
        truth.len(),
        found.get(key),
        truth.get(key)
    )
}
