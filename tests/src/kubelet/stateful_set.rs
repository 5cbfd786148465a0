//! The part of the StatefulSet controller that tests need: a pod for each ordinal, and rolling updates.
//!
//! It follows `podManagementPolicy: Parallel` and a rolling update without `partition`: all pods start at once. An
//! update replaces one pod at a time, the highest ordinal first, and only after all above it are ready.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Kubelet, RunningPod};

/// The pods of a stored StatefulSet, which all run. They are killed when dropped.
pub struct StatefulSet<'k> {
    kubelet: &'k Kubelet,
    namespace: String,
    name: String,
    /// By ordinal, each with the template that it was made from.
    running: Vec<(RunningPod, Value)>,
    replaced: Vec<RunningPod>,
    ready_within: Duration,
}

impl<'k> StatefulSet<'k> {
    /// Starts all pods, and waits until they are ready: each for `ready_within` at most, also later.
    ///
    /// # Errors
    /// If it does not update as described above, or a pod does not start.
    pub async fn start(kubelet: &'k Kubelet, namespace: &str, name: &str, ready_within: Duration) -> Result<Self> {
        let stored = kubelet.stored_set(namespace, name).await?;
        let spec = &stored["spec"];
        ensure!(spec["podManagementPolicy"] == "Parallel", "{spec}");
        let strategy = &spec["updateStrategy"];
        ensure!(
            strategy["type"] == "RollingUpdate" && strategy.pointer("/rollingUpdate/maxUnavailable").is_none(),
            "{strategy}"
        );
        let replicas = spec["replicas"].as_u64().context("replicas")?;
        let mut running = Vec::new();
        for ordinal in 0..u16::try_from(replicas)? {
            running.push(start_pod(kubelet, &stored, ordinal).await?);
        }
        for (pod, _) in &mut running {
            pod.wait_until_ready(ready_within).await?;
        }
        Ok(Self {
            kubelet,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            running,
            replaced: Vec::new(),
            ready_within,
        })
    }

    /// Replaces the pods that differ from the stored template. Returns how many these were.
    ///
    /// # Errors
    /// If a pod does not end in order, or its successor does not become ready.
    pub async fn roll_out(&mut self) -> Result<usize> {
        let stored = self.kubelet.stored_set(&self.namespace, &self.name).await?;
        let mut count = 0;
        for ordinal in (0..self.running.len()).rev() {
            let (old, template) = &mut self.running[ordinal];
            if *template == stored["spec"]["template"] {
                continue;
            }
            let (code, took) = old.stop().await?;
            ensure!(
                code == Some(0),
                "{}-{ordinal} ended with {code:?} after {took:?}\n{}",
                self.name,
                old.process().tail()
            );
            let mut new = start_pod(self.kubelet, &stored, u16::try_from(ordinal)?).await?;
            new.0.wait_until_ready(self.ready_within).await?;
            let (old, _) = std::mem::replace(&mut self.running[ordinal], new);
            self.replaced.push(old);
            count += 1;
        }
        Ok(count)
    }

    /// The pods that run, by ordinal.
    pub fn running(&self) -> impl Iterator<Item = &RunningPod> {
        self.running.iter().map(|(pod, _)| pod)
    }

    /// All pods that have run, those that were replaced first.
    pub fn all(&self) -> impl Iterator<Item = &RunningPod> {
        self.replaced.iter().chain(self.running())
    }
}

async fn start_pod(kubelet: &Kubelet, stored: &Value, ordinal: u16) -> Result<(RunningPod, Value)> {
    let pod = kubelet.create(stored, ordinal).await?;
    Ok((kubelet.start(&pod).await?, stored["spec"]["template"].clone()))
}
