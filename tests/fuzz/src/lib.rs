//! Fuzzing, on stable Rust: targets are tests, each with a corpus in git.
//!
//! ```text
//! corpus/TARGET/*.json ──▶ each input ─┐
//! proptest ──generated inputs──────────┴─▶ property ──fails──▶ shrunk ──▶ printed, as a file for the corpus
//! ```
//!
//! A target has a property besides "does not panic": a naive model, bounds that are kept, or what an error names. It
//! runs a fixed number of inputs, or, with `INFORMANT_FUZZ_SECONDS`, as many as it can in this time. There is no
//! coverage feedback, which needs a nightly toolchain: [`documents`] start from well-formed ones instead.

mod document;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::document::{Document, documents, pointers};

/// Inputs that a target generates, unless it runs for a time.
const INPUTS: u32 = 256;

/// If set, for how many seconds each target generates inputs.
const SECONDS: &str = "INFORMANT_FUZZ_SECONDS";

/// The corpus of a target of the calling crate.
#[macro_export]
macro_rules! corpus {
    ($target:literal) => {
        ::std::concat!(::std::env!("CARGO_MANIFEST_DIR"), "/corpus/", $target)
    };
}

/// Checks that `property` holds for the inputs in `corpus` (see [`corpus!`]), and for those that are generated.
///
/// # Panics
/// If it does not, with the input.
pub fn fuzz<T>(corpus: &str, inputs: impl Strategy<Value = T>, property: impl Fn(&T) -> Result<(), TestCaseError>)
where
    T: Debug + Serialize + DeserializeOwned,
{
    for file in files(Path::new(corpus)) {
        let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let input = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if let Err(error) = property(&input) {
            panic!("{}: {error}", file.display());
        }
    }
    let end = env::var(SECONDS).ok().map(|text| {
        let seconds = text.parse::<u64>().unwrap_or_else(|error| panic!("{SECONDS}: {error}"));
        Instant::now() + Duration::from_secs(seconds)
    });
    loop {
        let config = Config {
            failure_persistence: None,
            ..Config::with_cases(INPUTS)
        };
        match TestRunner::new(config).run(&inputs, |input| property(&input)) {
            Ok(()) => {}
            Err(TestError::Fail(why, input)) => panic!(
                "{why}\nto keep the input, correct the code, and save this as {corpus}/NAME.json:\n{}",
                serde_json::to_string(&input).unwrap_or_else(|error| format!("{error}: {input:?}"))
            ),
            Err(TestError::Abort(why)) => panic!("{corpus}: {why}"),
        }
        if end.is_none_or(|end| end <= Instant::now()) {
            return;
        }
    }
}

/// The inputs of a corpus, which has at least one, by name.
fn files(corpus: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    assert!(!files.is_empty(), "{} is empty", corpus.display());
    files.sort();
    files
}
