//! The admin port with TLS on the real kube-apiserver, with RBAC: two users, each of whom sees what RBAC lets them see
//! in the cluster, and nothing else.

mod kubectl_informant;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::{Method, Request};
use http_body_util::BodyExt;
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind, Login};
use informant_tests::guests;
use informant_tests::process::Process;
use informant_tests::wait;
use kube::client::Body;
use serde_json::{Value, json};

use super::rights::{kubectl, run};

const CONFIG: &str = "[admin]\nlisten = \"127.0.0.1:0\"\ntls = \"self-signed\"\n\n\
    [informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n\n\
    [informer.secrets]\nresource = \"v1/secrets\"\n\n\
    [informer.nodes]\nresource = \"v1/nodes\"\n";

/// The deadline of everything that is waited for.
const WITHIN: Duration = Duration::from_secs(60);

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The ClusterRoles of the chart, as rendered.
const ACCESS_ROLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kustomize/access-roles.yaml");

/// Creates two namespaces with a pod and a Secret each, and two users: alice reads pods and Secrets of `team-a` and
/// operates Informant, bob reads pods of `team-b` and sees Informant's status.
pub(crate) async fn prepare(cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    for team in ["team-a", "team-b"] {
        client
            .post("/api/v1/namespaces", &json!({"metadata": {"name": team}}))
            .await?;
        let path = format!("/api/v1/namespaces/{team}");
        let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "nginx"}]}});
        client.post(&format!("{path}/pods"), &pod).await?;
        let secret = json!({"metadata": {"name": "db"}, "stringData": {"password": "hunter2"}});
        client.post(&format!("{path}/secrets"), &secret).await?;
    }
    for user in ["alice", "bob", "mallory"] {
        kubectl(cluster, &["create", "serviceaccount", user, "-n", "default"]).await?;
    }
    kubectl(cluster, &["apply", "-f", ACCESS_ROLES]).await?;
    for (team, user, resources) in [("team-a", "alice", "pods,secrets"), ("team-b", "bob", "pods")] {
        let (role, resource) = (format!("{user}-reads"), format!("--resource={resources}"));
        let subject = format!("--serviceaccount=default:{user}");
        kubectl(
            cluster,
            &["create", "role", &role, "--verb=get,list", &resource, "-n", team],
        )
        .await?;
        let bound = format!("--role={role}");
        kubectl(cluster, &["create", "rolebinding", &role, &bound, &subject, "-n", team]).await?;
    }
    for (user, role) in [("alice", "informant-operate"), ("bob", "informant-view")] {
        let (role, subject) = (
            format!("--clusterrole={role}"),
            format!("--serviceaccount=default:{user}"),
        );
        kubectl(cluster, &["create", "clusterrolebinding", user, &role, &subject]).await?;
    }
    Ok(())
}

pub(crate) async fn token(cluster: &Cluster, user: &str, more: &[&str]) -> Result<String> {
    let args = [&["create", "token", user, "-n", "default"], more].concat();
    Ok(kubectl(cluster, &args).await?.trim().to_owned())
}

/// `informant run` with the rights that `informant rbac` prints, and where its two servers listen.
pub(crate) async fn informant(cluster: &Cluster) -> Result<(Process, SocketAddr, SocketAddr)> {
    let (config, rights) = (
        cluster.folder().join("secured.toml"),
        cluster.folder().join("rights.yaml"),
    );
    std::fs::write(&config, CONFIG)?;
    let config = config.display().to_string();
    let (code, printed) = run(&guests::informant()?, &["rbac", "-c", &config, "-n", "default"]).await?;
    ensure!(code == 0, "{printed}");
    std::fs::write(&rights, printed)?;
    kubectl(cluster, &["apply", "-f", &rights.display().to_string()]).await?;
    let login = Login::token(&token(cluster, "informant", &[]).await?);
    let kubeconfig = cluster
        .kubeconfigs()
        .write("informant", cluster.address(), &login)
        .await?;
    let args = [
        "run".to_owned(),
        format!("--config={config}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--health-listen=127.0.0.1:0".to_owned(),
        "--log-format=json".to_owned(),
    ];
    let mut process = Process::start(&guests::informant()?, args)?;
    let [health, admin] = ["health server listening", "admin server listening"];
    let health = process
        .wait_for_line(health, WITHIN, |line| address_of(line, health))
        .await?;
    let admin = process
        .wait_for_line(admin, WITHIN, |line| address_of(line, admin))
        .await?;
    Ok((process, health, admin))
}

fn address_of(line: &str, message: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = &line["fields"];
    (fields["message"] == message).then(|| fields["address"].as_str()?.parse().ok())?
}

/// A user of the admin port.
struct User(Client);

impl User {
    async fn new(cluster: &Cluster, name: &str, admin: SocketAddr, token: &str) -> Result<Self> {
        let kubeconfig = cluster.kubeconfigs().write(name, admin, &Login::token(token)).await?;
        Ok(Self(Client::new(&kubeconfig).await?))
    }

    async fn send(&self, method: Method, path: &str, body: &str) -> Result<(u16, String)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.as_bytes().to_vec()))?;
        let answer = self.0.kube().send(request).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn get(&self, path: &str) -> Result<(u16, String)> {
        self.send(Method::GET, path, "").await
    }

    async fn status(&self, path: &str) -> Result<u16> {
        Ok(self.get(path).await?.0)
    }

    /// The status of an action without an effect: the plugin does not exist.
    async fn act(&self, path: &str) -> Result<u16> {
        Ok(self.send(Method::POST, path, "{}").await?.0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_users_see_what_rbac_lets_each_see() {
    if let Some(cluster) = crate::cluster(Kind::Real).await {
        two_users(cluster).await.unwrap();
    }
}

async fn two_users(cluster: Cluster) -> Result<()> {
    prepare(&cluster).await?;
    let (process, health, admin) = informant(&cluster).await?;
    let tokens = [
        token(&cluster, "alice", &["--audience=informant"]).await?,
        // For the API server itself, as in a kubeconfig.
        token(&cluster, "bob", &[]).await?,
    ];
    let alice = User::new(&cluster, "alice", admin, &tokens[0]).await?;
    let bob = User::new(&cluster, "bob", admin, &tokens[1]).await?;
    wait::until("informant to be ready", WITHIN, async || {
        let status = alice.status("/readyz").await.map_err(|error| format!("{error:#}"))?;
        if status == 200 {
            Ok(())
        } else {
            Err(format!("{status}; health on {health}"))
        }
    })
    .await?;
    for (path, expected) in [
        ("/api/v1/get/pods?namespace=team-a", [200, 403]),
        ("/api/v1/get/pods?namespace=team-b", [403, 200]),
        ("/api/v1/get/pods?namespace=team-a&name=web", [200, 403]),
        ("/api/v1/get/pods?namespace=team-b&name=web", [403, 200]),
        ("/api/v1/get/pods?namespace=team-b&name=absent", [403, 404]),
        ("/api/v1/get/pods?index=node&value=none&namespace=team-b", [403, 200]),
        ("/api/v1/get/pods", [403, 403]),
        ("/api/v1/get/pods?index=node&value=none", [403, 403]),
        ("/api/v1/get/pods?name=web", [403, 403]),
        ("/api/v1/get/secrets?namespace=team-a", [200, 403]),
        (
            "/api/v1/get/secrets?namespace=team-b&name=db&show-secrets=true",
            [403, 403],
        ),
        ("/api/v1/get/nodes", [403, 403]),
        ("/api/v1/sources", [200, 200]),
        ("/api/v1/plugins", [200, 200]),
        ("/api/v1/dead-letters", [200, 200]),
        ("/api/v1/configuration", [200, 200]),
        ("/api/v1/plugins/none/effects", [404, 404]),
        // The right to this path is the API server's own, too, so the roles do not have it.
        ("/metrics", [403, 403]),
        ("/readyz?verbose", [200, 200]),
    ] {
        let found = [alice.status(path).await?, bob.status(path).await?];
        ensure!(found == expected, "{path}: {found:?}, not {expected:?}");
    }
    let (_, own) = alice.get("/api/v1/get/pods?namespace=team-a").await?;
    ensure!(own.contains("team-a") && !own.contains("team-b"), "{own}");
    for action in ["pause", "resume", "requeue"] {
        let path = format!("/api/v1/plugins/none/{action}");
        let found = [alice.act(&path).await?, bob.act(&path).await?];
        ensure!(found == [404, 403], "{path}: {found:?}");
    }
    let level = "{\"level\":\"info\"}";
    let changed = alice.send(Method::POST, "/api/v1/loglevel", level).await?;
    ensure!(changed.0 == 200, "{changed:?}");
    let (_, hidden) = alice.get("/api/v1/get/secrets?namespace=team-a&name=db").await?;
    ensure!(
        hidden.contains("<7 bytes>") && !hidden.contains("aHVudGVyMg=="),
        "{hidden}"
    );
    let (_, shown) = alice
        .get("/api/v1/get/secrets?namespace=team-a&name=db&show-secrets=true")
        .await?;
    ensure!(shown.contains("aHVudGVyMg=="), "{shown}");
    let (_, refused) = bob.get("/api/v1/get/secrets?namespace=team-a").await?;
    ensure!(
        refused.contains("cannot list resource \\\"secrets\\\" in API group \\\"\\\" in the namespace \\\"team-a\\\""),
        "{refused}"
    );
    refused_tokens(&cluster, admin).await?;
    revoked_rights(&cluster, &alice, &bob).await?;
    let logged = process.lines(0, |line| tokens.iter().any(|token| line.contains(token)).then_some(()));
    ensure!(logged.is_empty(), "a token is in the log");
    Ok(())
}

/// Tokens for another audience, forged ones, of a user without rights, and of a user who is gone.
async fn refused_tokens(cluster: &Cluster, admin: SocketAddr) -> Result<()> {
    let path = "/api/v1/get/pods?namespace=team-a";
    let vault = token(cluster, "alice", &["--audience=vault"]).await?;
    let vault = User::new(cluster, "vault", admin, &vault).await?;
    ensure!(vault.status(path).await? == 401, "another audience");
    let forged = User::new(cluster, "forged", admin, "forged").await?;
    ensure!(forged.status(path).await? == 401, "a forged token");
    let mallory = token(cluster, "mallory", &["--audience=informant"]).await?;
    let mallory = User::new(cluster, "mallory", admin, &mallory).await?;
    for path in [
        path,
        "/api/v1/sources",
        "/api/v1/plugins",
        "/api/v1/configuration",
        "/metrics",
    ] {
        ensure!(mallory.status(path).await? == 403, "{path} without rights");
    }
    kubectl(cluster, &["delete", "serviceaccount", "mallory", "-n", "default"]).await?;
    wait::until(
        "the token of a deleted account to be refused",
        WITHIN,
        async || match mallory.status(path).await {
            Ok(401) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await
}

/// A right that is taken away ends, and that of the other user does not.
async fn revoked_rights(cluster: &Cluster, alice: &User, bob: &User) -> Result<()> {
    let client = cluster.client().await?;
    client
        .delete(&format!("{RBAC}/namespaces/team-a/rolebindings/alice-reads"))
        .await?;
    wait::until("alice to lose her right", WITHIN, async || {
        match alice.status("/api/v1/get/pods?namespace=team-a").await {
            Ok(403) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    ensure!(
        bob.status("/api/v1/get/pods?namespace=team-b").await? == 200,
        "bob keeps his"
    );
    Ok(())
}
