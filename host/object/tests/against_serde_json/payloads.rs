//! The payload writer as a fuzz target: each payload of an object is what the naive model shows.

use informant_fuzz::{corpus, fuzz};
use informant_object::{Object, Payload, Pointer, Shape};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::{object, written};
use crate::objects::{check_projection, pointer};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asked {
    object: String,
    pointers: Vec<String>,
}

fn asked() -> impl Strategy<Value = Asked> {
    (written(object()), vec(pointer(), 0..5)).prop_map(|(written, pointers)| Asked {
        object: written.text,
        pointers: pointers.iter().map(ToString::to_string).collect(),
    })
}

fn written_by(payload: &Payload, object: &Object) -> Result<Value, TestCaseError> {
    let mut out = Vec::new();
    payload.write(object, &mut out);
    serde_json::from_slice(&out)
        .map_err(|error| TestCaseError::fail(format!("{error}: {}", String::from_utf8_lossy(&out))))
}

#[test]
fn payloads_show_what_the_model_shows() {
    fuzz(corpus!("payloads"), asked(), |asked| {
        let Ok(object) = Object::parse(asked.object.as_bytes(), &Shape::of("v1", "Pod")) else {
            return Ok(());
        };
        let whole = written_by(&Payload::Whole, &object)?;
        let mut metadata = json!({ "metadata": whole["metadata"] });
        for name in ["apiVersion", "kind"] {
            if let Some(text) = whole
                .get(name)
                .filter(|text| text.as_str().is_some_and(|text| !text.is_empty()))
            {
                metadata[name] = text.clone();
            }
        }
        prop_assert_eq!(written_by(&Payload::Metadata, &object)?, metadata);
        let mut out = Vec::new();
        Payload::None.write(&object, &mut out);
        prop_assert!(out.is_empty());
        let pointers: Result<Vec<Pointer>, _> = asked.pointers.iter().map(|text| Pointer::parse(text)).collect();
        match pointers {
            Ok(pointers) => check_projection(&object, &pointers),
            Err(error) => Err(TestCaseError::fail(error.to_string())),
        }
    });
}
