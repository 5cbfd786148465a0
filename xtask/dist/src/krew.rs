//! The manifest with which krew installs `kubectl informant`: the same program, under another name.

use crate::archive::Archive;
use crate::release::Release;

/// The manifest for `archives` that are downloaded from the release's page below `source`.
pub(crate) fn manifest(archives: &[Archive], source: &str, release: &Release) -> String {
    let tag = release.expected_tag();
    let mut text = format!(
        "\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: informant
spec:
  version: {tag}
  homepage: {source}
  shortDescription: Query and operate Informant in the cluster
  description: |
    Opens a port-forward to the Informant in your cluster, and lists the
    objects in its cache, its status and its plugins, with your rights.
  platforms:
"
    );
    let platforms = archives.iter().map(|Archive { platform, name, sha256 }| {
        let architecture = platform.architecture();
        format!(
            "    \
    - selector:
        matchLabels:
          os: linux
          arch: {architecture}
      uri: {source}/releases/download/{tag}/{name}.tar.gz
      sha256: {sha256}
      files:
        - from: {name}/informant
          to: .
        - from: {name}/LICENSE
          to: .
      bin: informant
"
        )
    });
    text.extend(platforms);
    text
}

#[cfg(test)]
mod tests {
    use super::manifest;
    use crate::archive::Archive;
    use crate::platform::Platform;
    use crate::release::release;

    #[test]
    fn manifest_names_each_archive_with_its_digest() {
        let archive = |platform: Platform| Archive {
            platform,
            name: format!("informant-0.1.0-linux-{}", platform.architecture()),
            sha256: format!("digest-of-{}", platform.architecture()),
        };
        let archives = [archive(Platform::Amd64), archive(Platform::Arm64)];
        let text = manifest(&archives, "https://example.com/informant", &release());
        insta::assert_snapshot!(text, @"
        apiVersion: krew.googlecontainertools.github.com/v1alpha2
        kind: Plugin
        metadata:
          name: informant
        spec:
          version: v0.1.0
          homepage: https://example.com/informant
          shortDescription: Query and operate Informant in the cluster
          description: |
            Opens a port-forward to the Informant in your cluster, and lists the
            objects in its cache, its status and its plugins, with your rights.
          platforms:
            - selector:
                matchLabels:
                  os: linux
                  arch: amd64
              uri: https://example.com/informant/releases/download/v0.1.0/informant-0.1.0-linux-amd64.tar.gz
              sha256: digest-of-amd64
              files:
                - from: informant-0.1.0-linux-amd64/informant
                  to: .
                - from: informant-0.1.0-linux-amd64/LICENSE
                  to: .
              bin: informant
            - selector:
                matchLabels:
                  os: linux
                  arch: arm64
              uri: https://example.com/informant/releases/download/v0.1.0/informant-0.1.0-linux-arm64.tar.gz
              sha256: digest-of-arm64
              files:
                - from: informant-0.1.0-linux-arm64/informant
                  to: .
                - from: informant-0.1.0-linux-arm64/LICENSE
                  to: .
              bin: informant
        ");
    }
}
