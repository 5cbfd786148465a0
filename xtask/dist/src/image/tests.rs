use std::path::Path;

use oci_spec::image::{ImageConfiguration, ImageIndex, ImageManifest};
use tempfile::TempDir;

use super::base::Base;
use super::layout::Layout;
use super::{Variant, build, unpack, write_test_base};
use crate::platform::Platform;
use crate::program::Program;
use crate::python::{FILE, runner};
use crate::release::release;
use crate::tree::{Tree, gzip};

struct Folder {
    folder: TempDir,
    base: Layout,
    programs: Vec<Program>,
}

fn folder() -> Folder {
    let folder = tempfile::tempdir().unwrap();
    write_test_base(&folder.path().join("base")).unwrap();
    let program = |platform: Platform| {
        let file = folder.path().join(platform.architecture());
        std::fs::write(&file, platform.target()).unwrap();
        Program { platform, file }
    };
    Folder {
        base: Layout::open(&folder.path().join("base")).unwrap(),
        programs: vec![program(Platform::Amd64), program(Platform::Arm64)],
        folder,
    }
}

impl Folder {
    fn build(&self, name: &str) -> Layout {
        self.build_variant(&Variant::Plain, name).unwrap()
    }

    fn build_variant(&self, variant: &Variant, name: &str) -> Option<Layout> {
        let out = self.folder.path().join(name);
        build(&self.base, &self.programs, variant, &release(), &out).unwrap()
    }
}

fn blob_names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("blobs/sha256")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn index_names_an_image_per_platform() {
    let made = folder();
    let layout = made.build("image");
    let outer = layout.index().unwrap();
    assert_eq!(outer.manifests().len(), 1);
    let index: ImageIndex = layout.get_document(&outer.manifests()[0]).unwrap();
    let platforms: Vec<String> = index
        .manifests()
        .iter()
        .map(|manifest| manifest.platform().as_ref().unwrap().architecture().to_string())
        .collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
}

#[test]
fn image_starts_informant_without_root() {
    let made = folder();
    let layout = made.build("image");
    let image = Base::find(&layout, Platform::Arm64).unwrap();
    let mut shown = serde_json::to_value(&image.config).unwrap();
    shown["rootfs"]["diff_ids"] = image.config.rootfs().diff_ids().len().into();
    insta::assert_snapshot!(format!("{shown:#}"), @r#"
    {
      "architecture": "arm64",
      "config": {
        "Cmd": [
          "run",
          "--config",
          "/etc/informant/config.toml",
          "--log-format",
          "json"
        ],
        "Entrypoint": [
          "informant"
        ],
        "Env": [
          "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          "XDG_CACHE_HOME=/cache"
        ],
        "ExposedPorts": {
          "8090/tcp": {}
        },
        "Labels": {
          "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
          "org.opencontainers.image.description": "Runs Kubernetes informers and calls WebAssembly handlers",
          "org.opencontainers.image.licenses": "Apache-2.0",
          "org.opencontainers.image.revision": "0123456789abcdef",
          "org.opencontainers.image.source": "https://example.com/informant",
          "org.opencontainers.image.title": "informant",
          "org.opencontainers.image.version": "0.1.0"
        },
        "User": "65532:65532",
        "WorkingDir": "/"
      },
      "created": "2023-11-14T22:13:20Z",
      "history": [
        {
          "created": "2023-11-14T22:13:20Z",
          "created_by": "cargo xtask dist"
        }
      ],
      "os": "linux",
      "rootfs": {
        "diff_ids": 2,
        "type": "layers"
      }
    }
    "#);
    assert_eq!(image.manifest.layers().len(), 2);
}

#[test]
fn two_builds_give_equal_bytes() {
    let made = folder();
    let (first, second) = (made.build("first"), made.build("second"));
    let blobs = |name: &str| blob_names(&made.folder.path().join(name));
    assert_eq!(blobs("first"), blobs("second"));
    assert!(first.as_archive(1).unwrap() == second.as_archive(1).unwrap());
}

#[test]
fn layers_are_the_files_that_the_configuration_names() {
    let made = folder();
    let layout = made.build("image");
    let image = Base::find(&layout, Platform::Amd64).unwrap();
    for (layer, id) in image.manifest.layers().iter().zip(image.config.rootfs().diff_ids()) {
        let bytes = layout.get(layer).unwrap();
        let mut tar = Vec::new();
        std::io::copy(&mut super::base::uncompressed(layer, &bytes).unwrap(), &mut tar).unwrap();
        assert_eq!(*id, format!("sha256:{}", crate::checksums::sha256(&tar)));
    }
    let root = made.folder.path().join("root");
    unpack(&layout, &root, Path::new("/shared")).unwrap();
    let program = std::fs::read_to_string(root.join("usr/local/bin/informant")).unwrap();
    assert_eq!(program, Platform::of_this_machine().unwrap().target());
    assert!(root.join("etc/passwd").is_file());
}

#[cfg(unix)]
#[test]
fn second_image_has_the_python_runner_compiled() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut made = folder();
    // In place of `informant plugin compile --target ARCHITECTURE RUNNER`.
    let script =
        "#!/bin/sh\nset -eu\ncd \"${5%/*}\"\n/bin/mkdir compiled\necho \"code for $4\" > compiled/digest.cwasm\n";
    let here = Platform::of_this_machine().unwrap();
    let program = made.programs.iter().find(|program| program.platform == here).unwrap();
    std::fs::write(&program.file, script).unwrap();
    std::fs::set_permissions(&program.file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let runner = runner();
    let layout = made.build_variant(&Variant::Python(&runner), "image-python").unwrap();
    let name = layout.index().unwrap().manifests()[0].annotations().clone().unwrap();
    assert_eq!(name["org.opencontainers.image.ref.name"], "0.1.0-python");
    let root = made.folder.path().join("root");
    unpack(&layout, &root, Path::new("/shared")).unwrap();
    let lib = root.join("usr/local/lib/informant");
    assert_eq!(std::fs::read(lib.join(FILE)).unwrap(), runner.bytes);
    let code = std::fs::read_to_string(lib.join("compiled/digest.cwasm")).unwrap();
    assert_eq!(code, format!("code for {}\n", here.architecture()));
    assert!(root.join("usr/local/bin/informant").is_file());
    // Without the program for this machine nothing can be compiled.
    made.programs.retain(|program| program.platform != here);
    assert!(made.build_variant(&Variant::Python(&runner), "other").is_none());
}

#[test]
fn base_with_a_shell_is_refused() {
    let made = folder();
    let base = Base::find(&made.base, Platform::Amd64).unwrap();
    let mut tree = Tree::default();
    tree.file("usr/bin/bash", 0o755, "#!");
    let layer = made
        .base
        .put(
            oci_spec::image::MediaType::ImageLayerGzip,
            &gzip(&tree.to_tar(0).unwrap()).unwrap(),
        )
        .unwrap();
    let mut manifest: ImageManifest = base.manifest.clone();
    manifest.layers_mut().push(layer);
    let config: ImageConfiguration = base.config.clone();
    let with_shell = Base {
        layout: &made.base,
        manifest,
        config,
    };
    base.refuse_shells().unwrap();
    insta::assert_snapshot!(with_shell.refuse_shells().unwrap_err(), @"the base contains a shell: usr/bin/bash");
}

#[test]
fn base_without_the_platform_or_with_two_is_refused() {
    let made = folder();
    let [amd64, _] = made.base.index().unwrap().manifests().clone().try_into().unwrap();
    let refused = |platform| format!("{:#}", Base::find(&made.base, platform).err().unwrap());
    made.base.set_index(vec![amd64.clone()]).unwrap();
    insta::assert_snapshot!(refused(Platform::Arm64), @"the layout has no image for linux/arm64");
    made.base.set_index(vec![amd64.clone(), amd64]).unwrap();
    insta::assert_snapshot!(refused(Platform::Amd64), @"the layout has 2 images for linux/amd64: keep one");
}

#[test]
fn damaged_blob_and_foreign_folder_are_refused() {
    let made = folder();
    let path = made.folder.path().join("base/blobs/sha256");
    let manifest = made.base.index().unwrap().manifests()[0].clone();
    std::fs::write(path.join(manifest.as_digest_sha256().unwrap()), "{}").unwrap();
    let error = Base::find(&made.base, Platform::Amd64).err().unwrap();
    assert!(error.to_string().contains("is damaged"), "{error:#}");
    let error = Layout::open(&path).err().unwrap();
    assert!(error.to_string().contains("is not an OCI image layout"), "{error:#}");
}
