//! An API server that is killed, returns with a shorter history, or with other tokens.

use anyhow::{Result, ensure};
use informant_cache::SourceState;
use informant_tests::chaos::Mode;
use informant_tests::cluster::{Cluster, Login};
use informant_tests::conformance::recording_handler::CallKind;
use informant_tests::conformance::{ARRIVES_WITHIN, ObservedInformer, Setting, Testbed};
use informant_tests::wait;

use crate::label;
use crate::rights::allow;

const UNSEEN: CallKind = CallKind::Delete {
    final_state_unknown: true,
};

pub(crate) async fn killed_in_the_middle_of_a_list(cluster: &mut Cluster) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label("killed_in_a_list"), 1).await?;
    testbed.fill("kept", 60, 1_000).await?;
    testbed.proxy.set_new(Mode::HoldAfter { bytes: 30_000 });
    let streamed = testbed.observe(Setting::config_maps(&testbed.namespace)).await?;
    let listed = Setting {
        watch_list: false,
        ..Setting::config_maps(&testbed.namespace)
    };
    let listed = testbed.observe(listed).await?;
    wait::until("both to be in the middle", ARRIVES_WITHIN, async || {
        let held = testbed.proxy.held();
        if held >= 2 { Ok(()) } else { Err(format!("{held} are")) }
    })
    .await?;
    cluster.restart_apiserver().await?;
    for observed in [&streamed, &listed] {
        ensure!(observed.handler.calls().is_empty(), "a partial state was delivered");
        ensure!(
            observed.status().state == SourceState::Syncing,
            "{:?}",
            observed.status()
        );
    }
    testbed.change("kept-0", "after the restart").await?;
    testbed.proxy.set(Mode::Pass);
    streamed.settle(&testbed.direct).await?;
    listed.settle(&testbed.direct).await
}

pub(crate) async fn killed_in_the_middle_of_watches(cluster: &mut Cluster) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label("killed_in_watches"), 1).await?;
    testbed.fill("kept", 10, 100).await?;
    // Events come in pieces, so that a line is half read when the connection ends.
    testbed.proxy.set_new(Mode::Slice { bytes_max: 50 });
    let observed = testbed.observe(Setting::config_maps(&testbed.namespace)).await?;
    observed.settle(&testbed.direct).await?;

    let writes = async {
        for round in 0..100 {
            wait::until("a write to be accepted", ARRIVES_WITHIN, async || {
                let written = testbed
                    .change(&format!("kept-{}", round % 10), &round.to_string())
                    .await;
                written.map_err(|error| format!("{error:#}"))
            })
            .await?;
        }
        anyhow::Ok(())
    };
    let (written, restarted) = tokio::join!(writes, cluster.restart_apiserver());
    let ((), ()) = (written?, restarted?);
    observed.settle(&testbed.direct).await?;
    ensure!(!observed.last_error().is_empty(), "{:?}", observed.status());
    let calls = observed.handler.calls();
    ensure!(
        calls.iter().all(|call| !matches!(call.kind, CallKind::Delete { .. })),
        "{calls:?}"
    );
    Ok(())
}

/// The history is compacted while the informer is disconnected, and the API server's watch cache is lost too.
pub(crate) async fn history_compacted_while_disconnected(cluster: &mut Cluster) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label("compacted_while_away"), 1).await?;
    testbed.fill("kept", 6, 10).await?;
    let observed = testbed.observe(Setting::config_maps(&testbed.namespace)).await?;
    observed.settle(&testbed.direct).await?;

    testbed.proxy.set(Mode::Reset);
    observed.until_state(SourceState::Stale).await?;
    testbed.delete("kept-0").await?;
    testbed.delete("kept-1").await?;
    testbed.create("kept-1", "another").await?;
    testbed.change("kept-2", "changed").await?;
    testbed.create("new", "1").await?;
    cluster.compact().await?;
    cluster.restart_apiserver().await?;

    testbed.proxy.set(Mode::Pass);
    observed.settle(&testbed.direct).await?;
    ensure!(observed.relists("expired") >= 1.0, "{:?}", observed.status());
    let what = |name: &str| -> Vec<CallKind> { observed.handler.calls_of(name).iter().map(|call| call.kind).collect() };
    ensure!(what("kept-0") == [CallKind::Add, UNSEEN], "{:?}", what("kept-0"));
    ensure!(
        what("kept-1") == [CallKind::Add, UNSEEN, CallKind::Add],
        "{:?}",
        what("kept-1")
    );
    ensure!(
        what("kept-2") == [CallKind::Add, CallKind::Update],
        "{:?}",
        what("kept-2")
    );
    // Unchanged objects are not delivered again.
    ensure!(what("kept-3") == [CallKind::Add], "{:?}", what("kept-3"));
    Ok(())
}

/// Without a watch cache, lists come in pages of one state, until that is compacted.
pub(crate) async fn list_that_expires_between_pages(cluster: &mut Cluster) -> Result<()> {
    cluster.restart_apiserver_with(&["--watch-cache=false"]).await?;
    let testbed = Testbed::prepare(cluster, &label("expired_page"), 1).await?;
    testbed.fill("kept", 60, 1_000).await?;
    testbed.proxy.set_new(Mode::HoldAfter { bytes: 12_000 });
    let setting = Setting {
        watch_list: false,
        page_items: Some(20),
        ..Setting::config_maps(&testbed.namespace)
    };
    let observed = testbed.observe(setting).await?;
    wait::until("the first page to be under way", ARRIVES_WITHIN, async || {
        let held = testbed.proxy.held();
        if held == 1 {
            Ok(())
        } else {
            Err(format!("{held} are held"))
        }
    })
    .await?;
    testbed.delete("kept-59").await?;
    testbed.change("kept-0", "changed").await?;
    cluster.compact().await?;

    testbed.proxy.set(Mode::Pass);
    observed.settle(&testbed.direct).await?;
    let expired = observed.metric("informant_reflector_lists_total", &["result=\"expired-page\""]);
    ensure!(expired == 1.0, "{expired} pages expired");
    // One full list replaced it, so that it does not count as a failure.
    ensure!(observed.status().relists == 0, "{:?}", observed.status());
    Ok(())
}

/// A user whose token is replaced.
pub(crate) struct TokenHolder {
    testbed: Testbed,
    observed: ObservedInformer,
    file: std::path::PathBuf,
}

impl TokenHolder {
    /// Starts with a token that will be refused from the next restart on.
    pub(crate) async fn begin(cluster: &mut Cluster) -> Result<Self> {
        let testbed = Testbed::prepare(cluster, &label("token"), 1).await?;
        testbed.fill("kept", 3, 10).await?;
        let file = cluster.folder().join("token");
        tokio::fs::write(&file, "reader-token").await?;
        allow(&testbed, &["list", "watch"]).await?;
        let setting = Setting {
            login: Login::TokenFile(file.clone()),
            ..Setting::config_maps(&testbed.namespace)
        };
        let observed = testbed.observe(setting).await?;
        observed.settle(&testbed.direct).await?;
        cluster.set_tokens(&[("another-token", "reader")]).await?;
        Ok(Self {
            testbed,
            observed,
            file,
        })
    }

    /// After the restart the cache is kept and the state shows the error. Then the new token is written.
    pub(crate) async fn is_refused(&self) -> Result<()> {
        let status = self.observed.until_forbidden("401").await?;
        ensure!(
            status.synced && self.observed.informer().snapshot().len() == 3,
            "{status:?}"
        );
        tokio::fs::write(&self.file, "another-token").await?;
        Ok(())
    }

    /// The file is read again within a minute.
    pub(crate) async fn is_accepted_again(&self) -> Result<()> {
        self.testbed.create("new", "1").await?;
        self.observed.settle(&self.testbed.direct).await
    }
}
