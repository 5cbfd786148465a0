use std::fs;

use informant_cache::Moment;
use prometheus_client::registry::Registry;

use super::*;
use crate::engine::compile::Compiler;
use crate::engine::engine;
use crate::testing::{LogLines, TokioTime};

/// A component that is worth an artifact.
fn component() -> Arc<[u8]> {
    let text = r#"(component (core module (func (export "f") (result i32) i32.const 42)))"#;
    Arc::from(wat::parse_str(text).unwrap())
}

fn request() -> CompileRequest<'static> {
    request_of(component())
}

fn request_of(bytes: Arc<[u8]>) -> CompileRequest<'static> {
    CompileRequest {
        digest: Digest::of(&bytes),
        bytes,
        file: Path::new("test.wasm"),
        memory_bytes: 1,
    }
}

struct TestCache {
    engine: Engine,
    dir: tempfile::TempDir,
    registry: Registry,
    metrics: ArtifactMetrics,
}

impl TestCache {
    fn new() -> TestCache {
        let mut registry = Registry::default();
        let metrics = ArtifactMetrics::register(&mut registry);
        TestCache {
            engine: engine().unwrap(),
            dir: tempfile::tempdir().unwrap(),
            registry,
            metrics,
        }
    }

    /// As at another start of the process.
    fn open(&self) -> Artifacts {
        self.open_at(self.dir.path())
    }

    fn open_at(&self, path: &Path) -> Artifacts {
        let compile_queue = CompileQueue::new(
            Compiler::InProcess,
            &self.engine,
            Arc::new(TokioTime),
            Handle::current(),
            CompileGauges::default(),
        );
        Artifacts::open(
            &self.engine,
            path,
            compile_queue,
            Handle::current(),
            self.metrics.clone(),
        )
        .unwrap()
    }

    async fn get(&self) -> Arc<Artifact> {
        self.open().get(request()).await.ok().unwrap()
    }

    /// How often an artifact was found, made and found damaged.
    fn counts(&self) -> [u64; 3] {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        ["hit", "miss", "corrupt"].map(|result| {
            let name = format!("plugin_artefacts_total{{result=\"{result}\"}} ");
            text.lines()
                .find_map(|line| line.strip_prefix(&name))
                .map_or(0, |count| count.parse().unwrap())
        })
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect()
    }
}

#[tokio::test]
async fn a_component_is_compiled_once_for_all_starts() {
    let cache = TestCache::new();
    for _ in 0..3 {
        cache.get().await;
    }
    assert_eq!(cache.counts(), [2, 1, 0]);
}

#[cfg(unix)]
#[tokio::test]
async fn artifacts_are_private_to_the_user() {
    use std::os::unix::fs::PermissionsExt as _;
    let cache = TestCache::new();
    cache.get().await;
    for file in cache.files("cwasm").into_iter().chain(cache.files("sha256")) {
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            file.display()
        );
    }
}

#[tokio::test]
async fn files_with_one_component_show_the_compile_they_share() {
    let cache = TestCache::new();
    let artifacts = cache.open();
    let schedule = artifacts.compile_queue().schedule();
    schedule.set_memory_max(64 << 20);
    let other = schedule.enter(Digest::of(b"other"), 40 << 20, Moment::ZERO);
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let get = |file: &'static str| {
        artifacts.get(CompileRequest {
            file: Path::new(file),
            memory_bytes: 40 << 20,
            ..request()
        })
    };
    let waits = |file: &str| artifacts.compiling(Path::new(file)).map(|job| job.is_waiting);
    let watch = async {
        while waits("first.wasm").is_none() {
            tokio::task::yield_now().await;
        }
        let shown = ["first.wasm", "second.wasm", "third.wasm"].map(waits);
        drop(other);
        shown
    };
    let (first, second, shown) = tokio::join!(get("first.wasm"), get("second.wasm"), watch);
    assert_eq!(shown, [Some(true), Some(true), None]);
    assert!(Arc::ptr_eq(&first.ok().unwrap(), &second.ok().unwrap()));
    assert_eq!(["first.wasm", "second.wasm"].map(waits), [None, None]);
    let lines = log
        .take()
        .join("\n")
        .replace(&Digest::of(&component()).short(), "DIGEST");
    let line = "DEBUG component waits for another file with the same one \
                file=second.wasm digest=DIGEST same_as=first.wasm";
    assert!(lines.contains(line), "{lines}");
}

#[tokio::test]
async fn concurrent_requests_for_a_component_compile_it_once() {
    let cache = TestCache::new();
    let artifacts = cache.open();
    let wanted = (0..16).map(|_| artifacts.get(request()));
    let all = futures::future::join_all(wanted).await;
    let first = all[0].as_ref().ok().unwrap();
    assert!(
        all.iter()
            .all(|artifact| Arc::ptr_eq(artifact.as_ref().ok().unwrap(), first))
    );
    assert_eq!(cache.counts(), [0, 1, 0]);
}

#[tokio::test]
async fn a_corrupt_artifact_is_renamed_and_compiled_again() {
    let cache = TestCache::new();
    cache.get().await;
    let file = cache.files("cwasm").pop().unwrap();
    let valid = fs::read(&file).unwrap();
    let mut flipped = valid.clone();
    flipped[valid.len() / 2] ^= 1;
    let damages: [&[u8]; 5] = [&flipped, &valid[..valid.len() / 2], b"", b"hello", &[0; 4_096]];
    for (round, damage) in damages.into_iter().enumerate() {
        fs::write(&file, damage).unwrap();
        cache.get().await;
        let times = round as u64 + 1;
        assert_eq!(cache.counts(), [0, times + 1, times]);
        assert_eq!(cache.files("bad").len(), 1);
        assert_eq!(fs::read(&file).unwrap().len(), valid.len());
    }
}

#[tokio::test]
async fn an_incompatible_artifact_with_a_valid_checksum_is_not_loaded() {
    let cache = TestCache::new();
    cache.get().await;
    let file = cache.files("cwasm").pop().unwrap();
    for foreign in [
        &b"\x7fELF of something else"[..],
        &fs::read(std::env::current_exe().unwrap()).unwrap(),
    ] {
        fs::write(&file, foreign).unwrap();
        fs::write(file.with_extension("sha256"), Digest::of(foreign).to_string()).unwrap();
        cache.get().await;
    }
    assert_eq!(cache.counts(), [0, 3, 2]);
}

#[tokio::test]
async fn what_was_verified_is_loaded_after_its_file_is_exchanged() {
    let cache = TestCache::new();
    cache.get().await;
    let artifacts = cache.open();
    let file = cache.files("cwasm").pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    let before = verified(&file).ok().unwrap();
    // Another file takes its place, as when a directory is copied over this one.
    fs::remove_file(&file).unwrap();
    fs::write(&file, "another one").unwrap();
    assert!(artifacts.directory.load(&before).is_ok());
    assert!(artifacts.directory.load(&Verified::Read(bytes)).is_ok());
    assert!(matches!(artifacts.directory.intact(&file), Err(Unusable::Broken(_))));
}

#[tokio::test]
async fn a_missing_checksum_costs_a_compilation_and_nothing_else() {
    let cache = TestCache::new();
    cache.get().await;
    fs::remove_file(cache.files("sha256").pop().unwrap()).unwrap();
    cache.get().await;
    assert_eq!(cache.counts(), [0, 2, 0]);
    cache.get().await;
    assert_eq!(cache.counts(), [1, 2, 0]);
}

#[tokio::test]
async fn the_least_recently_used_artifacts_are_evicted() {
    let cache = TestCache::new();
    cache.get().await;
    for (name, age_s, bytes) in [("old", 3_000, ARTIFACTS_BYTES_MAX), ("new", 0, 1_000)] {
        let file = fs::File::create(cache.dir.path().join(name).with_extension("cwasm")).unwrap();
        file.set_len(bytes).unwrap();
        file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age_s))
            .unwrap();
    }
    let other = Arc::<[u8]>::from(wat::parse_str("(component (core module))").unwrap());
    cache.open().get(request_of(other)).await.ok().unwrap();
    let names: Vec<String> = cache
        .files("cwasm")
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(
        !names.contains(&"old".to_owned()) && names.contains(&"new".to_owned()),
        "{names:?}"
    );
    assert_eq!(names.len(), 3);
}

#[tokio::test]
async fn components_are_compiled_without_a_directory() {
    let cache = TestCache::new();
    let file = cache.dir.path().join("file");
    fs::write(&file, "").unwrap();
    let artifacts = cache.open_at(&file.join("below"));
    artifacts.get(request()).await.ok().unwrap();
}

#[tokio::test]
async fn a_compile_error_is_reported_on_each_attempt() {
    let cache = TestCache::new();
    // A component whose module calls a function that it does not have.
    let mut bytes = wat::parse_str(r#"(component (core module (func call 0)))"#).unwrap();
    let call = bytes.windows(2).position(|pair| pair == [0x10, 0x00]).unwrap();
    bytes[call + 1] = 7;
    let bytes = Arc::<[u8]>::from(bytes);
    for _ in 0..2 {
        let problem = cache.open().get(request_of(Arc::clone(&bytes))).await.err().unwrap();
        assert!(matches!(problem, LoadProblem::Compile(_)), "{problem}");
    }
}

/// A component with code for every processor of this architecture next to it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn precompiled_component(folder: &Path) -> (PathBuf, Digest) {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let engine = crate::engine::for_target(&target).unwrap();
    let (file, digest) = (folder.join("runner.wasm"), Digest::of(&component()));
    let artifact = engine.precompile_component(&component()).unwrap();
    let written = precompiled::keep(&file, digest, &artifact).unwrap();
    assert_eq!(
        written,
        folder
            .join("compiled")
            .join(format!("{digest}-{}.cwasm", env!("CARGO_PKG_VERSION")))
    );
    (file, digest)
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn use_precompiled(artifacts: &Artifacts, file: &Path, digest: Digest) -> Option<Arc<Artifact>> {
    let loaded = artifacts.precompiled(file, digest).load().ok().flatten();
    loaded.map(|component| artifacts.use_precompiled(digest, component))
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[tokio::test]
async fn a_precompiled_artifact_is_used_instead_of_compiling() {
    let (cache, release) = (TestCache::new(), tempfile::tempdir().unwrap());
    let (file, digest) = precompiled_component(release.path());
    let artifacts = cache.open();
    let kept = use_precompiled(&artifacts, &file, digest).unwrap();
    let found = artifacts
        .get(CompileRequest { digest, ..request() })
        .await
        .ok()
        .unwrap();
    assert!(Arc::ptr_eq(&kept, &found));
    assert_eq!(cache.counts(), [1, 0, 0]);
    assert!(cache.files("cwasm").is_empty());
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[tokio::test]
async fn an_unsafe_or_damaged_precompiled_artifact_is_not_loaded() {
    use std::os::unix::fs::PermissionsExt as _;
    let (cache, release) = (TestCache::new(), tempfile::tempdir().unwrap());
    let (file, digest) = precompiled_component(release.path());
    let artifacts = cache.open();
    let folder = release.path().join("compiled");
    let is_used = || use_precompiled(&artifacts, &file, digest).is_some();
    assert!(is_used());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(!is_used());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(
        folder.join(format!("{digest}-{}.cwasm", env!("CARGO_PKG_VERSION"))),
        "damaged",
    )
    .unwrap();
    assert!(!is_used());
    fs::remove_dir_all(&folder).unwrap();
    assert!(!is_used());
    assert_eq!(cache.counts(), [1, 0, 0]);
}
