//! An informer of the library, and everything that can be seen of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, SourceState};
use informant_informer::{
    GroupVersionResource, InformerMetrics, InformerOptions, ReflectorOptions, SharedInformer, SourceSpec, SourceStatus,
    TokioEnvironment,
};
use informant_object::{FieldSelector, Key};
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::Hastened;
use super::witness::{State, Witness, violations};
use crate::client::Client;
use crate::cluster::Login;
use crate::daemon::sum_of;
use crate::wait;

/// How long anything may take that is waited for: a restart of the real API server on busy cores included.
pub const ARRIVES_WITHIN: Duration = Duration::from_secs(120);

/// How an informer is to watch what.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What is watched.
    pub resource: GroupVersionResource,
    /// What its objects say as their kind.
    pub kind: String,
    /// Where; none is everywhere.
    pub namespace: Option<String>,
    /// Which; empty is all.
    pub field_selector: String,
    /// Whether the state is asked for by WatchList first.
    pub watch_list: bool,
    /// How many items a page of a list has.
    pub page_items: Option<usize>,
    /// How long the API server is asked to let a watch last, at least.
    pub watch_timeout_min: Duration,
    /// How much faster its clock runs.
    pub haste: u32,
    /// As who it comes.
    pub login: Login,
}

impl Setting {
    /// Everything of a resource in `namespace`, with all rights, at a twentieth of the usual deadlines.
    pub fn of(resource: GroupVersionResource, kind: &str, namespace: Option<&str>) -> Self {
        Self {
            resource,
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            field_selector: String::new(),
            watch_list: true,
            page_items: None,
            watch_timeout_min: Duration::from_secs(300),
            haste: 20,
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

    /// The list that a direct client asks for to learn what is true.
    fn path(&self) -> String {
        let selector = form_urlencoded::byte_serialize(self.field_selector.as_bytes()).collect::<String>();
        let path = self.resource.path(self.namespace.as_deref());
        format!("{path}?fieldSelector={selector}")
    }
}

/// An informer at work, and its witness. It stops when dropped.
pub struct Observed {
    setting: Setting,
    /// Its calls.
    pub witness: Witness,
    informer: SharedInformer,
    registry: Registry,
}

impl Observed {
    /// Starts an informer on `kube`.
    ///
    /// # Errors
    /// If the setting contradicts itself.
    pub fn start(setting: Setting, kube: kube::Client, seed: u64) -> Result<Self> {
        let environment = Hastened::new(Arc::new(TokioEnvironment::current(seed)), setting.haste);
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
        let witness = Witness::default();
        informer.add_handler(Box::new(witness.clone()), ListenerOptions::default())?;
        Ok(Self {
            setting,
            witness,
            informer,
            registry,
        })
    }

    /// The informer.
    pub fn informer(&self) -> &SharedInformer {
        &self.informer
    }

    /// How it is doing.
    pub fn status(&self) -> SourceStatus {
        self.informer.status()
    }

    /// What went wrong last, as it is shown; empty if nothing did.
    pub fn last_error(&self) -> String {
        self.status().last_error.map(|(text, _)| text).unwrap_or_default()
    }

    /// A counter or gauge of it, summed over the series that carry `labels`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let mut text = String::new();
        let encoded = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        encoded.expect("a string takes everything");
        sum_of(&text, name, labels).unwrap_or_default()
    }

    /// How often it listed anew for that reason; for any, if none is given.
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
    /// If it does not come about; with the status.
    pub async fn until(&self, what: &str, condition: impl Fn(&SourceStatus) -> bool) -> Result<SourceStatus> {
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
    pub async fn until_state(&self, state: SourceState) -> Result<SourceStatus> {
        self.until(state.as_str(), |status| status.state == state).await
    }

    /// Waits until it is live and both what it keeps and what it told equal what `direct` sees, to the byte; then
    /// judges what it told.
    ///
    /// # Errors
    /// If that does not come about, or the contract was broken.
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
        let violations = violations(&self.witness.calls());
        ensure!(violations.is_empty(), "{}", violations.join("\n"));
        ensure!(self.witness.synced() == 1, "synced {} times", self.witness.synced());
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
        let told = self.witness.view();
        let states: BTreeMap<Key, State> = truth.iter().map(|(key, item)| (key.clone(), state_of(item))).collect();
        Ok((told != states).then(|| first_difference("the handler", &told, &states)))
    }

    /// An item of a list, as the cache keeps it.
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

fn state_of(item: &Value) -> State {
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
        "{what} knows {} objects of {}; {key}: {:?} is to be {:?}",
        found.len(),
        truth.len(),
        found.get(key),
        truth.get(key)
    )
}
