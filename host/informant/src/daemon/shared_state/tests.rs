use informant_apiserver::{ApiServer, Filter, Options};
use informant_informer::TokioEnvironment;
use kube::Client;

use super::*;

/// Shared state on `server`, and what opens it.
fn shared_state(server: &ApiServer) -> SharedState {
    let environment: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(0));
    let client = Client::new(server.service(), "default");
    let shared = SharedState::new(Duration::ZERO, SharedMetrics::default(), Arc::clone(&environment));
    shared.connect(SecretApi::new(client, None, "informant", environment));
    shared
}

/// Begins to act.
fn begin(shared: &SharedState) -> Gate {
    let gate = Gate::always_open();
    shared.begin(TermOf {
        identity: "informant-0",
        epoch: 0,
        gate: gate.clone(),
    });
    gate
}

#[tokio::test]
async fn state_is_not_claimed_after_the_gate_has_closed() {
    let server = ApiServer::new(Options::default());
    let shared = shared_state(&server);
    server.faults().hold(Filter::any().resource("secrets"), u32::MAX);
    let gate = begin(&shared);
    while server.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    gate.close();
    server.faults().clear();
    let refused = shared.keys("counter").await.unwrap_err();
    assert!(refused.contains("does not act"), "{refused}");
    assert!(server.list("v1/secrets").unwrap().is_empty());
    begin(&shared);
    shared.keys("counter").await.unwrap();
    assert_eq!(server.list("v1/secrets").unwrap().len(), 1);
}
