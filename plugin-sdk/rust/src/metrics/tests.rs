use serde_json::json;

use crate::host_error::ErrorCode;
use crate::prelude::*;
use crate::testing::Driver;

/// Counts the events of each object.
struct Counts;

impl Plugin for Counts {
    fn describe(_: Describe) -> Result<Manifest> {
        assert_eq!(metrics::add("events", 1.0, &[]).unwrap_err().code, ErrorCode::NotHere);
        Ok(Manifest::new()
            .events(Events::of("v1", "Pod"))
            .metric(Metric::counter("events", "Events").labels(["name"]))
            .metric(Metric::gauge("last", "The last event").labels(["name"]))
            .metric(Metric::histogram("size", "Sizes").buckets([1.0, 2.0])))
    }

    fn init(_: Init) -> Result<Self> {
        assert_eq!(metrics::set("last", 1.0, &[]).unwrap_err().code, ErrorCode::NotHere);
        Ok(Self)
    }
}

impl EventHandler<Value> for Counts {
    fn on_upsert(&mut self, event: &Event, _: Value) -> Result<Action> {
        let name = [("name", event.name.as_str())];
        metrics::add("events", 1.0, &name)?;
        metrics::replace("last", [(7.0, name)])?;
        metrics::observe("size", 1.5, &[])?;
        let refused = [
            metrics::add("event", 1.0, &name),
            metrics::set("events", 1.0, &name),
            metrics::add("events", -1.0, &name),
            metrics::add("events", 1.0, &[]),
            metrics::observe("size", f64::NAN, &[]),
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            assert_eq!(refused.unwrap_err().code, ErrorCode::Invalid, "{number}");
        }
        match event.name.as_str() {
            "fails" => Err(Failure::retryable("not yet")),
            _ => Ok(Action::done()),
        }
    }
}

crate::export!(Counts: events);

#[test]
fn changes_of_metrics_take_effect_with_a_success_only() {
    let pod =
        |name: &str| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": name } });
    let mut driver = Driver::<Counts>::start(json!({})).unwrap();
    driver.put(pod("a")).unwrap();
    driver.put(pod("b")).unwrap();
    driver.put(pod("a")).unwrap();
    driver.put(pod("fails")).unwrap_err();
    let value = |name: &str, labels: &[(&str, &str)]| driver.cache().metric(name, labels);
    assert_eq!(value("events", &[("name", "a")]), Some(2.0));
    assert_eq!(value("events", &[("name", "fails")]), None);
    assert_eq!(value("last", &[("name", "b")]), None, "it was replaced");
    assert_eq!(value("last", &[("name", "a")]), Some(7.0));
    assert_eq!(value("size", &[]), Some(4.5));
}
