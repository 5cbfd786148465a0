//! [`KubeResource`]: the unambiguous name of a resource.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::is_segment;
use crate::resource::GroupVersionResource;

/// A resource by group, version and plural: `v1/pods`, `apps/v1/deployments`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubeResource {
    /// Empty for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `pods`.
    pub plural: String,
}

/// A text that is not the name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a resource: {problem}; write `v1/pods` or `apps/v1/deployments`")]
pub struct KubeResourceError {
    text: String,
    problem: &'static str,
}

impl KubeResource {
    /// Kubernetes Events.
    #[must_use]
    pub fn events() -> KubeResource {
        KubeResource {
            group: "events.k8s.io".to_owned(),
            version: "v1".to_owned(),
            plural: "events".to_owned(),
        }
    }

    /// Reads `v1/pods`, `apps/v1/deployments`.
    ///
    /// # Errors
    /// [`KubeResourceError`] for every other form. A kind alone is ambiguous, so it is rejected.
    pub fn parse(text: &str) -> Result<KubeResource, KubeResourceError> {
        let refuse = |problem| {
            Err(KubeResourceError {
                text: text.to_owned(),
                problem,
            })
        };
        if text.contains('*') {
            return refuse("there are no wildcards");
        }
        let parts: Vec<&str> = text.split('/').collect();
        let (group, version, plural) = match parts[..] {
            [version, plural] => ("", version, plural),
            [group, version, plural] if is_group(group) => (group, version, plural),
            [_, _, _] => {
                return refuse(
                    "a subresource goes into its own field (`subresources` of a grant, `subresource` of a call)",
                );
            }
            _ => return refuse("a version and a plural are required"),
        };
        if !is_version(version) {
            return refuse("its version is invalid");
        }
        if !is_plural(plural) {
            return refuse("its last part is not a lowercase plural");
        }
        let [group, version, plural] = [group, version, plural].map(str::to_owned);
        Ok(KubeResource { group, version, plural })
    }

    /// The path of one version of the API: `/api/v1`, `/apis/apps/v1`.
    #[must_use]
    pub fn root(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }
}

/// A DNS name that cannot be a version.
fn is_group(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    is_segment(text) && text.bytes().all(good) && !is_version(text)
}

/// `v1`, `v2beta1`, `v1alpha3`.
fn is_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(rest),
    }
}

/// Words with another meaning in the position of a plural, with which a path could be read as that of another object.
///
/// Source: apiserver `pkg/endpoints/request/requestinfo.go`, `specialVerbs` and `namespaceSubresources`.
const RESERVED: [&str; 4] = ["finalize", "proxy", "status", "watch"];

fn is_plural(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    is_segment(text) && text.bytes().all(good) && !RESERVED.contains(&text)
}

impl fmt::Display for KubeResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.plural)
    }
}

impl TryFrom<String> for KubeResource {
    type Error = KubeResourceError;

    fn try_from(text: String) -> Result<KubeResource, KubeResourceError> {
        KubeResource::parse(&text)
    }
}

impl From<KubeResource> for String {
    fn from(resource: KubeResource) -> String {
        resource.to_string()
    }
}

impl From<&KubeResource> for GroupVersionResource {
    fn from(resource: &KubeResource) -> GroupVersionResource {
        GroupVersionResource::new(&resource.group, &resource.version, &resource.plural)
    }
}

impl From<&GroupVersionResource> for KubeResource {
    fn from(resource: &GroupVersionResource) -> KubeResource {
        KubeResource {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
        }
    }
}
