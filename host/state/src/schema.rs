//! The tables of the database, byte by byte.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format` | [`FORMAT`] |
//! | `meta` | `owner` | the configuration that the file belongs to, if it is checked |
//! | `sources` | informer, cluster, server, resource, namespace | number, high-water, form, request |
//! | `objects` | number, namespace, name | state |
//! | `handlers` | number, handler | whether all is open, version |
//! | `open` | number, handler, namespace, name | nothing more |
//! | `ended` | number, handler, namespace, name, incarnation | how it ended, last state |
//! | `dead_letters` | number, handler, namespace, name | dead letter |
//! | `requeues` | number, handler, namespace, name | when the next call is due, last state of a delete |
//! | `plugin_keys` | plugin, key | value |
//! | `shared_rows` | kind, plugin, key | a row of shared state that is no key of a plugin, in a copy of it |
//!
//! A key is open for a handler if it has a row in `open` or in `ended`. `ended` has a row for each incarnation that was
//! deleted and whose delete the handler has not accepted; incarnations of a key are numbered in their order.
//!
//! Numbers are big-endian, and texts end with a zero byte where something follows. So the rows of one source, and of
//! one handler, are adjacent, and objects are sorted by key.
//!
//! A table that a file lacks is created when the file is opened, so a new table is no new format. Rows that an older
//! Informant would misread are: it needs a new [`FORMAT`] and a migration in `file.rs`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use informant_object::{Key, KeyRef, Object, Payload, Pointer, ResourceVersion, Shape};
use informant_spec::StoredContent;
use redb::TableDefinition;

use crate::cipher::Cipher;

/// The format that is written. Older ones are migrated when the file is opened, newer ones refused.
pub(crate) const FORMAT: u32 = 2;

/// What precedes the number of the format in its row.
const FORMAT_NAME: &str = "informant-state ";

type Bytes = &'static [u8];

pub(crate) const META: TableDefinition<'_, &str, Bytes> = TableDefinition::new("meta");
pub(crate) const SOURCES: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("sources");
pub(crate) const OBJECTS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("objects");
pub(crate) const HANDLERS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("handlers");
pub(crate) const OPEN: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("open");
pub(crate) const ENDED: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("ended");
pub(crate) const DEAD_LETTERS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("dead_letters");
pub(crate) const REQUEUES: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("requeues");
pub(crate) const PLUGIN_KEYS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("plugin_keys");
pub(crate) const SHARED_ROWS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("shared_rows");

/// The value of a row in `open`.
pub(crate) const IS_OPEN: &[u8] = &[0];

/// An annotation that repeats the whole object within its metadata.
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// An invalid row: the file was changed or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    #[error("a row is malformed")]
    Malformed,
    #[error("a row cannot be decrypted: it was encrypted with another key, or was changed")]
    Encrypted,
}

/// The row of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceRow {
    pub(crate) number: u32,
    pub(crate) high_water: Option<u64>,
    /// What was removed from its stored objects.
    pub(crate) form: String,
    /// The request whose objects are stored. None in a row of an older Informant: then it counts as the present one,
    /// because an upgrade must not lose deletes.
    pub(crate) request: Option<String>,
}

/// The row of a handler and a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandlerRow {
    /// It may not have acknowledged anything: a replay was running.
    pub(crate) all_open: bool,
    /// It has acknowledged everything but the open keys, through this version.
    pub(crate) through: String,
}

/// An incarnation whose delete a handler has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedRow {
    /// The delete was not observed.
    pub(crate) unknown: bool,
    /// The row of its last state; empty if unknown.
    pub(crate) last: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct KeptState {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) json: Vec<u8>,
}

impl SourceRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.number.to_be_bytes().to_vec();
        out.push(u8::from(self.high_water.is_some()));
        out.extend(self.high_water.unwrap_or(0).to_be_bytes());
        out.extend(self.form.as_bytes());
        // An older Informant takes it for another form, and delivers everything again.
        if let Some(request) = &self.request {
            out.push(0);
            out.extend(request.as_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RowError> {
        let mut reader = Reader(bytes);
        let number = u32::from_be_bytes(reader.array()?);
        let has_high_water = reader.array::<1>()?[0] != 0;
        let high_water = u64::from_be_bytes(reader.array()?);
        let rest = text(reader.0)?;
        let (form, request) = rest
            .split_once('\0')
            .map_or((&*rest, None), |(form, request)| (form, Some(request)));
        Ok(Self {
            number,
            high_water: has_high_water.then_some(high_water),
            form: form.to_owned(),
            request: request.map(str::to_owned),
        })
    }
}

impl HandlerRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.all_open)];
        out.extend(self.through.as_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RowError> {
        let mut reader = Reader(bytes);
        Ok(Self {
            all_open: reader.array::<1>()?[0] != 0,
            through: text(reader.0)?,
        })
    }
}

impl EndedRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![1 + u8::from(self.unknown)];
        out.extend(&self.last);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RowError> {
        match bytes.split_first() {
            Some((tag @ (1 | 2), last)) => Ok(Self {
                unknown: *tag == 2,
                last: last.to_vec(),
            }),
            _ => Err(RowError::Malformed),
        }
    }
}

pub(crate) fn format_row(format: u32) -> Vec<u8> {
    format!("{FORMAT_NAME}{format}").into_bytes()
}

/// The format in its row; none if it is not one of Informant's.
pub(crate) fn format_of(row: &[u8]) -> Option<u32> {
    std::str::from_utf8(row).ok()?.strip_prefix(FORMAT_NAME)?.parse().ok()
}

/// The row of an object's state. Its key is the associated data: it cannot be moved to another source or key.
pub(crate) fn encode_state(source: u32, object: &Object, content: StoredContent, cipher: Option<&Cipher>) -> Vec<u8> {
    let mut plain = Vec::with_capacity(object.metadata().len() + 256);
    for text in [object.uid(), object.version().as_str()] {
        push_text(&mut plain, text);
    }
    plain.extend(stored(content, object));
    seal(plain, cipher, &object_key(source, object.key()))
}

/// A value as it is stored: encrypted if there is a cipher.
pub(crate) fn seal(mut plain: Vec<u8>, cipher: Option<&Cipher>, associated_data: &[u8]) -> Vec<u8> {
    let Some(cipher) = cipher else {
        plain.insert(0, 0);
        return plain;
    };
    let mut out = vec![1];
    // Without randomness only the existence of the value can be stored: such a row reads as encrypted with another key.
    out.extend(cipher.encrypt(&plain, associated_data).unwrap_or_default());
    out
}

/// The value of a row that [`seal`] made.
pub(crate) fn unseal(row: &[u8], cipher: Option<&Cipher>, associated_data: &[u8]) -> Result<Vec<u8>, RowError> {
    match (row.split_first(), cipher) {
        (Some((0, plain)), _) => Ok(plain.to_vec()),
        (Some((1, sealed)), Some(cipher)) => cipher.decrypt(sealed, associated_data).ok_or(RowError::Encrypted),
        (Some((1, _)), None) => Err(RowError::Encrypted),
        _ => Err(RowError::Malformed),
    }
}

pub(crate) fn decode_state(
    source: u32,
    key: KeyRef<'_>,
    row: &[u8],
    cipher: Option<&Cipher>,
) -> Result<KeptState, RowError> {
    let plain = unseal(row, cipher, &object_key(source, key))?;
    let mut reader = Reader(&plain);
    Ok(KeptState {
        uid: reader.text()?,
        version: reader.text()?,
        json: reader.0.to_vec(),
    })
}

/// The part of an object that is stored. Nothing of the text of an object of which there is only the head: it would be
/// taken for the whole object later.
pub(crate) fn stored(content: StoredContent, object: &Object) -> Vec<u8> {
    match content {
        StoredContent::Whole if object.is_head() => Vec::new(),
        StoredContent::Whole => object.json().to_vec(),
        StoredContent::Metadata => metadata_of(object),
    }
}

impl KeptState {
    pub(crate) fn object(&self) -> Option<Object> {
        Object::parse(&self.json, &Shape::verbatim()).ok()
    }

    /// Whether `object` is in this state.
    pub(crate) fn is_of(&self, object: &Object) -> bool {
        self.uid == object.uid() && self.version == object.version().as_str() && !self.version.is_empty()
    }
}

/// apiVersion, kind and metadata, without the annotation that repeats the object. Empty if its metadata does not parse
/// again, which takes malformed metadata that the scanner let pass.
fn metadata_of(object: &Object) -> Vec<u8> {
    let mut json = Vec::with_capacity(object.metadata().len() + 128);
    Payload::Metadata.write(object, &mut json);
    let shape = Pointer::parse(LAST_APPLIED)
        .ok()
        .and_then(|pointer| Shape::new("", "", vec![pointer], false).ok());
    let cut = shape.and_then(|shape| Object::parse(&json, &shape).ok());
    cut.map_or_else(Vec::new, |object| object.json().to_vec())
}

pub(crate) fn object_key(source: u32, key: KeyRef<'_>) -> Vec<u8> {
    let mut out = source.to_be_bytes().to_vec();
    push_key(&mut out, key);
    out
}

pub(crate) fn handler_key(source: u32, handler: &str) -> Vec<u8> {
    let mut out = source.to_be_bytes().to_vec();
    out.extend(handler.as_bytes());
    out
}

/// The prefix of a handler's open rows.
pub(crate) fn open_prefix(source: u32, handler: &str) -> Vec<u8> {
    let mut out = handler_key(source, handler);
    out.push(0);
    out
}

pub(crate) fn open_key(source: u32, handler: &str, key: KeyRef<'_>) -> Vec<u8> {
    let mut out = open_prefix(source, handler);
    push_key(&mut out, key);
    out
}

/// The prefix of a plugin's keys.
pub(crate) fn plugin_prefix(plugin: &str) -> Vec<u8> {
    [plugin.as_bytes(), b"\0"].concat()
}

pub(crate) fn plugin_key(plugin: &str, key: &str) -> Vec<u8> {
    [plugin.as_bytes(), b"\0", key.as_bytes()].concat()
}

/// The key of the row of an incarnation, after the prefix of its handler.
pub(crate) fn ended_key(source: u32, handler: &str, key: KeyRef<'_>, incarnation: u32) -> Vec<u8> {
    incarnation_key(open_key(source, handler, key), incarnation)
}

/// The key of an incarnation's row, from the key of its key's row in `open`.
pub(crate) fn incarnation_key(mut open_key: Vec<u8>, incarnation: u32) -> Vec<u8> {
    open_key.push(0);
    open_key.extend(incarnation.to_be_bytes());
    open_key
}

/// The key and the incarnation after `prefix`.
pub(crate) fn incarnation_of(row_key: &[u8], prefix: usize) -> Result<(Key, u32), RowError> {
    let (rest, incarnation) = row_key.split_last_chunk().ok_or(RowError::Malformed)?;
    let rest = rest.strip_suffix(&[0]).ok_or(RowError::Malformed)?;
    Ok((key_of(rest, prefix)?, u32::from_be_bytes(*incarnation)))
}

/// The key after `prefix`.
pub(crate) fn key_of(row_key: &[u8], prefix: usize) -> Result<Key, RowError> {
    let bytes = row_key.get(prefix..).ok_or(RowError::Malformed)?;
    let zero = bytes.iter().position(|byte| *byte == 0).ok_or(RowError::Malformed)?;
    let (namespace, name) = (text(&bytes[..zero])?, text(&bytes[zero + 1..])?);
    Ok(Key::new(&namespace, &name))
}

/// The first key that no longer begins with `prefix`, which does not end in 255.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

fn push_key(out: &mut Vec<u8>, key: KeyRef<'_>) {
    out.extend(key.namespace.as_bytes());
    out.push(0);
    out.extend(key.name.as_bytes());
}

/// Writes a text with its length, for [`Reader::text`].
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text.as_bytes());
}

fn text(bytes: &[u8]) -> Result<String, RowError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| RowError::Malformed)
}

/// The wall-clock time, which is stored because no other clock survives a restart.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The version as it is stored, for people.
pub(crate) fn version_text(version: Option<&ResourceVersion>) -> String {
    version.map_or_else(String::new, |version| version.as_str().to_owned())
}

/// Reads the parts of a row one after the other.
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], RowError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(RowError::Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// What follows its length.
    pub(crate) fn bytes(&mut self) -> Result<&'b [u8], RowError> {
        let length = self.length()?;
        let (first, rest) = self.0.split_at_checked(length).ok_or(RowError::Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    pub(crate) fn length(&mut self) -> Result<usize, RowError> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    pub(crate) fn text(&mut self) -> Result<String, RowError> {
        text(self.bytes()?)
    }
}

#[cfg(test)]
mod tests {
    use informant_object::Projection;

    use super::*;

    fn secret() -> Object {
        let json = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"7",
            "managedFields":[{"manager":"m"}],"labels":{"l":"1"},
            "annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"hunter2\"}}","x":"y"}},
            "data":{"password":"hunter2"}}"#;
        Object::parse(json, &Shape::verbatim()).unwrap()
    }

    #[test]
    fn stored_metadata_omits_the_last_applied_annotation() {
        let row = encode_state(3, &secret(), StoredContent::Metadata, None);
        let text = String::from_utf8_lossy(&row).into_owned();
        assert!(!text.contains("hunter2") && !text.contains("manager"), "{text}");
        let kept = decode_state(3, secret().key(), &row, None).unwrap();
        assert!(kept.is_of(&secret()));
        let object = kept.object().unwrap();
        assert_eq!((&*object.kind(), object.label("l").as_deref()), ("Secret", Some("1")));
    }

    #[test]
    fn encrypted_state_is_bound_to_key_source_and_object() {
        let cipher = Cipher::of([7; 32]);
        let row = encode_state(3, &secret(), StoredContent::Whole, Some(&cipher));
        assert!(!String::from_utf8_lossy(&row).contains("hunter2"));
        let open = |source, key: KeyRef<'_>, cipher: Option<&Cipher>| {
            decode_state(source, key, &row, cipher).map(|kept| kept.json)
        };
        assert_eq!(open(3, secret().key(), Some(&cipher)).unwrap(), secret().json());
        assert_eq!(open(4, secret().key(), Some(&cipher)), Err(RowError::Encrypted));
        assert_eq!(open(3, KeyRef::new("a", "c"), Some(&cipher)), Err(RowError::Encrypted));
        assert_eq!(
            open(3, secret().key(), Some(&Cipher::of([8; 32]))),
            Err(RowError::Encrypted)
        );
        assert_eq!(open(3, secret().key(), None), Err(RowError::Encrypted));
    }

    #[test]
    fn a_head_is_not_stored_as_the_whole_object() {
        let text = format!(
            r#"{{"kind":"Secret","metadata":{{"namespace":"a","name":"b","uid":"u","resourceVersion":"7"}},"data":{{"k":"{}"}}}}"#,
            "x".repeat(1_024)
        );
        let whole = Object::parse(text.as_bytes(), &Shape::verbatim()).unwrap();
        let head = whole.to_head(&Projection::of_head(&[]));
        let row = encode_state(3, &head, StoredContent::Whole, None);
        let kept = decode_state(3, head.key(), &row, None).unwrap();
        assert!(kept.is_of(&whole) && kept.object().is_none());
    }

    #[test]
    fn truncated_rows_are_malformed() {
        let row = encode_state(3, &secret(), StoredContent::Metadata, None);
        for length in 0..10 {
            assert!(decode_state(3, secret().key(), &row[..length], None).is_err());
        }
        assert_eq!(EndedRow::decode(&[]), Err(RowError::Malformed));
        assert_eq!(incarnation_of(&[1, 2, 3], 0), Err(RowError::Malformed));
        assert_eq!(HandlerRow::decode(&[]), Err(RowError::Malformed));
        assert_eq!(SourceRow::decode(&[1, 2]), Err(RowError::Malformed));
    }
}
