//! What a guest may return: any bytes where a result should be, read by a naive model of the canonical ABI.

use std::sync::Arc;

use informant_fuzz::{corpus, fuzz};
use informant_spec::{Content, PluginSpec};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::bindings::CONTRACT;
use crate::host::PluginHost;
use crate::instance::config::PluginConfig;
use crate::instance::version::LoadedVersion;
use crate::testing::test_host;

/// Bytes of the guest's memory.
const MEMORY_BYTES: u64 = 4 << 16;

/// Where the result is.
const RESULT: u32 = 8192;

/// Bytes that the input has: a shorter one is filled with zeros.
const INPUT_BYTES: usize = 256;

/// Bytes that a result may transfer in the model. The host allows more, and may refuse more.
const TRANSFER_MAX: usize = 1 << 20;

/// The first bytes of a result, as 32-bit words.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Words(Vec<u32>);

fn words() -> impl Strategy<Value = Words> {
    let pointer = prop_oneof![
        (0_u32..16).prop_map(|word| RESULT + 4 * word),
        select(vec![
            RESULT + 1,
            RESULT + 2,
            0,
            512,
            262_140,
            262_143,
            262_144,
            u32::MAX,
            u32::MAX - 7
        ]),
    ];
    let word = prop_oneof![
        4 => 0_u32..4,
        4 => pointer,
        1 => select(vec![16, 100, 20_000_000, 0x6162_6364, 0xff00_0001, 0xc3a9_0000]),
        1 => any::<u32>(),
    ];
    vec(word, 1..24).prop_map(Words)
}

/// Why a result cannot be read.
#[derive(Debug, PartialEq, Eq)]
enum Unreadable {
    /// The call traps.
    Traps,
    /// It is too large for the model.
    Large,
}

/// The guest's memory around the result.
struct Memory {
    input: Vec<u8>,
    transferred: usize,
}

impl Memory {
    fn new(Words(words): &Words) -> Memory {
        let mut input: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        input.resize(INPUT_BYTES, 0);
        Memory { input, transferred: 0 }
    }

    fn bytes(&mut self, at: u32, length: u64) -> Result<Vec<u8>, Unreadable> {
        let end = u64::from(at) + length;
        if end > MEMORY_BYTES {
            return Err(Unreadable::Traps);
        }
        self.transferred += usize::try_from(length).unwrap();
        if self.transferred > TRANSFER_MAX {
            return Err(Unreadable::Large);
        }
        let byte = |at: u64| {
            let input = at
                .checked_sub(RESULT.into())
                .and_then(|at| self.input.get(usize::try_from(at).unwrap()));
            input
                .or_else(|| DESCRIBED.get(usize::try_from(at.checked_sub(512)?).unwrap()))
                .copied()
                .unwrap_or(0)
        };
        Ok((at.into()..end).map(byte).collect())
    }

    fn byte(&mut self, at: u32) -> Result<u8, Unreadable> {
        Ok(self.bytes(at, 1)?[0])
    }

    fn word(&mut self, at: u32) -> Result<u32, Unreadable> {
        let bytes = self.bytes(at, 4)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap()))
    }

    fn text(&mut self, at: u32) -> Result<String, Unreadable> {
        let (start, length) = (self.word(at)?, self.word(at + 4)?);
        String::from_utf8(self.bytes(start, length.into())?).map_err(|_| Unreadable::Traps)
    }

    /// The places of the elements of a list, which have 8 bytes each and are aligned to 4.
    fn list(&mut self, at: u32) -> Result<Vec<u32>, Unreadable> {
        let (start, length) = (self.word(at)?, self.word(at + 4)?);
        if u64::from(start) + 8 * u64::from(length) > MEMORY_BYTES || start % 4 != 0 {
            return Err(Unreadable::Traps);
        }
        self.transferred += 8 * length as usize;
        if self.transferred > TRANSFER_MAX {
            return Err(Unreadable::Large);
        }
        Ok((0..length).map(|number| start + 8 * number).collect())
    }

    fn handled(&mut self) -> Result<Result<Option<u32>, String>, Unreadable> {
        let outcome = (self.byte(RESULT)?, self.byte(RESULT + 4)?);
        Ok(match outcome {
            (0, 0) => Ok(None),
            (0, 1) => Ok(Some(self.word(RESULT + 8)?)),
            (1, 0) => Err(format!("retryable {}", self.text(RESULT + 8)?)),
            (1, 1) => {
                let message = self.text(RESULT + 8)?;
                Err(format!("after {} {message}", self.word(RESULT + 16)?))
            }
            (1, 2) => Err(format!("permanent {}", self.text(RESULT + 8)?)),
            _ => return Err(Unreadable::Traps),
        })
    }

    fn indexed(&mut self) -> Result<Result<Vec<Vec<String>>, String>, Unreadable> {
        match self.byte(RESULT)? {
            0 => {
                let mut indexes = Vec::new();
                for index in self.list(RESULT + 4)? {
                    let mut texts = Vec::new();
                    for text in self.list(index)? {
                        texts.push(self.text(text)?);
                    }
                    indexes.push(texts);
                }
                Ok(Ok(indexes))
            }
            1 => Ok(Err(self.text(RESULT + 4)?)),
            _ => Err(Unreadable::Traps),
        }
    }
}

/// The manifest in the guest's memory.
const DESCRIBED: &[u8] =
    br#"{"name":"results","version":"1","indexes":{"names":["x"],"objects":[{"apiVersion":"*","kind":"*"}]}}"#;

/// A host with the guest.
struct Guest {
    host: PluginHost,
    version: LoadedVersion,
    config: Arc<PluginConfig>,
    _folder: tempfile::TempDir,
}

impl Guest {
    async fn load() -> Guest {
        let folder = tempfile::tempdir().unwrap();
        let host = test_host(folder.path());
        let text = include_str!("fuzz/results.wat").replace("VERSION", CONTRACT);
        let text = text.replace("LENGTH", &DESCRIBED.len().to_string());
        let content = Content::new("results.wasm", wat::parse_str(text).unwrap());
        let config = PluginConfig::new(PluginSpec::new("results", "results.wasm"));
        let version = host.runtime().describe(&content, None, &config).await.unwrap();
        Guest {
            host,
            version,
            config,
            _folder: folder,
        }
    }

    async fn instance(&self) -> Instance {
        let runtime = self.host.runtime();
        let watchdog = CallWatchdog::new(
            Arc::clone(&runtime.env),
            Duration::from_secs(60),
            CancellationToken::new(),
        );
        let resources = runtime.unlisted_resources(&self.config);
        Instance::new(&runtime.engine, &self.version.component, resources, watchdog)
            .await
            .unwrap()
    }
}

fn about() -> ObjectRef<'static> {
    ObjectRef {
        source: 0,
        namespace: "web",
        name: "a",
        uid: "u",
        resource_version: "1",
    }
}

/// Compares what the host has read with the model.
fn compare<T: PartialEq + std::fmt::Debug>(
    called: Called<T>,
    expected: Result<T, Unreadable>,
) -> Result<(), TestCaseError> {
    match (called, expected) {
        (_, Err(Unreadable::Large)) => {}
        (Ok(found), Ok(expected)) => prop_assert_eq!(found, expected),
        (Err(report), Err(Unreadable::Traps)) => prop_assert!(!report.to_string().is_empty()),
        (Ok(found), Err(Unreadable::Traps)) => prop_assert!(false, "it does not trap: {found:?}"),
        (Err(report), Ok(expected)) => prop_assert!(false, "{report} instead of {expected:?}"),
    }
    Ok(())
}

#[test]
fn results_are_read_as_the_canonical_abi_says_or_trap() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let guest = runtime.block_on(Guest::load());
    let call = Call {
        reason: types::Reason::Watch,
        attempt: 0,
    };
    fuzz(corpus!("results"), words(), |words| {
        let mut memory = Memory::new(words);
        let input = memory.input.clone();
        runtime.block_on(async {
            let mut instance = guest.instance().await;
            let handled = instance.on_add(about(), call, &input).await.unwrap();
            let shown = |failure: Failure| match failure {
                Failure::Retryable(message) => format!("retryable {message}"),
                Failure::RetryAfter(later) => format!("after {} {}", later.after_ms, later.message),
                Failure::Permanent(message) => format!("permanent {message}"),
            };
            compare(handled.map(|answer| answer.map_err(shown)), memory.handled())?;
            memory.transferred = 0;
            let mut instance = guest.instance().await;
            let indexed = instance.index(about(), &input).await.unwrap();
            compare(indexed, memory.indexed())
        })
    });
}
