//! The certificate of the admin port, and its replacement while the daemon runs.

use tokio_rustls::rustls::pki_types::CertificateDer;

use super::https::{certificate, https_get};
use super::{INFORMERS, world};
use crate::world::{Running, until};

const FILES: &str = "tls = { cert-file = \"tls.crt\", key-file = \"tls.key\" }\n";

async fn shows(daemon: &Running, expected: &CertificateDer<'_>) {
    until("the new certificate", async || {
        match certificate(daemon.address()).await {
            Some(shown) if shown == *expected => Ok(()),
            _ => Err("another one".to_owned()),
        }
    })
    .await;
}

async fn problem(daemon: &Running, expected: &str) {
    until(expected, async || {
        let (_, text) = crate::world::http_get(daemon.health_address(), "/readyz?verbose").await;
        let line = text.lines().find(|line| line.contains("admin/certificate"));
        match line {
            Some(line) if line.contains(expected) => Ok(()),
            _ => Err(text),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_certificate_files_are_loaded() {
    let world = world().await;
    let first = world.issue_certificate(2100);
    let daemon = world.daemon(&format!("{FILES}{INFORMERS}")).await;
    shows(&daemon, &first).await;
    let (_, text) = crate::world::http_get(daemon.health_address(), "/readyz?verbose").await;
    assert!(
        text.contains("[+]admin/certificate ok: expires 2100-01-01T00:00:00Z"),
        "{text}"
    );
    let second = world.issue_certificate(2101);
    shows(&daemon, &second).await;
    daemon.wait_until_ready().await;
    let expiry = daemon
        .metric("informant_admin_certificate_expiry_timestamp_seconds", &[])
        .await;
    assert_eq!(expiry, 4_133_980_800.0, "2101");
    let (status, _) = https_get(daemon.address(), "/api/v1/get/pods", "alice-token").await;
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_or_broken_replacement_keeps_the_previous_certificate() {
    let world = world().await;
    let good = world.issue_certificate(2100);
    let [certificate_pem, key_pem] = ["tls.crt", "tls.key"].map(|name| std::fs::read(world.path(name)).unwrap());
    let daemon = world.daemon(&format!("{FILES}{INFORMERS}")).await;
    world.issue_certificate(2001);
    problem(&daemon, "degraded: the certificate in").await;
    problem(&daemon, "expired at 2001-01-01T00:00:00Z").await;
    shows(&daemon, &good).await;
    world.write("tls.crt", b"not a certificate");
    problem(&daemon, "contains no certificate in PEM format").await;
    std::fs::remove_file(world.path("tls.key")).unwrap();
    problem(&daemon, "cannot read").await;
    shows(&daemon, &good).await;
    let refused = daemon
        .metric("informant_admin_certificate_loads_total", &["result=\"refused\""])
        .await;
    assert!(refused >= 3.0, "{refused}");
    let usable = "informant_admin_certificate_last_load_successful";
    assert_eq!(daemon.metric(usable, &[]).await, 0.0);
    problem(&daemon, "(informant explain admin-certificate)").await;
    world.write("tls.key", &key_pem);
    world.write("tls.crt", &certificate_pem);
    problem(&daemon, "ok: expires 2100-01-01T00:00:00Z").await;
    assert_eq!(daemon.metric(usable, &[]).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_certificate_stops_only_the_admin_port() {
    let world = world().await;
    let daemon = world.daemon(&format!("{FILES}{INFORMERS}")).await;
    daemon.wait_until_ready().await;
    assert_eq!(certificate(daemon.address()).await, None);
    problem(&daemon, "in use: no certificate").await;
    let issued = world.issue_certificate(2100);
    shows(&daemon, &issued).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_that_has_expired_is_reported() {
    let world = world().await;
    let expired = world.issue_certificate(2001);
    let daemon = world.daemon(&format!("{FILES}{INFORMERS}")).await;
    problem(&daemon, "expired at 2001-01-01T00:00:00Z").await;
    // Better than none: a client decides for itself.
    shows(&daemon, &expired).await;
    let expiry = daemon
        .metric("informant_admin_certificate_expiry_timestamp_seconds", &[])
        .await;
    assert_eq!(expiry, 978_307_200.0, "2001");
}
