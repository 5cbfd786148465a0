//! The content of the Secrets, byte by byte.
//!
//! ```text
//! magic "informant-state\0" · format u32 · body length u64 · SHA-256 of the body · body
//! body: part (0 journal, 1 chunk) u8 · group · head · rows
//! head of the journal: epoch u64 · sequence u64 · holder · lease transitions u64
//!                      · number of chunks u32 · stamp of each · number being written u32 · number of each u32
//! head of a chunk: number u32 · stamp
//! stamp: epoch u64 · sequence u64
//! rows: (0 · plugin · kind u8) begins those of a plugin and kind · (1 · key · value) sets one · (2 · key) deletes one
//! ```
//!
//! Numbers are big-endian; texts and values begin with their length as u32. What precedes the body is the same in each
//! format. Rows that an older Informant would misread need a new [`FORMAT`].

use std::sync::Arc;

use ring::digest::{SHA256, digest};

use super::error::SharedStateError;
use super::request::SharedPart;
use crate::row::{RowKey, RowKind};
use crate::schema::{Reader, RowError, push_text};

/// The format that is written. Older ones are read, newer ones refused.
pub(super) const FORMAT: u32 = 1;

const MAGIC: &[u8; 16] = b"informant-state\0";

const DIGEST_BYTES: usize = 32;

/// When a chunk was written: by the holder of an epoch, with a write of its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    pub(super) epoch: u64,
    /// Zero: it was never written.
    pub(super) sequence: u64,
}

/// Who wrote a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) epoch: u64,
    pub(super) holder: String,
    /// Of the Lease, for people.
    pub(super) lease_transitions: u64,
}

/// What changes a row: its new value, or none.
pub(super) type RowChange = (RowKey, Option<Arc<[u8]>>);

/// The content of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalContent {
    pub(super) term: Term,
    /// The number of this write.
    pub(super) sequence: u64,
    /// When each chunk was written.
    pub(super) chunks: Vec<Stamp>,
    /// The chunks that are being written; they may have later stamps.
    pub(super) unsettled: Vec<u32>,
    /// Sorted.
    pub(super) rows: Vec<RowChange>,
}

/// The content of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkContent {
    pub(super) stamp: Stamp,
    pub(super) rows: Vec<RowChange>,
}

impl JournalContent {
    pub(super) fn encode(&self, group: &str) -> Arc<[u8]> {
        let mut body = begin(SharedPart::Journal, group);
        body.extend(self.term.epoch.to_be_bytes());
        body.extend(self.sequence.to_be_bytes());
        push_text(&mut body, &self.term.holder);
        body.extend(self.term.lease_transitions.to_be_bytes());
        push_length(&mut body, self.chunks.len());
        self.chunks.iter().for_each(|stamp| stamp.push(&mut body));
        push_length(&mut body, self.unsettled.len());
        let numbers = self.unsettled.iter().flat_map(|number| number.to_be_bytes());
        body.extend(numbers);
        push_rows(&mut body, self.rows.iter().map(|(key, value)| (key, value.as_ref())));
        seal(&body)
    }

    pub(super) fn decode(group: &str, data: &[u8]) -> Result<Self, SharedStateError> {
        let body = unseal(SharedPart::Journal, group, data)?;
        let read = |mut reader: Reader<'_>| {
            let epoch = u64::from_be_bytes(reader.array()?);
            let sequence = u64::from_be_bytes(reader.array()?);
            let holder = reader.text()?;
            let lease_transitions = u64::from_be_bytes(reader.array()?);
            let count = reader.length()?;
            let chunks = (0..count).map(|_| Stamp::read(&mut reader)).collect::<Result<_, _>>()?;
            let count = reader.length()?;
            let number = |reader: &mut Reader<'_>| Ok(u32::from_be_bytes(reader.array()?));
            let unsettled = (0..count).map(|_| number(&mut reader)).collect::<Result<_, _>>()?;
            Ok(Self {
                term: Term {
                    epoch,
                    holder,
                    lease_transitions,
                },
                sequence,
                chunks,
                unsettled,
                rows: read_rows(&mut reader)?,
            })
        };
        read(Reader(body)).map_err(|error| malformed(SharedPart::Journal, group, error))
    }
}

impl ChunkContent {
    /// The same rows and the same stamp are the same bytes.
    pub(super) fn encode<'r>(
        group: &str,
        number: u32,
        stamp: Stamp,
        rows: impl Iterator<Item = (&'r RowKey, &'r Arc<[u8]>)>,
    ) -> Arc<[u8]> {
        let mut body = begin(SharedPart::Chunk(number), group);
        body.extend(number.to_be_bytes());
        stamp.push(&mut body);
        push_rows(&mut body, rows.map(|(key, value)| (key, Some(value))));
        seal(&body)
    }

    pub(super) fn decode(group: &str, number: u32, data: &[u8]) -> Result<Self, SharedStateError> {
        let part = SharedPart::Chunk(number);
        let body = unseal(part, group, data)?;
        let read = |mut reader: Reader<'_>| {
            if u32::from_be_bytes(reader.array()?) != number {
                return Err(RowError::Malformed);
            }
            let stamp = Stamp::read(&mut reader)?;
            let rows = read_rows(&mut reader)?;
            Ok(Self { stamp, rows })
        };
        read(Reader(body)).map_err(|error| malformed(part, group, error))
    }
}

impl Stamp {
    fn push(self, out: &mut Vec<u8>) {
        out.extend(self.epoch.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            epoch: u64::from_be_bytes(reader.array()?),
            sequence: u64::from_be_bytes(reader.array()?),
        })
    }
}

/// What a row takes in a chunk or in the journal, at most: the header of its plugin may be shared.
pub(super) fn row_cost_bytes(key: &RowKey, value: Option<&Arc<[u8]>>) -> usize {
    15 + key.plugin.len() + key.key.len() + value.map_or(0, |value| value.len())
}

fn begin(part: SharedPart, group: &str) -> Vec<u8> {
    let mut body = vec![part_number(part)];
    push_text(&mut body, group);
    body
}

fn part_number(part: SharedPart) -> u8 {
    match part {
        SharedPart::Journal => 0,
        SharedPart::Chunk(_) => 1,
    }
}

fn seal(body: &[u8]) -> Arc<[u8]> {
    let format = FORMAT.to_be_bytes();
    let length = (body.len() as u64).to_be_bytes();
    let digest = digest(&SHA256, body);
    [&MAGIC[..], &format, &length, digest.as_ref(), body].concat().into()
}

/// The body after its part and group, if it is undamaged and belongs to `group`.
fn unseal<'d>(part: SharedPart, group: &str, data: &'d [u8]) -> Result<&'d [u8], SharedStateError> {
    let damaged = |reason: &'static str| SharedStateError::damaged(part, group, reason);
    let mut reader = Reader(data);
    let (Ok(magic), Ok(format)) = (reader.array::<16>(), reader.array()) else {
        return Err(damaged("it is empty or cut off"));
    };
    if &magic != MAGIC {
        return Err(damaged("it was written by another program, or edited"));
    }
    let found = u32::from_be_bytes(format);
    if found > FORMAT {
        let (secret, group) = (part.secret_name(group), group.to_owned());
        return Err(SharedStateError::Newer { secret, group, found });
    }
    let (Ok(length), Ok(expected)) = (reader.array(), reader.array::<DIGEST_BYTES>()) else {
        return Err(damaged("it is cut off"));
    };
    if reader.0.len() as u64 != u64::from_be_bytes(length) {
        return Err(damaged("its length differs from what was written"));
    }
    if digest(&SHA256, reader.0).as_ref() != expected {
        return Err(damaged("its checksum differs: it was edited or damaged"));
    }
    let [number] = reader.array().map_err(|error| malformed(part, group, error))?;
    let owner = reader.text().map_err(|error| malformed(part, group, error))?;
    if owner != group {
        return Err(SharedStateError::Foreign {
            secret: part.secret_name(group),
            group: group.to_owned(),
            owner,
        });
    }
    match number == part_number(part) {
        true => Ok(reader.0),
        false => Err(damaged("it has the content of another Secret")),
    }
}

fn malformed(part: SharedPart, group: &str, _: RowError) -> SharedStateError {
    SharedStateError::damaged(part, group, "its rows are malformed")
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    out.extend((length as u32).to_be_bytes());
}

fn push_rows<'r>(out: &mut Vec<u8>, rows: impl Iterator<Item = (&'r RowKey, Option<&'r Arc<[u8]>>)>) {
    let mut space: Option<(&str, RowKind)> = None;
    for (RowKey { plugin, kind, key }, value) in rows {
        if space != Some((plugin, *kind)) {
            space = Some((plugin, *kind));
            out.push(0);
            push_text(out, plugin);
            out.push(*kind as u8);
        }
        out.push(if value.is_some() { 1 } else { 2 });
        push_text(out, key);
        if let Some(value) = value {
            push_length(out, value.len());
            out.extend(&value[..]);
        }
    }
}

fn read_rows(reader: &mut Reader<'_>) -> Result<Vec<RowChange>, RowError> {
    let mut rows = Vec::new();
    let mut space: Option<(Arc<str>, RowKind)> = None;
    while !reader.0.is_empty() {
        let [tag] = reader.array()?;
        let text: Arc<str> = reader.text()?.into();
        if tag == 0 {
            let [kind] = reader.array()?;
            space = Some((text, RowKind::of(kind).ok_or(RowError::Malformed)?));
            continue;
        }
        let (plugin, kind) = space.clone().ok_or(RowError::Malformed)?;
        let value = match tag {
            1 => Some(reader.bytes()?.into()),
            2 => None,
            _ => return Err(RowError::Malformed),
        };
        let key = text;
        rows.push((RowKey { plugin, kind, key }, value));
    }
    Ok(rows)
}
