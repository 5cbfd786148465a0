//! Time limits that a guest sets for its own request, and what is recorded of a response.

mod fuzz;

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep};

use super::*;
use crate::capability::http::client::{HttpClient, HttpFuture};
use crate::observed::CurrentCause;
use crate::testing::{TestParts, TokioTime};

/// Answers with a body that has a byte after each of these seconds.
struct Slow(&'static [u64]);

impl HttpClient for Slow {
    fn send(&self, _: HttpCall) -> HttpFuture {
        let bytes = stream::unfold(self.0, |seconds| async move {
            let (first, rest) = seconds.split_first()?;
            sleep(Duration::from_secs(*first)).await;
            Some((Ok(Frame::data(Bytes::from_static(b"x"))), rest))
        });
        Box::pin(std::future::ready(Ok(Response::new(
            StreamBody::new(bytes).boxed_unsync(),
        ))))
    }
}

/// The bytes of the body, or the error that it ends with, and the seconds until then.
async fn received(gaps: &'static [u64], silence_max: Option<Duration>) -> (Result<usize, String>, u64) {
    let mut parts = TestParts::new("p", false);
    parts.services.http = Some(Arc::new(Slow(gaps)));
    let plugin = Arc::new(HttpPlugin::of(Arc::default(), &parts.plugin()));
    let grants = Arc::new(Current::new(vec![HttpGrant::parse("http://a.svc").unwrap()]));
    let instance = InstanceParts {
        manifest: &Arc::default(),
        time: &CallTime::new(Arc::new(TokioTime), Duration::from_secs(60)),
        output: &Output::new(Arc::from("p"), Counter::default()),
        tape: &Tape::default(),
        cause: &CurrentCause::default(),
    };
    let mut caller = plugin.call(&grants, &instance).hooks;
    let options = RequestOptions {
        between_bytes_timeout: silence_max,
        ..RequestOptions::default()
    };
    let body = answer(StatusCode::OK).into_body();
    let request = Request::get("http://a.svc/").body(body).unwrap();
    let sent = caller.send_request(request, Some(options), Box::new(std::future::ready(Ok(()))));
    let began = Instant::now();
    let (response, _) = Box::into_pin(sent).await.unwrap();
    let body = response.into_body().collect().await;
    let bytes = body
        .map(|body| body.to_bytes().len())
        .map_err(|error| error.to_string());
    (bytes, began.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_guest_may_limit_the_silence_within_a_body() {
    let late = |error: &WasiError| Err(error.to_string());
    let two = Some(Duration::from_secs(2));
    assert_eq!(
        received(&[1, 1, 1, 1], two).await,
        (Ok(4), 4),
        "each byte ends the silence"
    );
    assert_eq!(
        received(&[1, 1, 5], two).await,
        (late(&WasiError::ConnectionReadTimeout), 4)
    );
    assert_eq!(received(&[1, 1, 5], None).await, (Ok(3), 7));
    let long = Some(Duration::from_secs(600));
    let http_time = informant_spec::Limits::default().http_time.as_secs();
    assert_eq!(
        received(&[1, 100], long).await,
        (late(&WasiError::HttpResponseTimeout), http_time),
        "limits.http-time is not exceeded"
    );
}

#[test]
fn an_error_status_is_an_effect_that_failed() {
    let effect = || Effect::new(EffectKind::Http, "POST", "http://a.svc/hook");
    let of = |status: u16| {
        let response = Response::builder().status(status).body(()).unwrap();
        let Effect { result, error, .. } = answered(effect(), &Ok(response));
        (result, error)
    };
    assert_eq!([of(204), of(302)], [("ok", None), ("ok", None)]);
    assert_eq!(of(404), (ERROR_STATUS, Some("answered 404 Not Found".to_owned())));
    assert_eq!(of(503).0, ERROR_STATUS);
}
