//! [`GroupVersionResource`]: identifies a resource, and its path on the API server.

use std::fmt;

/// A resource as in the API server's paths, for example apps, v1, deployments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version within the group, for example `v1`.
    pub version: String,
    /// The resource's name in paths, always plural and in lower case, for example `deployments`.
    pub plural: String,
}

impl GroupVersionResource {
    /// A resource of an API group; `group` is empty for the core group.
    pub fn new(group: impl Into<String>, version: impl Into<String>, plural: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
        }
    }

    /// Parses `v1/pods`, `apps/v1/deployments`. None if it has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            [version, plural] => Some(Self::new("", version, plural)),
            [group, version, plural] => Some(Self::new(group, version, plural)),
            _ => None,
        }
    }

    /// The `apiVersion` of this resource's objects: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path that lists this resource in one namespace, or with `None` in all (or for a cluster-scoped resource).
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = group_version_path(&self.group, &self.version);
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{}/{}", path_segment(namespace), self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(out, "{}/", self.group)?;
        }
        write!(out, "{}/{}", self.version, self.plural)
    }
}

/// The path of a version of a group; the core group (empty) has a different root.
pub fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{}", path_segment(version))
    } else {
        format!("/apis/{}/{}", path_segment(group), path_segment(version))
    }
}

/// `text` as one path segment: everything that could end the segment is escaped.
fn path_segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    if text.bytes().all(plain) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if plain(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push('%');
            for nibble in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(nibble), 16).expect("four bits are one hexadecimal digit");
                escaped.push(digit.to_ascii_uppercase());
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_api_servers_layout() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let deployments = GroupVersionResource::new("apps", "v1", "deployments");
        assert_eq!(pods.path(None), "/api/v1/pods");
        assert_eq!(pods.path(Some("default")), "/api/v1/namespaces/default/pods");
        assert_eq!(deployments.path(None), "/apis/apps/v1/deployments");
        assert_eq!(
            deployments.path(Some("a/b")),
            "/apis/apps/v1/namespaces/a%2Fb/deployments"
        );
    }

    #[test]
    fn resources_are_displayed_as_in_the_configuration() {
        assert_eq!(GroupVersionResource::new("", "v1", "pods").to_string(), "v1/pods");
        assert_eq!(
            GroupVersionResource::new("apps", "v1", "deployments").to_string(),
            "apps/v1/deployments"
        );
        assert_eq!(
            GroupVersionResource::new("apps", "v1", "deployments").api_version(),
            "apps/v1"
        );
    }
}
