//! Requests to an API server through [`kube::Client::send`]: one request, the head of its response, then the body frame
//! by frame.
//!
//! Contains how requests are built ([`CollectionRequest`]), how a response is checked before its body is read as data
//! ([`open`]), how bodies are read with a silence timeout ([`Frames`]), and the possible errors ([`ApiError`]).
//! Independent of lists, watches and objects. Never retries: the caller decides by [`ApiError::cause`]. The client must
//! not retry either (`Config::default_retry = false`), or two retry policies would multiply.

mod answer;
mod error;
mod frames;
mod request;
mod status;

pub use answer::WithoutLogin;
pub(crate) use answer::{ANSWER_SILENCE_MAX, get_json, open, probe, text_start};
pub use error::{ApiError, ApiErrorCause, LoginFailed};
pub(crate) use frames::{Frame, Frames, SilenceTimeout};
pub(crate) use request::{CollectionRequest, JSON, ListQuery};
pub(crate) use status::StatusBody;
