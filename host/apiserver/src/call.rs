//! A request, parsed as far as all of its handlers need it.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use crate::query::Query;
use crate::replica_cache::ReplicaCache;
use crate::state::ServerState;

pub(crate) struct Call<'a> {
    pub(crate) state: &'a Arc<ServerState>,
    pub(crate) cache: &'a Arc<ReplicaCache>,
    pub(crate) method: &'a Method,
    pub(crate) accept: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) query: &'a Query,
    pub(crate) body: &'a Bytes,
    /// Whether a watch that this opens is silent.
    pub(crate) frozen: bool,
}
