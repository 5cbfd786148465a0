//! Readers and the writer on separate threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{info, key};
use crate::Catalog;
use crate::store::StoreWriter;
use crate::testing::pod;

#[test]
fn constant_readers_do_not_delay_the_writer() {
    const OBJECTS: u64 = 10_000;
    const BATCHES: u64 = 1_000;
    const BATCH: u64 = 10;
    /// Ten thousand events a second take one second; where readers hold a lock over the objects they read, minutes.
    const WRITTEN_WITHIN: Duration = Duration::from_secs(30);
    let catalog = Catalog::new();
    let source = catalog.add_source(info("pods"));
    let mut store = StoreWriter::publishing_to(&catalog, source).unwrap();
    let names: Vec<_> = (0..OBJECTS).map(|number| format!("pod-{number}")).collect();
    names.iter().for_each(|name| drop(store.add(pod(name, 1))));
    store.publish();
    let (over, read) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (catalog, names, over, read) = (&catalog, &names, &over, &read);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let snapshot = catalog.source(source).unwrap().snapshot();
                    // Whole lists and single objects.
                    let found = match reader % 2 {
                        0 => snapshot.iter().filter(|pod| pod.version().number().is_some()).count(),
                        _ => names.iter().filter(|name| snapshot.get(key(name)).is_some()).count(),
                    };
                    assert_eq!(found as u64, OBJECTS);
                    read.fetch_add(OBJECTS, Ordering::Relaxed);
                }
            });
        }
        let begin = Instant::now();
        for batch in 0..BATCHES {
            for event in 0..BATCH {
                let name = &names[((batch * BATCH + event) % OBJECTS) as usize];
                store.add(pod(name, 2 + batch));
            }
            store.publish();
        }
        let took = begin.elapsed();
        over.store(true, Ordering::Relaxed);
        assert!(took < WRITTEN_WITHIN, "{} events took {took:?}", BATCHES * BATCH);
    });
    assert!(read.into_inner() >= OBJECTS, "they did read");
}
