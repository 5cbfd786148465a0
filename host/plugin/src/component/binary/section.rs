//! Custom sections of components that Informant gives a meaning.

use serde::{Deserialize, Serialize};

/// The custom section that every SDK writes, into the component or a module in it.
pub(super) const SDK_SECTION: &str = "informant-sdk";

/// The custom section that makes a component a script runner.
pub(super) const RUNNER_SECTION: &str = "informant:runner";

/// The custom section that makes the script runner a plugin of its own: the script that it runs.
pub(super) const SCRIPT_SECTION: &str = "informant-script";

/// Bytes of a section that contains a JSON document: 4 KiB. A longer one is ignored.
const DOCUMENT_BYTES_MAX: usize = 4 << 10;

/// What a component was built with: the JSON document in its custom section `informant-sdk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SdkInfo {
    /// The SDK's language, such as `rust`.
    pub language: String,
    pub sdk: String,
    /// The contract version that the SDK was made for.
    pub contract: String,
}

impl SdkInfo {
    /// The section with this document, as it is appended to a component.
    #[must_use]
    pub fn section(&self) -> Vec<u8> {
        let SdkInfo {
            language,
            sdk,
            contract,
        } = self;
        let document = serde_json::json!({ "language": language, "sdk": sdk, "contract": contract });
        custom_section(SDK_SECTION, document.to_string().as_bytes())
    }
}

/// What a script runner says of itself: the JSON document in its custom section `informant:runner`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunnerInfo {
    /// The language of its scripts, such as `Python`.
    pub(crate) language: String,
    /// The suffixes of their files, without the dot.
    pub(crate) suffixes: Vec<String>,
    /// Its own version.
    pub(crate) version: String,
    /// The contract version that it was built for.
    pub(crate) contract: String,
}

/// A script in a component: the content of its custom section `informant-script`, `NAME\0TEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmbeddedScript {
    /// The file that it was made from: what errors and stack traces show.
    pub(crate) name: String,
    pub(crate) text: Vec<u8>,
    pub(crate) section: Vec<u8>,
}

impl EmbeddedScript {
    pub(crate) fn new(name: &str, text: &[u8]) -> EmbeddedScript {
        let content = [name.as_bytes(), b"\0", text].concat();
        EmbeddedScript {
            name: name.to_owned(),
            text: text.to_owned(),
            section: custom_section(SCRIPT_SECTION, &content),
        }
    }

    pub(super) fn parse(content: &[u8]) -> Option<EmbeddedScript> {
        let end = content.iter().position(|byte| *byte == 0)?;
        let name = str::from_utf8(&content[..end]).ok()?;
        Some(EmbeddedScript::new(name, &content[end + 1..]))
    }
}

/// The JSON document in a section. None if it is too long or has another form.
pub(super) fn document<'de, T: Deserialize<'de>>(section: &'de [u8]) -> Option<T> {
    let is_short = section.len() <= DOCUMENT_BYTES_MAX;
    is_short.then(|| serde_json::from_slice(section).ok()).flatten()
}

/// A custom section as it is appended to a component.
fn custom_section(name: &str, content: &[u8]) -> Vec<u8> {
    let content = [&leb128(name.len()), name.as_bytes(), content].concat();
    [&[0], &leb128(content.len())[..], &content].concat()
}

/// An unsigned number in WebAssembly's encoding.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_in_sections_are_short_and_well_formed() {
        let text = br#"{"language":"Lua","suffixes":["lua"],"version":"1.0","contract":"0.3.0","more":1}"#;
        let info: RunnerInfo = document(text).unwrap();
        assert_eq!((info.language.as_str(), info.suffixes), ("Lua", vec!["lua".to_owned()]));
        let long = [text.as_slice(), &vec![b' '; DOCUMENT_BYTES_MAX]].concat();
        assert_eq!(document::<RunnerInfo>(&long), None);
        assert_eq!(document::<RunnerInfo>(b"{}"), None);
    }
}
