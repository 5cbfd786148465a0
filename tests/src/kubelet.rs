//! The part of a node that tests need: pods of a stored StatefulSet, run as the kubelet runs them.
//!
//! ```text
//! stored StatefulSet ──▶ StatefulSet       a pod for each ordinal, replaced one by one
//!                          ▼
//!                        stored pod        admission checks it and adds the token's volume
//!                          │ volumes       ConfigMaps, Secrets and tokens as folders, with the kubelet's links
//!                          │ container     namespaces of Linux: a root of its own, another user, no capabilities
//!                          ▼
//!                     RunningPod           probes, volumes that follow their objects, SIGTERM and the grace period
//! ```
//!
//! The pod's connections to the API server pass through a proxy, so that a test can cut them. Where it differs from a
//! node:
//!
//! - The network and `/proc` are those of the machine, as with `hostNetwork` and `hostPID`. So one pod runs at a time,
//!   but those of a set with several replicas, each of which has ports of its own by arguments.
//! - Libraries and programs of the image are those of the machine, mounted read-only.
//! - Resource limits and the seccomp profile do not apply.
//! - Readiness is probed more often than the pod asks for.
//!
//! A field of the pod that it does not know is an error, so that no test passes because a field was overlooked.

mod container;
mod image;
mod probe;
mod stateful_set;
mod volumes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::chaos::ChaosProxy;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::process::Process;
use crate::wait;

pub use container::{can_exec, can_run};
pub use image::Image;
use probe::Probe;
pub use stateful_set::StatefulSet;
use volumes::Volumes;

/// How long an init container may take.
const INIT_WITHIN: Duration = Duration::from_secs(60);

/// How long a command in a container may take: `informant check` loads all plugins.
const EXEC_WITHIN: Duration = Duration::from_secs(60);

/// How long the ports of a pod may be in use when it starts: another checkout may run the same tests.
const PORTS_WITHIN: Duration = Duration::from_secs(120);

/// Pods share the machine's ports.
static PORTS: Mutex<()> = Mutex::const_new(());

/// How far the ports of one of several replicas are from those of the next one, and of a single replica.
const PORTS_APART: u16 = 10;

/// Runs pods of one cluster.
pub struct Kubelet {
    client: Client,
    folder: tempfile::TempDir,
    proxy: ChaosProxy,
    certificate_authority: String,
    images: BTreeMap<String, Image>,
}

/// A pod that was admitted, with its volumes. They live as long as it.
pub struct Pod {
    object: Value,
    volumes: Volumes,
    folder: tempfile::TempDir,
    /// How much higher its ports are than the manifest says.
    ports_moved: u16,
}

/// A pod whose container runs. It is killed when dropped.
pub struct RunningPod {
    pod: Arc<Pod>,
    process: Process,
    /// Of a pod whose ports are not moved.
    _ports: Option<MutexGuard<'static, ()>>,
}

impl Kubelet {
    /// Prepares to run pods of a cluster.
    ///
    /// # Errors
    /// If the cluster is not the real one, or no proxy can be started.
    pub async fn new(cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            client: cluster.client().await?,
            folder: tempfile::tempdir()?,
            proxy: ChaosProxy::start(cluster.address(), 1).await?,
            certificate_authority: cluster.certificate_authority()?,
            images: BTreeMap::new(),
        })
    }

    /// Provides the image called `reference`.
    pub fn add_image(&mut self, reference: &str, image: Image) {
        self.images.insert(reference.to_owned(), image);
    }

    /// The proxy between pods and the API server.
    pub fn proxy(&self) -> &ChaosProxy {
        &self.proxy
    }

    /// The folder of the volume that a claim is bound to.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn claim(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join("claims").join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Does for a namespace what controllers do: creates the service account `default`, and the ConfigMap with the
    /// certificate authority of the API server.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn prepare_namespace(&self, namespace: &str) -> Result<()> {
        let path = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.client.post(&path("serviceaccounts"), &account).await?;
        let authority = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"},
            "data": {"ca.crt": self.certificate_authority},
        });
        self.client.post(&path("configmaps"), &authority).await.map(drop)
    }

    /// Creates the first pod of a stored StatefulSet, as its controller does. An earlier pod of that name is deleted.
    ///
    /// # Errors
    /// If the API server does not admit the pod.
    pub async fn admit_pod(&self, namespace: &str, set: &str) -> Result<Value> {
        self.admit(&self.stored_set(namespace, set).await?, 0).await
    }

    /// As [`admit_pod`](Self::admit_pod); then fills the pod's volumes and runs its init containers.
    ///
    /// # Errors
    /// If the API server does not admit the pod, or the pod needs something that is missing.
    pub async fn create_pod(&self, namespace: &str, set: &str) -> Result<Arc<Pod>> {
        self.create(&self.stored_set(namespace, set).await?, 0).await
    }

    async fn stored_set(&self, namespace: &str, set: &str) -> Result<Value> {
        let stored = format!("/apis/apps/v1/namespaces/{namespace}/statefulsets/{set}");
        self.client.get(&stored).await
    }

    async fn admit(&self, set: &Value, ordinal: u16) -> Result<Value> {
        let pods = format!("/api/v1/namespaces/{}/pods", text(set, "/metadata/namespace")?);
        let name = format!("{}-{ordinal}", text(set, "/metadata/name")?);
        // There may be none.
        let _ = self.client.delete(&format!("{pods}/{name}")).await;
        self.client.post(&pods, &pod_of(set, &name, ordinal)?).await
    }

    async fn create(&self, set: &Value, ordinal: u16) -> Result<Arc<Pod>> {
        let mut object = self.admit(set, ordinal).await?;
        object["status"]["podIP"] = "127.0.0.1".into();
        let folder = tempfile::tempdir()?;
        let volumes = Volumes::fill(self, &object, folder.path()).await?;
        let is_alone = set.pointer("/spec/replicas").and_then(Value::as_u64) == Some(1);
        let pod = Pod {
            object,
            volumes,
            folder,
            ports_moved: if is_alone { 0 } else { (ordinal + 1) * PORTS_APART },
        };
        for container in list(&pod.object, "/spec/initContainers") {
            let mut process = container::start(self, &pod, container)?;
            let code = process.wait_for_end(INIT_WITHIN).await?;
            ensure!(
                code == Some(0),
                "init container {}: {code:?}\n{}",
                container["name"],
                process.tail()
            );
        }
        Ok(Arc::new(pod))
    }

    /// Starts the container of a pod. A pod can be started again: its volumes stay, as after a restart of the
    /// container.
    ///
    /// # Errors
    /// If its ports are in use or its program cannot be started.
    pub async fn start(&self, pod: &Arc<Pod>) -> Result<RunningPod> {
        let ports = match pod.ports_moved {
            0 => Some(PORTS.lock().await),
            _ => None,
        };
        let container = pod.container()?;
        for port in list(container, "/ports") {
            let port = pod.port(port)?;
            let what = format!("port {port} of this machine to be free for the pod");
            wait::until(&what, PORTS_WITHIN, async || {
                let bound = std::net::TcpListener::bind(("0.0.0.0", port));
                bound.map(drop).map_err(|error| error.to_string())
            })
            .await?;
        }
        Ok(RunningPod {
            pod: Arc::clone(pod),
            process: container::start(self, pod, container)?,
            _ports: ports,
        })
    }

    /// Writes the current contents of ConfigMaps and Secrets into the volumes of a pod, as the kubelet does
    /// every minute.
    ///
    /// # Errors
    /// If one is missing.
    pub async fn sync_volumes(&self, pod: &Pod) -> Result<()> {
        pod.volumes.sync(self, &pod.object).await
    }

    fn image(&self, reference: &str) -> Result<&Image> {
        let image = self.images.get(reference);
        image.with_context(|| format!("the test provides no image {reference:?}"))
    }
}

impl Pod {
    /// The only container.
    fn container(&self) -> Result<&Value> {
        let containers = list(&self.object, "/spec/containers");
        ensure!(containers.len() == 1, "a pod with one container: {containers:?}");
        Ok(&containers[0])
    }

    /// Where a port of its container is on this machine.
    fn port(&self, port: &Value) -> Result<u16> {
        let port = port["containerPort"].as_u64().context("a port has a number")?;
        Ok(u16::try_from(port)? + self.ports_moved)
    }

    /// The object as stored.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// The folder of a volume, as the node sees it.
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn volume(&self, name: &str) -> Result<&Path> {
        self.volumes.folder(name)
    }
}

impl RunningPod {
    /// Waits until the readiness probe succeeds.
    ///
    /// # Errors
    /// After `deadline`, if the process ends, and if the liveness probe fails for so long that the kubelet would
    /// restart the container.
    pub async fn wait_until_ready(&mut self, deadline: Duration) -> Result<()> {
        let container = self.pod.container()?;
        let readiness = Probe::of(&self.pod, container, "readinessProbe")?;
        let liveness = Probe::of(&self.pod, container, "livenessProbe")?;
        let mut alive = Instant::now();
        let ready = wait::until("the pod to be ready", deadline, async || {
            match liveness.succeeds().await {
                Ok(()) => alive = Instant::now(),
                Err(reason) if alive.elapsed() > liveness.patience() => {
                    return Ok(Err(anyhow::anyhow!("the liveness probe fails: {reason}")));
                }
                Err(_) => {}
            }
            readiness.succeeds().await.map(Ok)
        });
        self.process.while_running(ready).await?
    }

    /// Runs a command in the container, as `kubectl exec` does. Returns what it printed, with its exit code.
    ///
    /// # Errors
    /// If it cannot be started, or does not end in time.
    pub async fn exec(&self, kubelet: &Kubelet, words: &[&str]) -> Result<std::process::Output> {
        let process = self.process.id().context("the container has ended")?;
        let mut command = container::exec(kubelet, &self.pod, process, words)?;
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(EXEC_WITHIN, output).await;
        output
            .with_context(|| format!("{words:?} did not end within {EXEC_WITHIN:?}"))?
            .with_context(|| format!("starting {words:?}"))
    }

    /// Sends SIGTERM and waits for the end. Returns the exit code and how long it took.
    ///
    /// # Errors
    /// If the grace period of the pod ends first.
    pub async fn stop(&mut self) -> Result<(Option<i32>, Duration)> {
        let grace = self.pod.object.pointer("/spec/terminationGracePeriodSeconds");
        let grace = Duration::from_secs(grace.and_then(Value::as_u64).context("a grace period")?);
        let begin = Instant::now();
        self.process.signal("TERM").await?;
        let code = self.process.wait_for_end(grace).await?;
        Ok((code, begin.elapsed()))
    }

    /// The pod.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// The process of the container.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// The pod that the StatefulSet controller would create.
fn pod_of(set: &Value, name: &str, ordinal: u16) -> Result<Value> {
    let template = set.pointer("/spec/template").context("a template")?;
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = ordinal.to_string().into();
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name.into();
    pod["spec"]["hostname"] = name.into();
    pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    let claims = list(set, "/spec/volumeClaimTemplates").iter().map(|template| {
        let volume = template["metadata"]["name"].as_str().unwrap_or_default();
        json!({"name": volume, "persistentVolumeClaim": {"claimName": format!("{volume}-{name}")}})
    });
    let volumes: Vec<Value> = list(&pod, "/spec/volumes").iter().cloned().chain(claims).collect();
    pod["spec"]["volumes"] = volumes.into();
    Ok(pod)
}

/// The list at `pointer`; empty if there is none.
fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

/// The string at `pointer`.
fn text<'v>(value: &'v Value, pointer: &str) -> Result<&'v str> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.with_context(|| format!("no {pointer} in {value}"))
}

/// The value of a `fieldRef`: a path such as `metadata.namespace`.
fn field(pod: &Value, reference: &Value) -> Result<String> {
    let pointer = format!("/{}", text(reference, "/fieldPath")?.replace('.', "/"));
    text(pod, &pointer).map(str::to_owned)
}

/// Fails if `object` has other members than `known`.
fn only(object: &Value, known: &[&str]) -> Result<()> {
    let members = object.as_object().context("an object")?;
    let other: Vec<&String> = members.keys().filter(|name| !known.contains(&name.as_str())).collect();
    ensure!(
        other.is_empty(),
        "the kubelet of the tests does not know {other:?} in {object}"
    );
    Ok(())
}
