//! HTTP requests, in every language.

use std::sync::Arc;

use informant_spec::HttpGrant;

use super::Step::Put;
use super::{Run, every_language, table};
use crate::fetch::{Service, Shared};
use crate::world::World;

/// The service answers with what it received.
#[tokio::test(start_paused = true)]
async fn every_language_sends_requests_that_are_granted() {
    let request = "POST http://a.svc/kit content-type=text/plain x-id=a aä€😀";
    every_language(table::HTTP, async |guest| {
        for (granted, outcome, sent) in [
            (
                &["http://a.svc"][..],
                r#"answered=200 {"echo":"aä€😀"}"#,
                &[request][..],
            ),
            (&["http://a.svc/kit"], r#"answered=200 {"echo":"aä€😀"}"#, &[request]),
            (&["https://a.svc", "http://a.svc/other"], "failed=denied", &[]),
            (&[], "failed=denied", &[]),
        ] {
            let what = format!("{} with {granted:?}", guest.display());
            let service = Arc::<Service>::default();
            let world = World::for_conformance_with_http(Arc::new(Shared(Arc::clone(&service))));
            let mut run = Run::adjusted(world, guest, &[""], |spec| {
                spec.allow_http = granted.iter().map(|url| HttpGrant::parse(url).unwrap()).collect();
            })
            .await;
            run.perform(&Put("", "a", "call", "aä€😀")).await;
            assert_eq!(run.lines().last().unwrap(), outcome, "{what}");
            assert_eq!(service.seen(), sent, "{what}");
            let status = run.plugin.status();
            assert_eq!(
                (status.dead_letters, status.restarts),
                (0, 0),
                "{what}: {:?}",
                status.last_error
            );
        }
    })
    .await;
}
