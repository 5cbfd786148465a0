//! The custom section `informant-sdk`, which names the runner and the contract for `informant plugin inspect`.

#![allow(unsafe_code, reason = "a section name is an unsafe attribute")]

/// The content of the section.
const SDK: &[u8] = concat!(
    r#"{"language":"javascript","sdk":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","contract":"0.3.0"}"#
)
.as_bytes();

#[used]
#[unsafe(link_section = "informant-sdk")]
static SECTION: [u8; SDK.len()] = *SDK.first_chunk().expect("it has this length");
