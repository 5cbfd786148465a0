//! Against the embedded API server as a service, without a socket.

use std::sync::Arc;

use futures::FutureExt as _;
use informant_apiserver::{ApiServer, Options};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{
    KubeAction, KubeAddress, KubeDelete, KubeList, KubePatchKind, KubePropagation, KubePurpose, KubeWrite, NotActing,
};
use informant_spec::KubeResource;
use serde_json::{Value, json};

use super::*;

/// The calls of the only cluster, whose name is empty.
fn of_one(client: Client, environment: Arc<dyn Environment>) -> ClusterApi {
    ClusterApi::of(BTreeMap::from([(String::new(), client)]), environment)
}

fn api(server: &ApiServer) -> ClusterApi {
    let environment = Arc::new(TokioEnvironment::current(0));
    of_one(Client::new(server.service(), "default"), environment)
}

fn call(resource: &str, name: &str, action: KubeAction) -> KubeCall {
    KubeCall {
        plugin: Arc::from("marker"),
        address: KubeAddress {
            cluster: String::new(),
            resource: KubeResource::parse(resource).unwrap(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
        },
        action,
        uid: String::new(),
        purpose: KubePurpose::Plugin,
        identity: None,
        answer_bytes_max: 1 << 20,
    }
}

fn write() -> KubeWrite {
    KubeWrite {
        field_manager: "informant-marker".to_owned(),
        field_validation: None,
        force: true,
        dry_run: false,
    }
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

async fn done(api: &ClusterApi, name: &str, action: KubeAction) -> Value {
    let answer = api.call(call("v1/configmaps", name, action)).await.unwrap();
    serde_json::from_slice(&answer).unwrap()
}

async fn refused(api: &ClusterApi, name: &str, action: KubeAction) -> String {
    let error = api.call(call("v1/configmaps", name, action)).await.unwrap_err();
    format!("{} {}: {}", error.status, error.code.as_str(), error.message)
}

#[test]
fn a_call_as_somebody_else_names_the_user() {
    let mut call = call("v1/configmaps", "m", KubeAction::Get);
    assert!(!request::of(&call).unwrap().headers().contains_key("impersonate-user"));
    call.identity = Some(Arc::from("system:serviceaccount:web:labeler"));
    let request = request::of(&call).unwrap();
    assert_eq!(
        request.headers()["impersonate-user"],
        "system:serviceaccount:web:labeler"
    );
}

#[tokio::test]
async fn every_verb_and_patch_type_arrives() {
    let server = ApiServer::new(Options::default());
    let api = api(&server);
    let made = done(&api, "", KubeAction::Create(bytes(&map("m")), write())).await;
    assert_eq!(made["metadata"]["namespace"], "default");
    let patch = |kind, document: Value| KubeAction::Patch(kind, bytes(&document), write());
    done(&api, "m", patch(KubePatchKind::Merge, json!({ "data": { "b": "2" } }))).await;
    done(
        &api,
        "m",
        patch(KubePatchKind::Strategic, json!({ "data": { "c": "3" } })),
    )
    .await;
    let operations = json!([{ "op": "add", "path": "/data/d", "value": "4" }]);
    done(&api, "m", patch(KubePatchKind::Json, operations)).await;
    let applied = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "e": "5" } });
    done(&api, "m", patch(KubePatchKind::Apply, applied)).await;
    let mut now = done(&api, "m", KubeAction::Get).await;
    assert_eq!(now["data"], json!({ "a": "1", "b": "2", "c": "3", "d": "4", "e": "5" }));
    now["data"] = json!({ "f": "6" });
    let updated = done(&api, "m", KubeAction::Update(bytes(&now), write())).await;
    assert_eq!(updated["data"], json!({ "f": "6" }));
    let list = done(
        &api,
        "",
        KubeAction::List(KubeList {
            limit: 5,
            ..KubeList::default()
        }),
    )
    .await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let only = KubeDelete {
        uid: now["metadata"]["uid"].as_str().unwrap().to_owned(),
        propagation: Some(KubePropagation::Background),
        ..KubeDelete::default()
    };
    done(&api, "m", KubeAction::Delete(only)).await;
    assert!(refused(&api, "m", KubeAction::Get).await.starts_with("404 not-found"));
}

#[tokio::test]
async fn a_write_with_an_older_uid_is_a_conflict() {
    let server = ApiServer::new(Options::default());
    let api = api(&server);
    let make = || KubeAction::Create(bytes(&map("m")), write());
    let old = done(&api, "", make()).await;
    done(&api, "m", KubeAction::Delete(KubeDelete::default())).await;
    let new = done(&api, "", make()).await;
    let patch = |kind, document: Value| KubeAction::Patch(kind, bytes(&document), write());
    let applied = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "c": "3" } });
    let actions = [
        patch(KubePatchKind::Merge, json!({ "data": { "a": "2" } })),
        patch(KubePatchKind::Strategic, json!({ "data": { "a": "2" } })),
        patch(
            KubePatchKind::Json,
            json!([{ "op": "add", "path": "/data/b", "value": "2" }]),
        ),
        patch(KubePatchKind::Apply, applied.clone()),
        KubeAction::Update(bytes(&map("m")), write()),
    ];
    let send = async |name: &str, action: KubeAction, of: &Value| {
        let uid = of["metadata"]["uid"].as_str().unwrap().to_owned();
        let call = KubeCall {
            uid,
            ..call("v1/configmaps", name, action)
        };
        api.call(call).await.map_err(|error| error.status)
    };
    for action in actions {
        let refused = send("m", action.clone(), &old).await;
        assert!(matches!(refused, Err(409 | 422)), "{action:?}: {refused:?}");
        assert_eq!(done(&api, "m", KubeAction::Get).await["data"], new["data"]);
        send("m", action, &new).await.unwrap();
        let reset = KubeAction::Update(bytes(&map("m")), write());
        done(&api, "m", reset).await;
    }
    let absent = send("absent", patch(KubePatchKind::Apply, applied), &old).await;
    assert_eq!(absent.unwrap_err(), 409, "it creates nothing");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let server = ApiServer::new(Options::default());
    let api = api(&server);
    let dry_run = KubeWrite {
        dry_run: true,
        ..write()
    };
    done(&api, "", KubeAction::Create(bytes(&map("m")), dry_run)).await;
    assert!(refused(&api, "m", KubeAction::Get).await.starts_with("404"));
}

#[tokio::test]
async fn errors_carry_the_api_servers_messages() {
    let server = ApiServer::new(Options::default());
    let api = api(&server);
    done(&api, "", KubeAction::Create(bytes(&map("m")), write())).await;
    let mut outdated = map("m");
    outdated["metadata"]["resourceVersion"] = json!("1");
    let other = KubeDelete {
        uid: "x".to_owned(),
        ..KubeDelete::default()
    };
    let mut text = vec![
        refused(&api, "", KubeAction::Create(bytes(&map("m")), write())).await,
        refused(&api, "m", KubeAction::Update(bytes(&outdated), write())).await,
        refused(&api, "m", KubeAction::Delete(other)).await,
        refused(&api, "", KubeAction::Create(b"{".to_vec(), write())).await,
    ];
    let unknown = api
        .call(call("shop.example.com/v1/commands", "a", KubeAction::Get))
        .await
        .unwrap_err();
    text.push(format!(
        "{} {}: {}",
        unknown.status,
        unknown.code.as_str(),
        unknown.message
    ));
    let mut elsewhere = call("v1/configmaps", "m", KubeAction::Get);
    elsewhere.address.cluster = "east".to_owned();
    text.push(api.call(elsewhere).await.unwrap_err().message);
    let mut long = call("v1/configmaps", "m", KubeAction::Get);
    long.answer_bytes_max = 10;
    text.push(api.call(long).await.unwrap_err().message);
    let uid = server.get("v1/configmaps", "default", "m").unwrap().unwrap()["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    insta::assert_snapshot!(text.join("\n").replace(&uid, "UID"), @r#"
    409 already-exists: configmaps "m" already exists
    409 conflict: Operation cannot be fulfilled on configmaps "m": the object has been modified; please apply your changes to the latest version and try again
    409 conflict: Operation cannot be fulfilled on configmaps "m": the UID in the precondition (x) does not match the UID in record (UID). The object might have been deleted and then recreated
    400 invalid: the object provided is unrecognized: couldn't get version/kind; json parse error: EOF while parsing an object at line 1 column 1
    404 not-found: the API server responded with 404: 404 page not found; check that this version serves the resource, and whether the resource is namespaced
    there is no cluster named "east"; config.toml has one cluster, without a name: leave it empty
    the response exceeds 10 bytes; request fewer objects per page
    "#);
}

#[tokio::test]
async fn a_missing_namespace_is_not_an_absent_object() {
    let server = ApiServer::new(Options::default());
    let api = api(&server);
    done(&api, "", KubeAction::Create(bytes(&map("m")), write())).await;
    let said = async |resource: &str, name: &str, action: KubeAction| {
        let mut call = call(resource, name, action);
        call.address.namespace.clear();
        let error = api.call(call).await.unwrap_err();
        format!("{} {}: {}", error.status, error.code.as_str(), error.message)
    };
    let all = [
        said("v1/configmaps", "m", KubeAction::Get).await,
        said("v1/configmaps", "m", KubeAction::Delete(KubeDelete::default())).await,
        said("v1/configmaps", "", KubeAction::Create(bytes(&map("n")), write())).await,
        said("v1/namespaces", "absent", KubeAction::Get).await,
        said("v1/unknown", "m", KubeAction::Get).await,
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    404 invalid: v1/configmaps is namespaced, but the address has no `namespace`
    404 invalid: v1/configmaps is namespaced, but the address has no `namespace`
    405 invalid: v1/configmaps is namespaced, but the address has no `namespace`
    404 not-found: namespaces \"absent\" not found
    404 not-found: the server could not find the requested resource; if the resource is namespaced, add the namespace to the address
    ");
}

/// Runs tasks as another environment does, and reports when one has ended.
struct Watched {
    environment: TokioEnvironment,
    ended: tokio::sync::mpsc::UnboundedSender<tokio::runtime::Id>,
}

impl Environment for Watched {
    fn now(&self) -> informant_cache::Moment {
        self.environment.now()
    }

    fn sleep(&self, duration: std::time::Duration) -> informant_cache::BoxFuture {
        self.environment.sleep(duration)
    }

    fn spawn(&self, name: &'static str, task: informant_cache::BoxFuture) {
        let ended = self.ended.clone();
        let task = async move {
            task.await;
            ended.send(tokio::runtime::Handle::current().id()).unwrap();
        };
        self.environment.spawn(name, Box::pin(task));
    }

    fn random(&self) -> u64 {
        self.environment.random()
    }
}

#[tokio::test]
async fn requests_run_on_the_informers_runtime() {
    let server = ApiServer::new(Options::default());
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let environment = Arc::new(Watched {
        environment: TokioEnvironment::current(0),
        ended,
    });
    let api = of_one(Client::new(server.service(), "default"), environment);
    let asked = api.call(call("v1/configmaps", "m", KubeAction::Get));
    let guests = std::thread::spawn(|| {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(asked)
    });
    assert_eq!(ends.recv().await.unwrap(), tokio::runtime::Handle::current().id());
    assert_eq!(guests.join().unwrap().unwrap_err().code, KubeErrorCode::NotFound);
}

#[tokio::test]
async fn abandoned_request_ends() {
    let never =
        tower::service_fn(|_: Request<Body>| std::future::pending::<Result<http::Response<Body>, std::io::Error>>());
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let environment = Arc::new(Watched {
        environment: TokioEnvironment::current(0),
        ended,
    });
    let api = of_one(Client::new(never, "default"), environment);
    let mut asked = api.call(call("v1/configmaps", "m", KubeAction::Get));
    assert!((&mut asked).now_or_never().is_none());
    drop(asked);
    ends.recv().await.unwrap();
}

#[tokio::test]
async fn retry_after_of_a_busy_api_server_is_passed_on() {
    let (head, ()) = http::Response::builder()
        .status(429)
        .header("retry-after", "7")
        .body(())
        .unwrap()
        .into_parts();
    let error = errors::of_answer(&head, b"Too many requests");
    assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(7)));
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            KubeErrorCode::TooManyRequests,
            "the API server responded with 429: Too many requests"
        )
    );
}

#[test]
fn request_has_the_plugins_user_agent_and_an_escaped_path() {
    let mut of_status = call(
        "apps/v1/deployments",
        "a:b",
        KubeAction::Patch(KubePatchKind::Apply, Vec::new(), write()),
    );
    of_status.address.subresource = "status".to_owned();
    let request = request::of(&of_status).unwrap();
    assert_eq!(
        request.uri(),
        "/apis/apps/v1/namespaces/default/deployments/a%3Ab/status?fieldManager=informant-marker&force=true"
    );
    let agent = request.headers()["user-agent"].to_str().unwrap();
    assert!(
        agent.starts_with("informant/") && agent.ends_with(" plugin/marker"),
        "{agent}"
    );
}

#[tokio::test]
async fn an_address_without_a_cluster_needs_a_single_one() {
    let client = || Client::new(ApiServer::new(Options::default()).service(), "default");
    let clusters = ["east", "west"].map(|name| (name.to_owned(), client()));
    let api = ClusterApi::of(BTreeMap::from(clusters), Arc::new(TokioEnvironment::current(0)));
    let mut elsewhere = call("v1/configmaps", "m", KubeAction::Get);
    let none = api.call(elsewhere.clone()).await.unwrap_err().message;
    elsewhere.address.cluster = "north".to_owned();
    let unknown = api.call(elsewhere).await.unwrap_err().message;
    insta::assert_snapshot!([none, unknown].join("\n"), @r#"
    the call is about no object, so its address must name a cluster; config.toml has east, west
    there is no cluster named "north"; config.toml has east, west
    "#);
}

/// A cluster whose kubeconfig acts as somebody.
struct Impersonating(Client);

impl ClientSource for Impersonating {
    fn names(&self) -> Vec<String> {
        vec![String::new()]
    }

    fn client(&self, _cluster: &str) -> Result<Client, ClientUnavailable> {
        Ok(self.0.clone())
    }

    fn impersonates(&self, _cluster: &str) -> bool {
        true
    }
}

#[tokio::test]
async fn an_identity_is_refused_where_the_kubeconfig_acts_as_another() {
    let client = Client::new(ApiServer::new(Options::default()).service(), "default");
    let api = ClusterApi::of(Impersonating(client), Arc::new(TokioEnvironment::current(0)));
    let mut call = call("v1/configmaps", "m", KubeAction::Get);
    let own = api.call(call.clone()).await.unwrap_err();
    assert_eq!(own.code, KubeErrorCode::NotFound);
    call.identity = Some(Arc::from("system:serviceaccount:web:labeler"));
    let refused = api.call(call).await.unwrap_err();
    assert_eq!(refused.code, KubeErrorCode::Denied);
    insta::assert_snapshot!(refused.message, @"the kubeconfig acts as another user, so that the plugin cannot act as its ServiceAccount: remove `as` and its like from the kubeconfig, or from the section of the plugin");
}

#[test]
fn refusal_is_named_also_in_a_handshake() {
    let refused = || std::io::Error::new(std::io::ErrorKind::PermissionDenied, NotActing);
    for error in [refused(), std::io::Error::other(refused())] {
        let named = errors::of_client(&kube::Error::Service(Box::new(error)));
        assert!(
            named.message.starts_with("another replica of Informant acts now"),
            "{}",
            named.message
        );
    }
}
