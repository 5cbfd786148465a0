//! The protocol of the two processes: one request, one answer.
//!
//! ```text
//! report    "confined", flags: u64, little-endian. Written before the request is read
//! request   work, memory limit, CPU seconds, length: u64 each, little-endian; then the component or script. The pipe
//!           stays open until the answer is complete
//! answer    "artifact" or "refused!", length: u64; then the native code or text, or what is wrong with the input
//! ```

use super::confine::{Confinement, Landlock};

/// Bytes of a report.
pub(super) const REPORT_BYTES: usize = 16;

/// Bytes of a request before the component or script.
pub(super) const REQUEST_HEAD_BYTES: usize = 32;

/// Bytes of an answer before its text.
pub(super) const ANSWER_HEAD_BYTES: usize = 16;

const CONFINED: &[u8; 8] = b"confined";
const ARTIFACT: &[u8; 8] = b"artifact";
const REFUSED: &[u8; 8] = b"refused!";

/// The flags of a report.
const NO_NEW_PRIVS: u64 = 1;
const LANDLOCK: u64 = 2;
const LANDLOCK_FULL: u64 = 4;
const SECCOMP: u64 = 8;

/// The report of what holds in the child.
pub(super) fn report(confinement: Confinement) -> [u8; REPORT_BYTES] {
    let landlock = match confinement.landlock {
        Landlock::Absent => 0,
        Landlock::Partial => LANDLOCK,
        Landlock::Full => LANDLOCK | LANDLOCK_FULL,
    };
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = landlock | flag(confinement.no_new_privs, NO_NEW_PRIVS) | flag(confinement.seccomp, SECCOMP);
    let mut bytes = [0; REPORT_BYTES];
    bytes[..8].copy_from_slice(CONFINED);
    bytes[8..].copy_from_slice(&flags.to_le_bytes());
    bytes
}

/// Cuts the report off the child's output. None if there is none.
pub(super) fn take_report(output: &mut Vec<u8>) -> Option<Confinement> {
    let flags = output.get(..REPORT_BYTES)?.strip_prefix(CONFINED)?;
    let flags = u64::from_le_bytes(flags.try_into().ok()?);
    output.drain(..REPORT_BYTES);
    Some(Confinement {
        no_new_privs: flags & NO_NEW_PRIVS != 0,
        landlock: match (flags & LANDLOCK != 0, flags & LANDLOCK_FULL != 0) {
            (false, _) => Landlock::Absent,
            (true, false) => Landlock::Partial,
            (true, true) => Landlock::Full,
        },
        seccomp: flags & SECCOMP != 0,
    })
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Compile,
    EraseTypes,
}

impl Work {
    /// The work, as messages about its limits name it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Work::Compile => "compiling one component",
            Work::EraseTypes => "erasing the types of a script",
        }
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    pub(super) work: Work,
    pub(super) memory_bytes: u64,
    pub(super) cpu_seconds: u64,
    pub(super) length: u64,
}

impl RequestHead {
    pub(super) fn to_bytes(self) -> [u8; REQUEST_HEAD_BYTES] {
        let mut bytes = [0; REQUEST_HEAD_BYTES];
        for (place, number) in
            bytes
                .chunks_exact_mut(8)
                .zip([self.work as u64, self.memory_bytes, self.cpu_seconds, self.length])
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
            work: match number(0) {
                0 => Work::Compile,
                _ => Work::EraseTypes,
            },
            memory_bytes: number(8),
            cpu_seconds: number(16),
            length: number(24),
        }
    }
}

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
    fn reports_survive_a_round_trip() {
        for landlock in [Landlock::Absent, Landlock::Partial, Landlock::Full] {
            for (no_new_privs, seccomp) in [(false, false), (true, false), (true, true)] {
                let confinement = Confinement {
                    no_new_privs,
                    landlock,
                    seccomp,
                };
                let mut output = [&report(confinement)[..], b"artifact"].concat();
                assert_eq!(take_report(&mut output), Some(confinement));
                assert_eq!(output, b"artifact");
            }
        }
        assert_eq!(take_report(&mut b"confined".to_vec()), None);
        assert_eq!(take_report(&mut b"artifact and so on".to_vec()), None);
    }

    #[test]
    fn messages_survive_a_round_trip() {
        for work in [Work::Compile, Work::EraseTypes] {
            let head = RequestHead {
                work,
                memory_bytes: 2 << 30,
                cpu_seconds: 480,
                length: 0x0102_0304_0506_0708,
            };
            assert_eq!(RequestHead::of_bytes(head.to_bytes()), head);
        }
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
