//! The custom section `informant:runner`, which makes the component a script runner. Informant reads it without running
//! the component.

#![allow(unsafe_code, reason = "a section name is an unsafe attribute")]

/// The content of the section.
const RUNNER: &[u8] = concat!(
    r#"{"language":"JavaScript","suffixes":["js","mjs"],"version":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","contract":"0.3.0"}"#
)
.as_bytes();

#[used]
#[unsafe(link_section = "informant:runner")]
static SECTION: [u8; RUNNER.len()] = *RUNNER.first_chunk().expect("it has this length");
