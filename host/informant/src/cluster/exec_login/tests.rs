use std::time::Instant;

use super::*;
use crate::files::Turn;

const LONG: Duration = Duration::from_secs(30);

/// A login that runs `script` with sh.
fn exec(script: &str) -> ExecConfig {
    serde_json::from_value(json!({
        "apiVersion": VERSIONS[0], "command": "sh", "args": ["-c", script], "interactiveMode": "IfAvailable",
        "env": [{ "name": "ANSWER", "value": "to env" }],
    }))
    .unwrap()
}

fn printing(status: &str) -> ExecConfig {
    exec(&format!(
        "echo '{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{}\",\"status\":{status}}}'",
        VERSIONS[0]
    ))
}

async fn error(exec: &ExecConfig, deadline: Duration) -> String {
    match run(exec, deadline).await {
        Ok(_) => panic!("credentials"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn login_program_yields_token_certificate_and_expiry() {
    let exec = printing(r#"{"token":" secret","expirationTimestamp":"2030-01-02T03:04:05Z"}"#);
    let login = run(&exec, LONG).await.unwrap();
    assert_eq!(login.token.as_deref(), Some("secret"));
    assert_eq!(login.expires.unwrap().to_string(), "2030-01-02T03:04:05Z");
    assert!(login.identity.is_none());

    let identity = r#"{"clientCertificateData":"certificate","clientKeyData":"key"}"#;
    let login = run(&printing(identity), LONG).await.unwrap();
    let identity = login.identity.unwrap();
    assert_eq!((&*identity.certificate, &*identity.key), ("certificate", "key"));
    assert!(login.token.is_none());
}

#[tokio::test]
async fn login_program_receives_environment_and_cluster() {
    let script = r#"test "$ANSWER" = "to env" || exit 3
        echo "kind: ExecCredential"; echo "apiVersion: client.authentication.k8s.io/v1beta1"
        echo "status: {token: '$KUBERNETES_EXEC_INFO'}""#;
    let mut exec = exec(script);
    exec.api_version = Some(VERSIONS[1].to_owned());
    exec.provide_cluster_info = true;
    exec.cluster = serde_json::from_value(json!({ "server": "https://east", "config": { "audience": "x" } })).unwrap();
    let token = run(&exec, LONG).await.unwrap().token.unwrap();
    let info: serde_json::Value = serde_json::from_str(&token).unwrap();
    assert_eq!(
        info,
        json!({
            "kind": "ExecCredential", "apiVersion": VERSIONS[1],
            "spec": { "interactive": false, "cluster": { "server": "https://east", "config": { "audience": "x" } } },
        })
    );
}

#[tokio::test]
async fn hanging_login_program_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("child");
    let script = format!(
        "sleep 1000 & echo $! > {}; echo 'visit \"x\"' >&2; wait",
        file.display()
    );
    let began = Instant::now();
    let error = error(&exec(&script), Duration::from_secs(1)).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(
        error,
        "login program `sh` (users[].user.exec of the kubeconfig): did not end within 1 s and was killed; it printed: visit \"x\""
    );
    let child = std::fs::read_to_string(&file).unwrap();
    wait_until_gone(child.trim()).await;
}

async fn wait_until_gone(process: &str) {
    let is_gone = || {
        let status = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
        status.map_or(true, |status| status.contains(") Z "))
    };
    for _ in 0..500 {
        if is_gone() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("process {process} still runs");
}

#[tokio::test]
async fn endless_login_output_is_refused_at_once() {
    let error = error(&exec("yes"), LONG).await;
    assert!(
        error.ends_with("printed more than 1048576 bytes and was killed"),
        "{error}"
    );
}

#[tokio::test]
async fn login_error_shows_bounded_escaped_stderr_without_token() {
    let script = "echo '{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"secret-1\"}}'
        printf 'token secret-1 \\033[31m\\n\\342\\200\\256' >&2; head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 7";
    let error = error(&exec(script), LONG).await;
    let begins = r"ended with exit status: 7; it printed: token [token] \u{1b}[31m\n\u{202e}xxx";
    assert!(error.contains(begins), "{error:.300}");
    assert!(error.len() < 5_000, "{}", error.len());
}

#[tokio::test]
async fn login_error_shows_neither_private_key_nor_cut_token() {
    let key = "-----BEGIN PRIVATE KEY-----\\nc2VjcmV0LWtleQ\\n-----END PRIVATE KEY-----\\n";
    let credential = format!(
        r#"{{"kind":"ExecCredential","status":{{"token":"secret-token","clientCertificateData":"c","clientKeyData":"{key}"}}}}"#
    );
    let print = |text: &str| format!("printf '%s' '{credential}'; printf '%b' '{text}' >&2;");
    let whole = error(&exec(&format!("{} exit 7", print(key))), LONG).await;
    assert!(whole.ends_with(r"it printed: [key]\n[key]\n[key]"), "{whole}");
    let quoted = error(&exec(&format!("{} exit 7", print(&key.replace('\\', r"\\")))), LONG).await;
    assert!(quoted.ends_with(r"it printed: [key]\n[key]\n[key]\n"), "{quoted}");

    let kept = usize::try_from(LOGIN_STDERR_BYTES_MAX).unwrap();
    let cut = format!("{}secret-token", "x".repeat(kept - "secret-to".len()));
    let cut = error(&exec(&format!("{} exit 7", print(&cut))), LONG).await;
    assert!(cut.ends_with("xxx[token]"), "{}", &cut[cut.len() - 20..]);

    // As shown of a program that has printed them and does not end.
    let late = shown(
        b"secret-token",
        credential.as_bytes(),
        parse(credential.as_bytes()).as_ref(),
    );
    assert_eq!(late, "; it printed: [token]");
}

#[tokio::test]
async fn stderr_is_hidden_next_to_output_that_cannot_be_read() {
    // An error after the credentials, another document, a part of them, or no kind.
    let outputs = [
        r#"{"kind":"ExecCredential","status":{"token":"secret-1"}} warning"#,
        r#"{"kind":"ExecCredential","status":{"token":"secret-1"#,
        "token: secret-1",
    ];
    for output in outputs {
        for end in ["exit 7", "exit 0"] {
            let error = error(
                &exec(&format!("printf '%s' '{output}'; echo got secret-1 >&2; {end}")),
                LONG,
            )
            .await;
            assert!(error.contains("its standard error is not shown"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
    let unknown = error(&exec("echo 'got eyJhbGciOiJ9.eyJzdWIi.c2ln' >&2; exit 7"), LONG).await;
    assert!(unknown.ends_with("it printed: got [token]"), "{unknown}");
}

#[tokio::test]
async fn login_program_that_cannot_start_takes_one_thread() {
    let mut exec = exec("");
    exec.command = Some("/usr/bin/env".to_owned());
    let _starting = Turn::of(Path::new("/usr/bin/env")).hold().await;
    let error = error(&exec, Duration::from_secs(1)).await;
    assert!(
        error.ends_with("was not started within 1 s; its file system may hang"),
        "{error}"
    );
}

#[tokio::test]
async fn unusable_login_settings_and_answers_are_explained() {
    let mut interactive = exec("true");
    interactive.interactive_mode = Some(ExecInteractiveMode::Always);
    let mut old = exec("true");
    old.api_version = Some("client.authentication.k8s.io/v1alpha1".to_owned());
    let mut absent = exec("true");
    absent.command = Some("/no/such/login".to_owned());
    absent.install_hint = Some("install the cloud's tool".to_owned());
    let cases = [
        (interactive, "needs a terminal"),
        (
            old,
            "use client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1",
        ),
        (
            absent,
            "cannot be started: No such file or directory (os error 2); install the cloud's tool",
        ),
        (
            exec("echo token: secret"),
            "its output of 14 bytes is not an ExecCredential",
        ),
        (printing("{}"), "has neither `status.token` nor"),
        (
            printing(r#"{"token":"t","expirationTimestamp":"soon"}"#),
            "is not a time",
        ),
        (printing(r#"{"token":"t","clientKeyData":"k"}"#), "has neither"),
    ];
    for (exec, expected) in cases {
        let error = error(&exec, LONG).await;
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
