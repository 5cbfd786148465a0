//! Talking to an API server through [`kube::Client::send`]: one request, its answer's status, then the body frame by
//! frame.
//!
//! Owns how requests are written ([`CollectionRequest`]), how an answer is judged before its body is taken for data
//! ([`open`]), how bodies are read with a deadline on silence ([`Frames`]) and what can go wrong on that way
//! ([`ApiError`]). Knows nothing of lists, watches and objects. Never retries: whoever asks decides, by
//! [`ApiError::cause`], what comes next. The client must not retry either (`Config::default_retry = false`), or two
//! rules of pacing would multiply.

mod answer;
mod error;
mod frames;
mod request;
mod status;

pub(crate) use answer::{ANSWER_SILENCE_MAX, get_json, get_json_as, open, text_start};
pub use error::ApiError;
pub use error::ApiErrorCause;
pub(crate) use frames::{Frame, Frames, SilenceTimeout};
pub(crate) use request::{CollectionRequest, ListQuery, WatchListQuery, WatchQuery};
pub(crate) use status::Status;
