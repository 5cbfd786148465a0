//! A question to the API server for many objects, and its answer, page by page.

use std::vec;

use super::contract::{Address, ListOptions};
use super::{Error, Object, Result};
use crate::host;

/// Which objects to read. Nothing is asked before [`objects`](Self::objects) is iterated over.
#[derive(Debug, Clone)]
#[must_use = "nothing is asked before `objects` is iterated over"]
pub struct List {
    address: Address,
    options: ListOptions,
}

impl List {
    pub(super) fn new(resource: String) -> Self {
        let address = Address {
            cluster: String::new(),
            resource,
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
        };
        let options = ListOptions {
            label_selector: String::new(),
            field_selector: String::new(),
            limit: 0,
            cursor: String::new(),
        };
        Self { address, options }
    }

    /// In this cluster, where config.toml has several.
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.address.cluster = cluster.into();
        self
    }

    /// Only objects of this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.address.namespace = namespace.into();
        self
    }

    /// Only objects whose labels this selector matches, in Kubernetes' syntax: `app=web,tier in (a, b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.label_selector = selector.into();
        self
    }

    /// Only objects whose fields this selector matches: `spec.nodeName=node-1`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.field_selector = selector.into();
        self
    }

    /// So many objects with each request; 500 without it, which is also the most.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.options.limit = objects;
        self
    }

    /// The objects. Each page is asked for when the one before is used up; after an error nothing more comes.
    pub fn objects(self) -> Objects {
        Objects {
            list: self,
            page: Vec::new().into_iter(),
            is_over: false,
        }
    }
}

/// Objects from the API server.
#[derive(Debug)]
pub struct Objects {
    list: List,
    page: vec::IntoIter<Vec<u8>>,
    is_over: bool,
}

impl Iterator for Objects {
    type Item = Result<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(json) = self.page.next() {
                return Some(Ok(Object(json)));
            }
            if self.is_over {
                return None;
            }
            match host::kube_list(&self.list.address, &self.list.options) {
                Ok(page) => {
                    self.is_over = page.cursor.is_empty();
                    self.list.options.cursor = page.cursor;
                    self.page = page.items.into_iter();
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(Error::from(error)));
                }
            }
        }
    }
}
