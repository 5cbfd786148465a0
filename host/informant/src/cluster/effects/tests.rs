//! Against a server on a real socket.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::Method;
use informant_informer::TokioEnvironment;
use informant_plugin_host::{
    KubeAction, KubeAddress, KubeApi as _, KubeCall, KubeError, KubePatchKind, KubePurpose, KubeWrite,
};
use informant_spec::KubeResource;
use tokio::net::TcpListener;

use super::*;
use crate::kube_api::ClusterApi;

/// Open or not.
struct Switch(AtomicBool);

impl ActingGate for Switch {
    fn remaining(&self, _acts_for: ActsFor<'_>) -> Option<Duration> {
        self.0.load(Ordering::Relaxed).then_some(Duration::from_secs(1))
    }
}

/// A server that counts what it receives, a client of it, and the gate of its effects.
struct Rig {
    api: ClusterApi,
    gate: Arc<Switch>,
    writes: Arc<AtomicUsize>,
}

impl Rig {
    async fn start() -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&writes);
        let routes = Router::new().fallback(async move |method: Method| {
            counted.fetch_add(usize::from(method != Method::GET), Ordering::Relaxed);
            "{}"
        });
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let gate = Arc::new(Switch(AtomicBool::new(true)));
        let client = client(
            Config::new(url.parse().unwrap()),
            Some(Arc::clone(&gate) as Arc<dyn ActingGate>),
        );
        let clusters = BTreeMap::from([(String::new(), client.unwrap())]);
        Rig {
            api: ClusterApi::of(clusters, Arc::new(TokioEnvironment::current(0))),
            gate,
            writes,
        }
    }

    async fn call(&self, action: KubeAction) -> Result<Vec<u8>, KubeError> {
        let address = KubeAddress {
            cluster: String::new(),
            resource: KubeResource::parse("v1/configmaps").unwrap(),
            namespace: "default".to_owned(),
            name: "m".to_owned(),
            subresource: String::new(),
        };
        let call = KubeCall {
            plugin: Arc::from("marker"),
            address,
            action,
            uid: String::new(),
            purpose: KubePurpose::Plugin,
            identity: None,
            answer_bytes_max: 1 << 20,
        };
        self.api.call(call).await
    }

    async fn write(&self) -> Result<Vec<u8>, KubeError> {
        let write = KubeWrite {
            field_manager: "informant-marker".to_owned(),
            field_validation: None,
            force: true,
            dry_run: false,
        };
        let action = KubeAction::Patch(KubePatchKind::Merge, b"{}".to_vec(), write);
        self.call(action).await
    }
}

#[tokio::test]
async fn closed_gate_lets_no_write_out_but_reads() {
    let rig = Rig::start().await;
    rig.write().await.unwrap();
    rig.gate.0.store(false, Ordering::Relaxed);
    // On the connection that there is, and on a new one.
    for _ in 0..2 {
        let refused = rig.write().await.unwrap_err();
        assert!(
            refused.message.starts_with("another replica of Informant acts now"),
            "{}",
            refused.message
        );
    }
    rig.call(KubeAction::Get).await.unwrap();
    assert_eq!(
        rig.writes.load(Ordering::Relaxed),
        1,
        "the server received no other write"
    );
    rig.gate.0.store(true, Ordering::Relaxed);
    rig.write().await.unwrap();
}

#[test]
fn proxy_credentials_come_from_the_user_information() {
    let with = credentials(&Uri::from_static("http://user:p%40ss@proxy.example.com:3128")).unwrap();
    assert_eq!(with, "Basic dXNlcjpwQHNz");
    assert_eq!(credentials(&Uri::from_static("https://proxy.example.com:3128")), None);
}

#[test]
fn every_proxy_scheme_of_kube_is_supported() {
    let gate: Arc<dyn ActingGate> = Arc::new(Switch(AtomicBool::new(true)));
    let made = |proxy: &str| {
        let mut config = Config::new("https://api.example.com".parse().unwrap());
        config.proxy_url = Some(proxy.parse().unwrap());
        client(config, Some(Arc::clone(&gate)))
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    for scheme in ["http", "https", "socks5"] {
        made(&format!("{scheme}://user:password@proxy.example.com:1080")).unwrap();
    }
    let refused = made("ftp://proxy.example.com");
    assert!(matches!(refused, Err(kube::Error::ProxyProtocolUnsupported { .. })));
}
