//! Sequences of calls against a naive map.

use informant_fuzz::{corpus, fuzz};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};

use super::*;

/// So that some sets exceed it.
const QUOTA_BYTES: usize = 1_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Op {
    Get(String),
    /// The key and the bytes of the value.
    Set(String, usize),
    SetIfAbsent(String, usize),
    Delete(String),
    /// Prefix, cursor and limit.
    List(String, String, u32),
}
use Op::{Delete, Get, List, Set, SetIfAbsent};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Called {
    ops: Vec<Op>,
    succeeds: bool,
}

fn key() -> impl Strategy<Value = String> {
    let long = |bytes| Just("k".repeat(bytes));
    prop_oneof![
        12 => select(&["a", "a/1", "a/2", "b", "é😀"][..]).prop_map(str::to_owned),
        1 => select(&["", "a\0"][..]).prop_map(str::to_owned),
        1 => long(KV_KEY_BYTES_MAX),
        1 => long(KV_KEY_BYTES_MAX + 1),
        1 => ".{0,8}",
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = || prop_oneof![8 => 0_usize..400, 1 => Just(KV_VALUE_BYTES_MAX + 1)];
    let limit = prop_oneof![0_u32..4, Just(u32::MAX)];
    prop_oneof![
        1 => key().prop_map(Get),
        3 => (key(), bytes()).prop_map(|(key, bytes)| Set(key, bytes)),
        2 => (key(), bytes()).prop_map(|(key, bytes)| SetIfAbsent(key, bytes)),
        1 => key().prop_map(Delete),
        1 => (key(), key(), limit).prop_map(|(prefix, cursor, limit)| List(prefix, cursor, limit)),
    ]
}

/// The bytes of each key's value.
type Model = BTreeMap<String, usize>;

fn used(model: &Model) -> usize {
    model
        .iter()
        .map(|(key, bytes)| key.len() + bytes + KV_KEY_COST_BYTES)
        .sum()
}

/// What a set answers, and makes of the model.
fn set(model: &mut Model, key: &str, bytes: usize) -> Result<(), ErrorCode> {
    if bytes > KV_VALUE_BYTES_MAX {
        return Err(ErrorCode::TooLarge);
    }
    let mut after = model.clone();
    after.insert(key.to_owned(), bytes);
    if used(&after) > QUOTA_BYTES && used(&after) > used(model) {
        return Err(ErrorCode::Exhausted);
    }
    *model = after;
    Ok(())
}

fn expected(model: &mut Model, op: &Op) -> Result<String, ErrorCode> {
    if let Get(key) | Set(key, _) | SetIfAbsent(key, _) | Delete(key) = op
        && (key.is_empty() || key.len() > KV_KEY_BYTES_MAX || key.contains('\0'))
    {
        return Err(ErrorCode::Invalid);
    }
    Ok(match op {
        Get(key) => format!("{:?}", model.get(key)),
        Set(key, bytes) => format!("{:?}", set(model, key, *bytes)?),
        SetIfAbsent(key, _) if model.contains_key(key) => "false".to_owned(),
        SetIfAbsent(key, bytes) => set(model, key, *bytes).map(|()| "true".to_owned())?,
        Delete(key) => {
            model.remove(key);
            "()".to_owned()
        }
        List(prefix, cursor, limit) => {
            let max = if *limit == 0 { KV_LIST_MAX } else { *limit as usize };
            let found = model.keys().filter(|key| key.starts_with(prefix) && *key > cursor);
            format!("{:?}", found.take(max).collect::<Vec<_>>())
        }
    })
}

async fn answered(caller: &mut KvCaller, op: &Op) -> Result<String, ErrorCode> {
    let value = |bytes: &usize| vec![b'x'; *bytes];
    let answer = match op.clone() {
        Get(key) => {
            let found = caller.get(key).await.unwrap();
            found.map(|value| format!("{:?}", value.as_ref().map(Vec::len)))
        }
        Set(key, bytes) => caller
            .set(key, value(&bytes))
            .await
            .unwrap()
            .map(|done| format!("{done:?}")),
        SetIfAbsent(key, bytes) => {
            let is_new = caller.set_if_absent(key, value(&bytes)).await.unwrap();
            is_new.map(|is_new| is_new.to_string())
        }
        Delete(key) => caller.delete(key).await.unwrap().map(|done| format!("{done:?}")),
        List(prefix, cursor, limit) => {
            let keys = caller.list(prefix, cursor, limit).await.unwrap();
            keys.map(|keys| format!("{keys:?}"))
        }
    };
    answer.map_err(|error| {
        assert!(!error.message.is_empty());
        error.code
    })
}

#[test]
fn keys_behave_like_a_map_whose_failed_calls_never_were() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let calls = vec(
        (vec(op(), 0..8), any::<bool>()).prop_map(|(ops, succeeds)| Called { ops, succeeds }),
        0..6,
    );
    fuzz(corpus!("kv"), calls, |calls| {
        let space = Space::default();
        let rights = rights_with(Some(Arc::new(space.clone())), QUOTA_BYTES, false);
        let parts = InstanceParts {
            manifest: &Arc::default(),
            time: &CallTime::new(Arc::new(crate::testing::TokioTime), Duration::from_secs(1)),
            output: &Output::new(Arc::from("counter"), Counter::default()),
            tape: &Tape::default(),
            cause: &CurrentCause::default(),
        };
        let mut caller = rights.call(&Arc::new(Current::new(())), &parts);
        let mut stored = Model::new();
        for call in calls {
            caller.begin(call_about(None, Ok(())));
            let mut model = stored.clone();
            for op in &call.ops {
                let answer = runtime.block_on(answered(&mut caller, op));
                prop_assert_eq!(answer, expected(&mut model, op), "{:?}", op);
            }
            let end = if call.succeeds {
                CallEnd::Succeeded
            } else {
                CallEnd::Failed
            };
            let effects = caller.finish(end);
            rights.commit(effects, None);
            if call.succeeds {
                stored = model;
            }
            let rows = space.rows.lock().unwrap();
            let found: Model = rows.iter().map(|(key, value)| (key.clone(), value.len())).collect();
            prop_assert_eq!(&found, &stored);
        }
        Ok(())
    });
}
