//! The certificate of the admin server: generated, or read from files again whenever they change.
//!
//! ```text
//! ticks of both files ──▶ read ──▶ usable? ──▶ ServerIdentity, from the next connection on
//!                                     └ no: the previous certificate stays; log, metric, readiness line
//! ```
//!
//! Files that cannot be used at the start are no reason to end: until they can, the admin port refuses connections, and
//! everything else runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use informant_cache::Environment;
use informant_config::AdminTls;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::file_watch::{FileTicks, FileWatch};
use super::status_registry::StatusRegistry;
use crate::files::{FILE_READ_MAX, NoAnswer, Turn};
use crate::metrics::Metrics;
use crate::server::{Certificate, CertificateFiles, CertificateProblem, ServerIdentity};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateStatus {
    /// When the certificate that clients receive expires; none if there is none.
    pub expires: Option<Timestamp>,
    /// Why it is not the one that it should be, or that it has expired.
    pub problem: Option<String>,
}

pub(super) struct IdentityParts {
    pub(super) environment: Arc<dyn Environment>,
    pub(super) watch: FileWatch,
    pub(super) registry: StatusRegistry,
    pub(super) metrics: Metrics,
    pub(super) stop: CancellationToken,
}

struct CertificateFollower {
    certificate: PathBuf,
    key: PathBuf,
    ticks: [FileTicks; 2],
    identity: ServerIdentity,
    registry: StatusRegistry,
    metrics: Metrics,
    /// What the server shows, and the files that it was read from.
    shown: Option<(CertificateFiles, Certificate)>,
}

/// What the admin server at `listen` shows to its clients. `hosts` are its names.
/// Errors: if no certificate can be generated.
pub(super) async fn server_identity(
    tls: &AdminTls,
    hosts: &[String],
    listen: SocketAddr,
    parts: IdentityParts,
) -> Result<ServerIdentity, CertificateProblem> {
    let identity = ServerIdentity::default();
    match tls {
        AdminTls::SelfSigned => {
            let certificate = Certificate::self_signed(names(hosts, listen))?;
            identity.set(&certificate);
            parts.registry.configuration().certificate = Some(CertificateStatus {
                expires: Some(certificate.expires),
                problem: None,
            });
        }
        AdminTls::Files { certificate, key } => {
            let mut follower = CertificateFollower {
                ticks: [parts.watch.subscribe(certificate), parts.watch.subscribe(key)],
                certificate: certificate.clone(),
                key: key.clone(),
                identity: identity.clone(),
                registry: parts.registry,
                metrics: parts.metrics,
                shown: None,
            };
            follower.check().await;
            let run = parts.stop.run_until_cancelled_owned(follower.run());
            parts.environment.spawn(
                "admin-certificate",
                Box::pin(async move {
                    let _ = run.await;
                }),
            );
        }
    }
    Ok(identity)
}

/// The names under which the server may be reached.
fn names(hosts: &[String], listen: SocketAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !listen.ip().is_unspecified() && !listen.ip().is_loopback() {
        names.push(listen.ip().to_string());
    }
    names.extend(hosts.iter().cloned());
    names
}

impl CertificateFollower {
    /// Does not end. Files tick even when nothing changes, so that a certificate that expires is noticed.
    async fn run(mut self) {
        loop {
            let [certificate, key] = &mut self.ticks;
            tokio::select! {
                () = certificate.next() => {}
                () = key.next() => {}
            }
            self.check().await;
        }
    }

    async fn check(&mut self) {
        let (certificate, key) = (self.certificate.clone(), self.key.clone());
        let turn = Turn::of(&self.certificate);
        let read = turn.run_within(FILE_READ_MAX, move || CertificateFiles::read(&certificate, &key));
        let read = read.await.unwrap_or_else(|NoAnswer| {
            Err(CertificateProblem::Unreadable {
                path: self.certificate.clone(),
                message: format!("the file system did not answer within {} s", FILE_READ_MAX.as_secs()),
            })
        });
        let now = Timestamp::now();
        let result = read.and_then(|files| self.replace(files, now));
        let problem = result.err().map(|problem| problem.to_string());
        let status = CertificateStatus {
            expires: self.shown.as_ref().map(|(_, certificate)| certificate.expires),
            problem,
        };
        self.report(status);
    }

    /// Shows the certificate in the files, if it can be used. One that has expired replaces none, but is better than
    /// none.
    fn replace(&mut self, files: CertificateFiles, now: Timestamp) -> Result<(), CertificateProblem> {
        if let Some((shown, certificate)) = &self.shown
            && *shown == files
        {
            return certificate.check_time(now, &self.certificate);
        }
        let certificate = files.parse(&self.certificate, &self.key)?;
        let in_time = certificate.check_time(now, &self.certificate);
        if in_time.is_ok() || self.shown.is_none() {
            self.identity.set(&certificate);
            if in_time.is_ok() {
                let expires = certificate.expires;
                tracing::info!(certificate = %self.certificate.display(), %expires, "admin certificate loaded");
                self.metrics.daemon.certificate_loaded(true);
            }
            self.shown = Some((files, certificate));
        }
        in_time
    }

    /// Logs and counts a problem once.
    fn report(&self, status: CertificateStatus) {
        let mut configuration = self.registry.configuration();
        let before = configuration.certificate.replace(status.clone()).unwrap_or_default();
        drop(configuration);
        if status.problem == before.problem {
            return;
        }
        let certificate = self.certificate.display();
        match status.problem {
            Some(problem) => {
                let kept = status.expires.is_some();
                tracing::error!(%certificate, error = problem, kept, code = "admin-certificate", "admin certificate refused");
                self.metrics.daemon.certificate_loaded(false);
            }
            None => tracing::info!(%certificate, "admin certificate usable again"),
        }
    }
}
