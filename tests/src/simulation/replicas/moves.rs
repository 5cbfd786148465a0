//! How a handler follows the shards of its process, as a plugin does
//! (`host/informant/src/daemon/plugin_attachments.rs`).

use std::sync::Arc;

use informant_cache::listener::{GainedShard, Takeover};
use informant_cache::{Catalog, Environment};
use informant_informer::SharedInformer;
use informant_object::SourceId;
use tokio::sync::watch;

use super::handler::{ReplicaHandler, Watermarks};
use super::shards::{Acting, ShardTerms};

impl ReplicaHandler {
    pub(super) async fn follow(self: Arc<Self>, mut acting: watch::Receiver<Acting>, catalog: Catalog) {
        let mut present: Option<Arc<ShardTerms>> = None;
        loop {
            let next = acting.borrow_and_update().clone();
            match next {
                Acting::Ending => {}
                Acting::No if present.is_none() => {}
                Acting::No => {
                    self.stand_by().await;
                    self.detach().await;
                    present = None;
                }
                Acting::Yes(next) => {
                    match present.filter(|present| (present.division, present.stint) == (next.division, next.stint)) {
                        Some(present) => self.move_shards(&present, &next, &catalog),
                        None => {
                            self.stand_by().await;
                            self.detach().await;
                            if acting.has_changed().is_ok_and(|has_changed| has_changed) {
                                // A hand-over that began meanwhile did not find it acting.
                                present = None;
                                continue;
                            }
                            self.begin_with(&next);
                        }
                    }
                    present = Some(next);
                }
            }
            if acting.changed().await.is_err() {
                return;
            }
        }
    }

    /// In standby: it begins with all shards of its process.
    fn begin_with(&self, terms: &ShardTerms) {
        let split = self.gate().split();
        let parts_of = |shard: &u8| {
            let own = self.of_shard(terms, *shard);
            split
                .parts(terms.division, *shard)
                .map(move |part| (Some(part), own.clone()))
        };
        let parts: Vec<_> = terms.held.keys().flat_map(parts_of).collect();
        let control = self.listener().control();
        control.set_shards(Some(terms.held()));
        let begun = terms.held.keys().map(|shard| self.gained(terms, *shard));
        control.begin_shards(begun.collect());
        self.act(parts, terms.lowest(self.name()).as_ref(), None);
    }

    /// What the process before has published of a shard; none if there was none.
    fn of_shard(&self, terms: &ShardTerms, shard: u8) -> Option<Watermarks> {
        let predecessor = terms.held.get(&shard)?.predecessor.as_ref()?;
        Some(predecessor.get(self.name()).cloned().unwrap_or_default())
    }

    /// How it continues with a shard.
    fn gained(&self, terms: &ShardTerms, shard: u8) -> GainedShard {
        let predecessor = self.of_shard(terms, shard);
        let takeover = |source: &Arc<SharedInformer>| -> (SourceId, Takeover) {
            (source.source(), self.takeover(predecessor.as_ref(), source.info()))
        };
        let sources = self.watched().named.sources();
        GainedShard {
            shard,
            takeovers: sources.iter().map(takeover).collect(),
        }
    }

    /// It is called about other shards than before, without a pause.
    fn move_shards(&self, before: &ShardTerms, next: &ShardTerms, catalog: &Catalog) {
        let Some(term) = self.term() else { return };
        let split = self.gate().split();
        let is_in = |terms: &ShardTerms, shard: u8, epoch: u32| {
            let held = terms.held.get(&shard);
            held.is_some_and(|held| held.epoch == epoch)
        };
        let lost = before
            .held
            .iter()
            .filter(|(shard, held)| !is_in(next, **shard, held.epoch));
        let lost: Vec<u8> = lost.map(|(shard, _)| *shard).collect();
        let control = self.listener().control();
        control.lose_shards(lost.iter().copied().collect());
        for part in lost.iter().flat_map(|shard| split.parts(next.division, *shard)) {
            term.set_recorder(part, None);
        }
        let gained = next
            .held
            .iter()
            .filter(|(shard, held)| !is_in(before, **shard, held.epoch));
        for (shard, _) in gained {
            let predecessor = self.of_shard(next, *shard);
            for part in split.parts(next.division, *shard) {
                term.set_recorder(part, Some(self.record(Some(part), predecessor.as_ref())));
            }
            control.gain_shard(
                &self.gained(next, *shard),
                catalog.kept_deletes(),
                self.gate().environment.now(),
            );
        }
    }
}
