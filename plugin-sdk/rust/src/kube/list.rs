//! Lists objects from the API server, page by page.

use std::vec;

use super::contract::Address;
use super::options::{ListOptions, document};
use super::{Error, Object, Result};
use crate::host;

/// Which objects to list. Sends no request until you iterate over [`objects`](Self::objects).
#[derive(Debug, Clone)]
#[must_use = "sends no request until you iterate over `objects`"]
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
        Self {
            address,
            options: ListOptions::default(),
        }
    }

    /// Selects the cluster. The default is the cluster of the object that the call is about.
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.address.cluster = cluster.into();
        self
    }

    /// Only objects in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.address.namespace = namespace.into();
        self
    }

    /// Only objects that match this label selector: `app=web,tier in (a, b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.label_selector = selector.into();
        self
    }

    /// Only objects that match this field selector: `spec.nodeName=node-1`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.field_selector = selector.into();
        self
    }

    /// The number of objects in each page. The default and the maximum are 500.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.options.limit = objects;
        self
    }

    /// Iterates over the objects. Requests each page when the previous one is used up. Ends after the first error.
    pub fn objects(self) -> Objects {
        Objects {
            list: self,
            page: Vec::new().into_iter(),
            is_done: false,
        }
    }
}

/// Objects from the API server.
#[derive(Debug)]
pub struct Objects {
    list: List,
    page: vec::IntoIter<Vec<u8>>,
    is_done: bool,
}

impl Iterator for Objects {
    type Item = Result<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(json) = self.page.next() {
                return Some(Ok(Object(json)));
            }
            if self.is_done {
                return None;
            }
            match host::kube_list(&self.list.address, &document(&self.list.options)) {
                Ok(page) => {
                    self.is_done = page.cursor.is_empty();
                    self.list.options.cursor = page.cursor;
                    self.page = page.items.into_iter();
                }
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(Error::from(error)));
                }
            }
        }
    }
}
