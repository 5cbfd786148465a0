//! A cluster with its pods, and the CPU that it and a subject use during a measurement.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::cores::Cores;
use super::figure::{Figure, Figures, Phase};
use super::load::{self, Load};
use super::subject::Subject;
use super::usage::{self, Usage};
use crate::cluster::{Cluster, EmbeddedOptions};

/// The cluster that subjects are measured on.
pub(super) struct Rig {
    pub(super) cores: Cores,
    pub(super) cluster: Cluster,
    pub(super) load: Load,
}

/// CPU time used, and time passed.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) wall: Duration,
    pub(super) subject: Duration,
    pub(super) server: Duration,
}

/// The start of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Since {
    at: Instant,
    subject: Duration,
    server: Duration,
}

impl Rig {
    /// A new cluster without pods.
    pub(super) async fn empty(cores: &Cores, tls: bool) -> Result<Rig> {
        let under = cores.server();
        let cluster = Cluster::embedded(&EmbeddedOptions { under, tls }).await?;
        let client = cluster.client().await?;
        Ok(Rig {
            cores: cores.clone(),
            cluster,
            load: Load::new(client, 0),
        })
    }

    /// A new cluster with pods.
    pub(super) async fn filled(cores: &Cores, tls: bool, objects: u32) -> Result<Rig> {
        let mut rig = Rig::empty(cores, tls).await?;
        let client = rig.cluster.client().await?;
        load::create(&client, objects).await?;
        rig.load = Load::new(client, objects);
        Ok(rig)
    }

    /// Starts a measurement. A subject that is not started yet has used nothing.
    pub(super) fn begin(&self, subject: Option<&Subject>) -> Result<Since> {
        Ok(Since {
            subject: subject.map_or(Ok(Duration::ZERO), |subject| {
                Ok::<_, anyhow::Error>(subject.usage()?.cpu)
            })?,
            server: self.server_cpu()?,
            at: Instant::now(),
        })
    }

    /// What was used since then.
    pub(super) fn used(&self, since: &Since, subject: &Subject) -> Result<Used> {
        Ok(Used {
            wall: since.at.elapsed(),
            subject: subject.usage()?.cpu.saturating_sub(since.subject),
            server: self.server_cpu()?.saturating_sub(since.server),
        })
    }

    /// The CPU of the API server, and of this process if it shares that CPU.
    fn server_cpu(&self) -> Result<Duration> {
        let server = self.cluster.apiserver_id().context("the API server has ended")?;
        let mut cpu = usage::threads(server)?;
        if self.cores.load_beside_server() {
            cpu += usage::threads(std::process::id())?;
        }
        Ok(cpu)
    }
}

impl Since {
    /// The subject's CPU from then until its usage was read.
    pub(super) fn subject_until(&self, usage: Usage) -> Duration {
        usage.cpu.saturating_sub(self.subject)
    }
}

impl Used {
    pub(super) fn add(&mut self, more: Used) {
        self.wall += more.wall;
        self.subject += more.subject;
        self.server += more.server;
    }

    /// Records the shares of a CPU that were used.
    pub(super) fn note(&self, phase: Phase, figures: &mut Figures) {
        let share = |cpu: Duration| cpu.as_secs_f64() / self.wall.as_secs_f64();
        figures.set(Figure::SubjectBusy(phase), share(self.subject));
        figures.set(Figure::ServerBusy(phase), share(self.server));
    }
}
