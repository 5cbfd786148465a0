//! Pages of whole objects of one namespace, as LIST returns them.

use std::sync::{Arc, Mutex, PoisonError};

use informant_object::frames::{ListObject, ListSplitter, WATCH_LINE_BYTES_MAX};
use informant_object::{Object, Shape};

use crate::api::{ANSWER_SILENCE_MAX, ApiError, CollectionRequest, Frames, ListQuery, SilenceTimeout};
use crate::cluster_client::ClusterLink;
use crate::spec::SourceSpec;

/// The bytes that a page of bodies should have, by the mean size of the objects of the namespace: 4 MiB.
pub(crate) const BODY_PAGE_BYTES: usize = 4 * 1_024 * 1_024;

/// The most bytes of a page of bodies: 8 MiB. Nothing is read behind the object that reaches them, unless it is the
/// first one: objects differ in size, and an API server may send more of them than it was asked for.
pub(crate) const BODY_PAGE_BYTES_MAX: usize = 2 * BODY_PAGE_BYTES;

/// The most objects of a page of bodies.
pub(crate) const BODY_PAGE_OBJECTS_MAX: usize = 500;

/// After this many objects other tasks get a turn: large ones take long.
const OBJECTS_PER_YIELD: usize = 32;

/// What the source is configured to read, as last set.
#[derive(Debug)]
pub(crate) struct ReadSpec(Mutex<(Arc<SourceSpec>, Arc<Shape>)>);

/// One page.
#[derive(Debug)]
pub(crate) struct BodyPage {
    pub(crate) objects: Vec<Object>,
    /// The token of the next page; empty after the last one, or if this one was cut.
    pub(crate) continuation: String,
    /// It has reached [`BODY_PAGE_BYTES_MAX`]: what is behind its last object was not read.
    pub(crate) is_cut: bool,
}

/// How many objects of `bytes` on average a page has.
pub(crate) fn page_objects(bytes: usize) -> usize {
    (BODY_PAGE_BYTES / bytes.max(1)).clamp(1, BODY_PAGE_OBJECTS_MAX)
}

impl ReadSpec {
    pub(crate) fn new(spec: Arc<SourceSpec>, shape: Shape) -> Self {
        Self(Mutex::new((spec, Arc::new(shape))))
    }

    pub(crate) fn set(&self, spec: Arc<SourceSpec>, shape: Shape) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (spec, Arc::new(shape));
    }

    /// Whether objects are their metadata only, so that heads of them lack nothing.
    pub(crate) fn is_metadata_only(&self) -> bool {
        self.get().0.metadata_only
    }

    /// Reads a page of `namespace`, which is empty for cluster-scoped objects, or the object `name` in it.
    pub(crate) async fn read_page(
        &self,
        link: &ClusterLink,
        namespace: &str,
        name: Option<&str>,
        objects_max: usize,
        continuation: &str,
    ) -> Result<BodyPage, ApiError> {
        let (spec, shape) = self.get();
        let mut spec = SourceSpec::clone(&spec);
        spec.namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
        let mut request = CollectionRequest::of(&spec);
        if let Some(name) = name {
            request = request.of_name(name);
        }
        let query = ListQuery {
            // The newest state: it is at least as new as every head.
            version: None,
            limit: objects_max,
            continuation: Some(continuation).filter(|token| !token.is_empty()),
        };
        let response = link.open(request.list(&query)?).await?;
        let silence_timeout = SilenceTimeout::after(ANSWER_SILENCE_MAX);
        let mut frames = Frames::of_source(response.into_body(), link, silence_timeout);
        let mut splitter = ListSplitter::new(WATCH_LINE_BYTES_MAX);
        let mut objects: Vec<Object> = Vec::new();
        let (mut read, mut bytes) = (0, 0);
        while let Some(frame) = frames.next().await? {
            splitter.push(frame.bytes);
            while let Some(item) = splitter.next_object(&shape, |_| true)? {
                // What cannot be kept has no head either.
                if let ListObject::Object(object) = item {
                    bytes += object.size_bytes();
                    if bytes > BODY_PAGE_BYTES_MAX && !objects.is_empty() {
                        return Ok(BodyPage {
                            objects,
                            continuation: String::new(),
                            is_cut: true,
                        });
                    }
                    objects.push(object);
                }
                read += 1;
                if read % OBJECTS_PER_YIELD == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(BodyPage {
            objects,
            continuation: splitter.finish()?.continue_token,
            is_cut: false,
        })
    }

    fn get(&self) -> (Arc<SourceSpec>, Arc<Shape>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
