//! The full repository of an image reference.

/// The defaults for references without a registry, and without a folder.
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_FOLDER: &str = "library";

/// `registry/path` of a reference, without tag and digest: `docker.io/library/nginx` for `nginx:1.25`.
///
/// The first part is a registry if it contains a dot or a colon, or is `localhost`, as in container runtimes (the
/// reference grammar of the distribution project).
pub(crate) fn of(image: &str) -> String {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    // After the registry and its port, a colon starts the tag.
    let path = path.split_once(':').map_or(path, |(path, _)| path);
    match registry {
        "docker.io" | "index.docker.io" if !path.contains('/') => format!("{DEFAULT_REGISTRY}/{DEFAULT_FOLDER}/{path}"),
        "index.docker.io" => format!("{DEFAULT_REGISTRY}/{path}"),
        _ => format!("{registry}/{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_reference_gets_a_full_repository_without_tag_and_digest() {
        for (image, repository) in [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1.25", "docker.io/library/nginx"),
            ("docker.io/nginx", "docker.io/library/nginx"),
            ("index.docker.io/bitnami/redis:8", "docker.io/bitnami/redis"),
            ("bitnami/redis", "docker.io/bitnami/redis"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause"),
            ("ghcr.io/a/b/c:v1@sha256:0123", "ghcr.io/a/b/c"),
            ("nginx@sha256:0123", "docker.io/library/nginx"),
            ("localhost/app:dev", "localhost/app"),
            ("registry:5000/app:dev", "registry:5000/app"),
            ("10.0.0.1:5000/app", "10.0.0.1:5000/app"),
        ] {
            assert_eq!(of(image), repository, "{image}");
        }
    }
}
