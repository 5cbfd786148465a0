//! What a section of config.toml means: the types that `config` makes and that `informer`, `plugin` and `state` take.
//!
//! ```text
//! config.toml ──informant-config──▶ PluginSpec, ResourceName, … ──▶ informer, plugin host, state
//! ```
//!
//! Each type brings the rules that need nothing but itself: which object a selection selects, which call a grant
//! allows, which resource a pattern covers. Pure: no I/O, no async, no clock, and neither TOML nor WebAssembly.
//!
//! ```layers
//! digest suggest language duration identity
//! content
//! resource
//! resource_name resource_pattern
//! selection policy limits timer
//! kube_grant http_grant
//! plugin
//! ```
//!
//! - `digest`, `language`, `content`: what a plugin is made of and written in, where that comes from, and the sha256
//!   that pins and identifies it.
//! - `resource`, `resource_name`, `resource_pattern`: a resource as the API server names it, as people write it, and
//!   several at once.
//! - `selection`: which objects.
//! - `identity`: as whom a plugin acts.
//! - `duration`, `timer`: how long, and when a plugin is called without a change.
//! - `policy`, `limits`: what happens to what fails or exceeds, and when it exceeds.
//! - `kube_grant`, `http_grant`: what a plugin may do on the cluster, and where it may send requests.
//! - `suggest`: the word that was probably meant.
//! - `plugin`: a section `[plugin.NAME]` as a whole.

mod content;
mod digest;
mod duration;
mod http_grant;
mod identity;
mod kube_grant;
mod language;
mod limits;
mod plugin;
mod policy;
mod resource;
mod resource_name;
mod resource_pattern;
mod selection;
pub mod suggest;
mod timer;

pub use content::{Content, ContentSource};
pub use digest::{Digest, DigestBuilder, DigestError};
pub use duration::{DURATION_FORM, parse_duration, show_duration};
pub use http_grant::{HttpGrant, HttpGrantError, HttpTarget};
pub use identity::{ServiceAccount, ServiceAccountError};
pub use kube_grant::{
    InformerGrant, KubeGrant, KubeResource, KubeResourceError, KubeVerb, ResourceAttributes, allow_line, is_name,
    is_segment, unmet,
};
pub use language::{Language, Suffix};
pub use limits::{INSTANCES_MAX, Limits};
pub use plugin::{ALLOW_EVENTS, CALL_INTERVAL_MAX, CALL_INTERVAL_MIN, PluginSpec, WAIT_FOR_MAX_DEFAULT};
pub use policy::{OnFailure, ReplayPolicy, Required, RetryPolicy, StoredContent, WaitFor};
pub use resource::{GroupVersionResource, group_version_path};
pub use resource_name::{ResourceName, ResourceNameError, guessed_plural};
pub use resource_pattern::{Exclude, ResourcePattern, ResourcePatternError};
pub use selection::EventSelection;
pub use timer::{CronSchedule, Due, Missed, Schedule, ScheduleError, TIMER_EVERY_MAX, TIMER_EVERY_MIN, TimerSpec};
