//! The protocol of the two processes: one request, one answer.
//!
//! ```text
//! request   memory limit, CPU seconds, length: u64 each, little-endian; then the component. The pipe stays open until
//! the answer is complete
//! answer    "artifact" or "refused!", length: u64; then the native code or wasmtime's message
//! ```

/// Bytes of a request before the component.
pub(super) const REQUEST_HEAD_BYTES: usize = 24;

/// Bytes of an answer before its text.
pub(super) const ANSWER_HEAD_BYTES: usize = 16;

const ARTIFACT: &[u8; 8] = b"artifact";
const REFUSED: &[u8; 8] = b"refused!";

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    pub(super) memory_bytes: u64,
    pub(super) cpu_seconds: u64,
    pub(super) length: u64,
}

impl RequestHead {
    pub(super) fn to_bytes(self) -> [u8; REQUEST_HEAD_BYTES] {
        let mut bytes = [0; REQUEST_HEAD_BYTES];
        for (place, number) in bytes
            .chunks_exact_mut(8)
            .zip([self.memory_bytes, self.cpu_seconds, self.length])
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn of_bytes(bytes: [u8; REQUEST_HEAD_BYTES]) -> RequestHead {
        let number = |at: usize| {
            bytes[at..at + 8]
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        RequestHead {
            memory_bytes: number(0),
            cpu_seconds: number(8),
            length: number(16),
        }
    }
}

/// The header of `answer`.
pub(super) fn answer_head(answer: &Result<Vec<u8>, String>) -> [u8; ANSWER_HEAD_BYTES] {
    let (kind, length) = match answer {
        Ok(artifact) => (ARTIFACT, artifact.len()),
        Err(words) => (REFUSED, words.len()),
    };
    let mut bytes = [0; ANSWER_HEAD_BYTES];
    bytes[..8].copy_from_slice(kind);
    bytes[8..].copy_from_slice(&(length as u64).to_le_bytes());
    bytes
}

/// Parses an answer. None if it is incomplete or malformed.
pub(super) fn answer_of(mut bytes: Vec<u8>) -> Option<Result<Vec<u8>, String>> {
    let head = bytes.get(..ANSWER_HEAD_BYTES)?;
    let is_artifact = match &head[..8] {
        kind if kind == ARTIFACT => true,
        kind if kind == REFUSED => false,
        _ => return None,
    };
    if head[8..] != ((bytes.len() - ANSWER_HEAD_BYTES) as u64).to_le_bytes() {
        return None;
    }
    bytes.drain(..ANSWER_HEAD_BYTES);
    Some(match is_artifact {
        true => Ok(bytes),
        false => Err(String::from_utf8_lossy(&bytes).into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_round_trip() {
        let head = RequestHead {
            memory_bytes: 2 << 30,
            cpu_seconds: 480,
            length: 0x0102_0304_0506_0708,
        };
        assert_eq!(RequestHead::of_bytes(head.to_bytes()), head);
        for answer in [Ok(vec![1, 2, 3]), Err("no component".to_owned()), Ok(Vec::new())] {
            let mut bytes = answer_head(&answer).to_vec();
            bytes.extend(match &answer {
                Ok(artifact) => artifact.as_slice(),
                Err(words) => words.as_bytes(),
            });
            assert_eq!(answer_of(bytes.clone()), Some(answer));
            // Truncated, or with trailing bytes: rejected.
            assert_eq!(answer_of(bytes[..bytes.len() - 1].to_vec()), None);
            bytes.push(0);
            assert_eq!(answer_of(bytes), None);
        }
        assert_eq!(answer_of(b"running 0 tests\n\n".to_vec()), None);
    }
}
