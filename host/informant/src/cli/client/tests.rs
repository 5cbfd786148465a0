//! Real connections: to a server with TLS, and through a port-forward of an API server made for these tests.

mod port_forward;
mod world;

use clap::Parser;
use http::StatusCode;
use serde_json::{Value, json};

use self::world::{ApiServer, Daemon};
use super::*;
use crate::admin::Plugins;

/// A command with the flags of a client.
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    admin: AdminArgs,
}

/// Requests the plugins. The error as the user sees it.
async fn plugins(flags: &[&str]) -> Result<Plugins, String> {
    let command = Command::try_parse_from([&["informant"], flags].concat()).map_err(|error| error.to_string())?;
    let shown = |error: anyhow::Error| format!("{error:#}");
    let target = Target::of(&command.admin).map_err(shown)?;
    let mut client = AdminClient::connect(&command.admin, &target).await.map_err(shown)?;
    client.read("/api/v1/plugins").await.map_err(shown)
}

fn no_plugins() -> (StatusCode, Value) {
    (StatusCode::OK, json!({ "items": [] }))
}

/// A file with this content, and its path.
fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A login program that prints this status.
fn exec(status: &str) -> Value {
    let printed =
        format!(r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{status}}}"#);
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [printed], "interactiveMode": "Never",
    } })
}

#[tokio::test]
async fn certificate_must_be_of_the_authority_and_for_the_host() {
    let daemon = Daemon::start("informant.example.com", no_plugins()).await;
    let folder = tempfile::tempdir().unwrap();
    let token = file(&folder, "token", "secret\n");
    let (url, authority) = (
        format!("https://{}", daemon.address),
        daemon.certificate.display().to_string(),
    );
    let of = async |flags: &[&str]| plugins(&[&["--admin", &url, "--token-file", &token], flags].concat()).await;
    let trusted = ["--certificate-authority", &authority];
    let named = ["--tls-server-name", "informant.example.com"];
    for (flags, advice) in [
        (&[][..], "--certificate-authority"),
        (&trusted, "pass the name that it is valid for with --tls-server-name"),
        (&named, "--certificate-authority"),
    ] {
        let error = of(flags).await.unwrap_err();
        assert!(error.contains("invalid peer certificate"), "{flags:?}: {error}");
        assert!(error.contains(advice), "{flags:?}: {error}");
    }
    let other = file(&folder, "empty", "");
    let error = of(&["--certificate-authority", &other]).await.unwrap_err();
    assert!(
        error.ends_with("(--certificate-authority): it contains no certificate in PEM"),
        "{error}"
    );
    assert_eq!(
        daemon.seen(),
        [""; 0],
        "a token was sent to a server that is not trusted"
    );

    let request = format!("GET /api/v1/plugins {} Bearer secret", daemon.address);
    for flags in [&[trusted, named].concat()[..], &["--insecure-skip-tls-verify"]] {
        assert!(of(flags).await.unwrap().items.is_empty());
        assert_eq!(daemon.seen(), std::slice::from_ref(&request), "{flags:?}");
    }
}

#[tokio::test]
async fn no_token_leaves_over_plain_http() {
    let daemon = Daemon::start("localhost", no_plugins()).await;
    let folder = tempfile::tempdir().unwrap();
    let token = file(&folder, "token", "secret");
    let address = daemon.address.to_string();
    for flags in [
        &["--token-file", &token][..],
        &["--service-account", "ci"],
        &["--insecure-skip-tls-verify"],
        &["--certificate-authority", "ca.crt"],
        &["--tls-server-name", "localhost"],
    ] {
        let error = plugins(&[&["--admin", &address], flags].concat()).await.unwrap_err();
        assert!(error.contains(flags[0]) && error.contains("plain HTTP"), "{error}");
        assert!(error.ends_with(&format!("pass --admin https://{address}")), "{error}");
    }
    let error = plugins(&["--admin", &address]).await.unwrap_err();
    assert!(
        error.ends_with(&format!("if its admin server uses TLS, pass --admin https://{address}")),
        "{error}"
    );
    assert_eq!(daemon.seen(), [""; 0]);
}

#[tokio::test]
async fn tls_to_a_plain_port_is_explained() {
    let api = ApiServer::start(json!([]), None, None).await;
    let folder = tempfile::tempdir().unwrap();
    let token = file(&folder, "token", "secret");
    let url = api.url.replace("http:", "https:");
    let error = plugins(&["--admin", &url, "--token-file", &token]).await.unwrap_err();
    assert!(error.contains("it does not use TLS"), "{error}");
    assert_eq!(api.seen(), [""; 0]);
}

#[tokio::test]
async fn token_of_the_kubeconfig_user_is_sent() {
    let daemon = Daemon::start("localhost", no_plugins()).await;
    let api = ApiServer::start(json!([]), None, None).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("https://{}", daemon.address);
    let as_user = async |user: Value| {
        let kubeconfig = api.kubeconfig(&folder, &user);
        plugins(&[
            "--admin",
            &url,
            "--insecure-skip-tls-verify",
            "--kubeconfig",
            &kubeconfig,
        ])
        .await
    };
    let token = file(&folder, "token", "secret\n");
    let id_token = "e30.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln";
    for (user, sent) in [
        (json!({ "token": "secret" }), "secret"),
        (json!({ "tokenFile": token }), "secret"),
        (exec(r#"{"token":"secret"}"#), "secret"),
        (
            json!({ "auth-provider": { "name": "oidc", "config": { "id-token": id_token } } }),
            id_token,
        ),
    ] {
        as_user(user.clone()).await.unwrap();
        let seen = daemon.seen();
        assert!(
            seen.len() == 1 && seen[0].ends_with(&format!("Bearer {sent}")),
            "{user}: {seen:?}"
        );
    }
    let without = "the kubeconfig's user has no bearer token";
    for (user, problem) in [
        (json!({}), without),
        (json!({ "username": "me", "password": "secret" }), without),
        (
            json!({ "token": "secret", "as": "root" }),
            "the kubeconfig's user acts as root",
        ),
        (exec("{}"), "its ExecCredential has neither"),
        (
            json!({ "tokenFile": file(&folder, "invalid", "secret\u{1}") }),
            "characters that a header cannot have",
        ),
        (json!({ "tokenFile": "absent" }), "absent"),
    ] {
        let error = as_user(user.clone()).await.unwrap_err();
        assert!(error.contains(problem), "{user}: {error}");
        assert!(!error.contains("secret"), "{error}");
        if problem == without {
            assert!(
                error.contains("--service-account") && error.contains("--token-file"),
                "{error}"
            );
        }
    }
    assert_eq!(daemon.seen(), [""; 0]);
}

#[tokio::test]
async fn service_account_token_is_requested_for_informant_only() {
    let daemon = Daemon::start("localhost", no_plugins()).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("https://{}", daemon.address);
    let api = ApiServer::start(json!([]), None, None).await;
    let kubeconfig = api.kubeconfig(&folder, &json!({ "token": "secret" }));
    for (account, path) in [
        ("ci", "team/serviceaccounts/ci"),
        ("other/ci", "other/serviceaccounts/ci"),
    ] {
        plugins(&[
            "--admin",
            &url,
            "--insecure-skip-tls-verify",
            "--kubeconfig",
            &kubeconfig,
            "--service-account",
            account,
        ])
        .await
        .unwrap();
        assert_eq!(
            daemon.seen(),
            [format!("GET /api/v1/plugins {} Bearer requested", daemon.address)]
        );
        let seen = api.seen();
        assert!(
            seen.len() == 1 && seen[0].starts_with(&format!("POST /api/v1/namespaces/{path}/token ")),
            "{seen:?}"
        );
        let spec = r#""spec":{"audiences":["informant"],"expirationSeconds":600}"#;
        assert!(seen[0].contains("Bearer secret") && seen[0].contains(spec), "{seen:?}");
    }
    let api = ApiServer::start(json!([]), None, Some(StatusCode::FORBIDDEN)).await;
    let kubeconfig = api.kubeconfig(&folder, &json!({ "token": "secret" }));
    let flags = ["--admin", &url, "--kubeconfig", &kubeconfig, "--service-account", "ci"];
    insta::assert_snapshot!(plugins(&flags).await.unwrap_err(), @"cannot obtain a token of the service account team/ci from the API server: it is forbidden; you need `create` on serviceaccounts/token for this service account");
    assert_eq!(daemon.seen(), [""; 0]);
}
