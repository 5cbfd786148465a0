//! Reconciles the pods of a cluster: a handler queues keys, workers take them, read the cache and retry with back-off.
//! After client-go's `examples/workqueue`.
//!
//! ```text
//! cargo run -p informant-client-go --example controller
//! ```

#![expect(clippy::print_stdout, reason = "it prints what it reconciles")]

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use informant_client_go::workqueue::{WorkQueue, WorkQueueOptions};
use informant_client_go::{
    Catalog, EventHandlerFuncs, GroupVersionResource, InformerMetrics, Key, KeyRef, ListenerOptions, Lister, Moment,
    Object, SharedInformerFactory, SourceSpec, StopReport, TokioEnvironment,
};
use kube::Client;

/// How often a key is tried before it is given up.
const ATTEMPTS_MAX: u32 = 5;

/// A queue of keys, and the informer that fills it.
pub(crate) struct Controller {
    queue: WorkQueue<Key>,
    pods: Lister,
    factory: SharedInformerFactory,
}

impl Controller {
    pub(crate) async fn start(client: Client) -> Result<Controller, Box<dyn Error>> {
        let began = Instant::now();
        let clock = Arc::new(move || Moment::ZERO + began.elapsed());
        let queue = WorkQueue::new(WorkQueueOptions::default(), clock);

        let (catalog, environment) = (Catalog::new(), Arc::new(TokioEnvironment::current(1)));
        let factory = SharedInformerFactory::new(client, environment, catalog.clone(), InformerMetrics::default());
        let pods = SourceSpec::new("pods", GroupVersionResource::new("", "v1", "pods"), "Pod");
        let informer = factory.informer_for(pods)?;
        let enqueue = |key: KeyRef<'_>, queue: &WorkQueue<Key>| {
            queue.add(key.to_key());
            Ok(())
        };
        let (added, updated, deleted) = (queue.clone(), queue.clone(), queue.clone());
        let handler = EventHandlerFuncs::new()
            .on_add(move |pod, _| enqueue(pod.key(), &added))
            .on_update(move |_, pod, _| enqueue(pod.key(), &updated))
            .on_delete(move |key, _, _, _| enqueue(key, &deleted));
        informer.add_handler(Box::new(handler), ListenerOptions::default())?;
        factory.wait_for_cache_sync(Duration::from_secs(30)).await?;
        let pods = Lister::new(catalog, "pods");
        Ok(Controller { queue, pods, factory })
    }

    /// Starts a worker, which runs until the queue is shut down.
    pub(crate) fn spawn_worker(
        &self,
        mut reconcile: impl FnMut(&Key, Option<&Object>) -> Result<(), String> + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let (queue, pods) = (self.queue.clone(), self.pods.clone());
        thread::spawn(move || {
            while let Some(key) = queue.get() {
                // The cache has the newest state, whatever the event was.
                let pod = pods.get_by_key(key.as_ref()).ok().map(|found| found.object);
                match reconcile(&key, pod.as_ref()) {
                    Err(_) if queue.num_requeues(&key) < ATTEMPTS_MAX => drop(queue.add_rate_limited(key.clone())),
                    _ => queue.forget(&key),
                }
                queue.done(&key);
            }
        })
    }

    pub(crate) async fn stop(self) -> StopReport {
        let _ = self.queue.shut_down();
        self.factory.shutdown(Duration::from_secs(5)).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let controller = Controller::start(Client::try_default().await?).await?;
    let print = |key: &Key, pod: Option<&Object>| {
        match pod {
            Some(pod) => println!("{key} is at version {}", pod.version()),
            None => println!("{key} is gone"),
        }
        Ok(())
    };
    let workers = [(); 2].map(|()| controller.spawn_worker(print));
    tokio::signal::ctrl_c().await?;
    let report = controller.stop().await;
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")?;
    }
    println!("{} events were not delivered", report.undelivered);
    Ok(())
}
