//! Image references, as far as a registry is asked about them.

/// The registry of references without one, and the folder of those without one there.
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_FOLDER: &str = "library/";

/// `nginx:1.25` is `docker.io`, `library/nginx` and `1.25`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image {
    pub registry: String,
    pub path: String,
    pub tag: String,
}

impl Image {
    /// None for a reference without a tag, or with a digest: it does not say which version is wanted.
    ///
    /// The first part is a registry if it contains a dot or a colon, or is `localhost`, as in container runtimes (the
    /// reference grammar of the distribution project).
    pub(crate) fn parse(reference: &str) -> Option<Self> {
        if reference.contains('@') {
            return None;
        }
        let (registry, path) = match reference.split_once('/') {
            Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) => (first, rest),
            _ => (DEFAULT_REGISTRY, reference),
        };
        let (path, tag) = path.split_once(':')?;
        let is_official = registry == DEFAULT_REGISTRY && !path.contains('/');
        let folder = if is_official { DEFAULT_FOLDER } else { "" };
        Some(Self {
            registry: registry.to_owned(),
            path: format!("{folder}{path}"),
            tag: tag.to_owned(),
        })
    }

    /// The registry and the path.
    pub(crate) fn repository(&self) -> String {
        format!("{}/{}", self.registry, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_with_a_tag_names_its_repository() {
        for (reference, repository, tag) in [
            ("nginx:1.25", "docker.io/library/nginx", "1.25"),
            ("bitnami/redis:8", "docker.io/bitnami/redis", "8"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause", "3.10"),
            ("registry:5000/app:dev", "registry:5000/app", "dev"),
        ] {
            let image = Image::parse(reference).unwrap();
            assert_eq!((&*image.repository(), &*image.tag), (repository, tag), "{reference}");
        }
        for reference in ["nginx", "registry:5000/app", "nginx:1.25@sha256:0123"] {
            assert_eq!(Image::parse(reference), None, "{reference}");
        }
    }
}
