//! An API server that is killed, comes back with less of its past, or with other tokens.

use anyhow::{Result, ensure};
use informant_cache::SourceState;
use informant_tests::chaos::Mode;
use informant_tests::cluster::{Cluster, Login};
use informant_tests::conformance::witness::What;
use informant_tests::conformance::{ARRIVES_WITHIN, Ground, Observed, Setting};
use informant_tests::wait;

use crate::label;
use crate::rights::allow;

const UNSEEN: What = What::Delete {
    final_state_unknown: true,
};

pub(crate) async fn killed_in_the_middle_of_a_list(cluster: &mut Cluster) -> Result<()> {
    let ground = Ground::prepare(cluster, &label("killed_in_a_list"), 1).await?;
    ground.fill("kept", 60, 1_000).await?;
    ground.proxy.set_new(Mode::HoldAfter { bytes: 30_000 });
    let streamed = ground.observe(Setting::config_maps(&ground.namespace)).await?;
    let listed = Setting {
        watch_list: false,
        ..Setting::config_maps(&ground.namespace)
    };
    let listed = ground.observe(listed).await?;
    wait::until("both to be in the middle", ARRIVES_WITHIN, async || {
        let held = ground.proxy.held();
        if held >= 2 { Ok(()) } else { Err(format!("{held} are")) }
    })
    .await?;
    cluster.restart_apiserver().await?;
    for observed in [&streamed, &listed] {
        ensure!(observed.witness.calls().is_empty(), "half a state was told");
        ensure!(
            observed.status().state == SourceState::Syncing,
            "{:?}",
            observed.status()
        );
    }
    ground.change("kept-0", "after the restart").await?;
    ground.proxy.set(Mode::Pass);
    streamed.settle(&ground.direct).await?;
    listed.settle(&ground.direct).await
}

pub(crate) async fn killed_in_the_middle_of_watches(cluster: &mut Cluster) -> Result<()> {
    let ground = Ground::prepare(cluster, &label("killed_in_watches"), 1).await?;
    ground.fill("kept", 10, 100).await?;
    // Events come in pieces, so that some line is half read when the end comes.
    ground.proxy.set_new(Mode::Slice { bytes_max: 50 });
    let observed = ground.observe(Setting::config_maps(&ground.namespace)).await?;
    observed.settle(&ground.direct).await?;

    let writes = async {
        for round in 0..100 {
            wait::until("a write to be taken", ARRIVES_WITHIN, async || {
                let written = ground.change(&format!("kept-{}", round % 10), &round.to_string()).await;
                written.map_err(|error| format!("{error:#}"))
            })
            .await?;
        }
        anyhow::Ok(())
    };
    let (written, restarted) = tokio::join!(writes, cluster.restart_apiserver());
    let ((), ()) = (written?, restarted?);
    observed.settle(&ground.direct).await?;
    ensure!(!observed.last_error().is_empty(), "{:?}", observed.status());
    let told = observed.witness.calls();
    ensure!(
        told.iter().all(|call| !matches!(call.what, What::Delete { .. })),
        "{told:?}"
    );
    Ok(())
}

/// The past is compacted away while the informer is cut off, and the API server's memory of it is gone too.
pub(crate) async fn what_was_compacted_while_away(cluster: &mut Cluster) -> Result<()> {
    let ground = Ground::prepare(cluster, &label("compacted_while_away"), 1).await?;
    ground.fill("kept", 6, 10).await?;
    let observed = ground.observe(Setting::config_maps(&ground.namespace)).await?;
    observed.settle(&ground.direct).await?;

    ground.proxy.set(Mode::Reset);
    observed.until_state(SourceState::Stale).await?;
    ground.delete("kept-0").await?;
    ground.delete("kept-1").await?;
    ground.create("kept-1", "another").await?;
    ground.change("kept-2", "changed").await?;
    ground.create("new", "1").await?;
    cluster.compact().await?;
    cluster.restart_apiserver().await?;

    ground.proxy.set(Mode::Pass);
    observed.settle(&ground.direct).await?;
    ensure!(observed.relists("expired") >= 1.0, "{:?}", observed.status());
    let what = |name: &str| -> Vec<What> { observed.witness.calls_of(name).iter().map(|call| call.what).collect() };
    ensure!(what("kept-0") == [What::Add, UNSEEN], "{:?}", what("kept-0"));
    ensure!(what("kept-1") == [What::Add, UNSEEN, What::Add], "{:?}", what("kept-1"));
    ensure!(what("kept-2") == [What::Add, What::Update], "{:?}", what("kept-2"));
    // What did not change is not told again.
    ensure!(what("kept-3") == [What::Add], "{:?}", what("kept-3"));
    Ok(())
}

/// Without a watch cache lists come in pages of one state, until that is compacted.
pub(crate) async fn a_state_that_expires_between_two_pages(cluster: &mut Cluster) -> Result<()> {
    cluster.restart_apiserver_with(&["--watch-cache=false"]).await?;
    let ground = Ground::prepare(cluster, &label("expired_page"), 1).await?;
    ground.fill("kept", 60, 1_000).await?;
    ground.proxy.set_new(Mode::HoldAfter { bytes: 12_000 });
    let setting = Setting {
        watch_list: false,
        page_items: Some(20),
        ..Setting::config_maps(&ground.namespace)
    };
    let observed = ground.observe(setting).await?;
    wait::until("the first page to be under way", ARRIVES_WITHIN, async || {
        let held = ground.proxy.held();
        if held == 1 {
            Ok(())
        } else {
            Err(format!("{held} are held"))
        }
    })
    .await?;
    ground.delete("kept-59").await?;
    ground.change("kept-0", "changed").await?;
    cluster.compact().await?;

    ground.proxy.set(Mode::Pass);
    observed.settle(&ground.direct).await?;
    let expired = observed.metric("informant_reflector_lists_total", &["result=\"expired-page\""]);
    ensure!(expired == 1.0, "{expired} pages expired");
    // The one piece took its place, so that it counts as no failure.
    ensure!(observed.status().relists == 0, "{:?}", observed.status());
    Ok(())
}

/// Somebody whose token is to be exchanged.
pub(crate) struct TokenHolder {
    ground: Ground,
    observed: Observed,
    file: std::path::PathBuf,
}

impl TokenHolder {
    /// Is live by a token that will be refused from the next restart on.
    pub(crate) async fn begin(cluster: &mut Cluster) -> Result<Self> {
        let ground = Ground::prepare(cluster, &label("token"), 1).await?;
        ground.fill("kept", 3, 10).await?;
        let file = cluster.folder().join("token");
        tokio::fs::write(&file, "reader-token").await?;
        allow(&ground, &["list", "watch"]).await?;
        let setting = Setting {
            login: Login::TokenFile(file.clone()),
            ..Setting::config_maps(&ground.namespace)
        };
        let observed = ground.observe(setting).await?;
        observed.settle(&ground.direct).await?;
        cluster.set_tokens(&[("another-token", "reader")]).await?;
        Ok(Self { ground, observed, file })
    }

    /// After the restart: what is known is kept, the state says what is wrong. Then the new token comes.
    pub(crate) async fn is_refused(&self) -> Result<()> {
        let status = self.observed.until_state(SourceState::Forbidden).await?;
        ensure!(self.observed.last_error().contains("401"), "{status:?}");
        ensure!(
            status.synced && self.observed.informer().snapshot().len() == 3,
            "{status:?}"
        );
        tokio::fs::write(&self.file, "another-token").await?;
        Ok(())
    }

    /// The file is read again within a minute.
    pub(crate) async fn is_let_in_again(&self) -> Result<()> {
        self.ground.create("new", "1").await?;
        self.observed.settle(&self.ground.direct).await
    }
}
