//! Real files and real notifications; each wait has a deadline far above what it takes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use informant_informer::TokioEnvironment;

use super::*;

/// Far above what a notification takes, below the poll.
const WITHIN: Duration = Duration::from_secs(20);

struct Watched {
    ticks: FileTicks,
    watch: FileWatch,
    _stop: tokio_util::sync::DropGuard,
}

impl Watched {
    async fn on(file: &Path) -> Self {
        Self::start(|watch| watch.subscribe(file)).await
    }

    async fn start(subscribe: impl FnOnce(&FileWatch) -> FileTicks) -> Self {
        let stop = CancellationToken::new();
        let environment: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(1));
        let watch = FileWatch::start(&environment, stop.clone());
        let mut watched = Self {
            ticks: subscribe(&watch),
            watch,
            _stop: stop.drop_guard(),
        };
        watched.tick("the watch to begin").await;
        watched
    }

    async fn tick(&mut self, what: &str) {
        let ticked = tokio::time::timeout(WITHIN, self.ticks.next()).await;
        ticked.unwrap_or_else(|_| panic!("no tick: {what}"));
    }

    /// Waits until a tick finds the file with this content.
    async fn content(&mut self, file: &Path, wanted: &str) {
        while fs::read_to_string(file).unwrap_or_default() != wanted {
            self.tick(wanted).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_new_folders_of_a_tree_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut watched = Watched::start(|watch| watch.subscribe_tree(folder.path(), |name| name == "target")).await;
    fs::create_dir(folder.path().join("src")).unwrap();
    watched.tick("a new folder").await;
    fs::write(folder.path().join("src/lib.rs"), "one").unwrap();
    watched.tick("a new file in it").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_followed_through_symlinks_and_replaced_directories() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("etc/informant/v1")).unwrap();
    fs::write(at("etc/informant/v1/config.toml"), "one").unwrap();
    symlink("v1", at("etc/informant/..data")).unwrap();
    symlink("..data/config.toml", at("etc/informant/config.toml")).unwrap();
    let file = at("etc/informant/config.toml");
    let mut watched = Watched::on(&file).await;
    let mut seen = watched.ticks.count();

    let steps: [(&str, &dyn Fn()); 4] = [
        ("an edit behind the links", &|| {
            fs::write(at("etc/informant/v1/config.toml"), "two").unwrap()
        }),
        ("a swap as of a ConfigMap", &|| {
            fs::create_dir(at("etc/informant/v2")).unwrap();
            fs::write(at("etc/informant/v2/config.toml"), "three").unwrap();
            symlink("v2", at("etc/informant/..data_tmp")).unwrap();
            fs::rename(at("etc/informant/..data_tmp"), at("etc/informant/..data")).unwrap();
        }),
        ("another folder", &|| {
            fs::create_dir(at("other")).unwrap();
            fs::write(at("other/config.toml"), "four").unwrap();
            fs::rename(at("etc/informant"), at("etc/old")).unwrap();
            fs::rename(at("other"), at("etc/informant")).unwrap();
        }),
        ("a folder that comes back", &|| {
            fs::remove_dir_all(at("etc")).unwrap();
            fs::create_dir_all(at("etc/informant")).unwrap();
            fs::write(&file, "five").unwrap();
        }),
    ];
    for (what, step) in steps {
        step();
        while watched.ticks.count() == seen {
            watched.tick(what).await;
        }
        let wanted = ["two", "three", "four", "five"]
            .into_iter()
            .find(|text| fs::read_to_string(&file).is_ok_and(|now| now == **text))
            .unwrap();
        watched.content(&file, wanted).await;
        seen = watched.ticks.count();
    }
    // An edit in the newest directory still ticks.
    fs::write(&file, "six").unwrap();
    watched.content(&file, "six").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sibling_files_and_readers_cause_no_tick() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    fs::write(&file, "one").unwrap();
    let mut watched = Watched::on(&file).await;
    let before = watched.ticks.count();
    for number in 0..100 {
        fs::write(folder.path().join("neighbor"), number.to_string()).unwrap();
        fs::read(&file).unwrap();
    }
    fs::write(&file, "two").unwrap();
    watched.tick("the change").await;
    // One tick for the change; a second where its writing was seen in two parts.
    assert!(watched.ticks.count() - before <= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn file_being_written_is_read_once_closed() {
    if !REPORTS_CLOSE {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    fs::write(&path, "one").unwrap();
    let mut watched = Watched::on(&path).await;
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"tw").unwrap();
    // Longer than the settle time, shorter than the maximum wait.
    let quiet = tokio::time::timeout(SETTLE * 10, watched.ticks.next()).await;
    assert!(quiet.is_err(), "a half-written file was read");
    file.write_all(b"o").unwrap();
    drop(file);
    watched.tick("the close").await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_file_ticks_by_itself_and_all_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    fs::write(&one, "").unwrap();
    fs::write(&other, "").unwrap();
    let mut watched = Watched::on(&one).await;
    let mut of_other = watched.watch.subscribe(&other);
    of_other.next().await;
    watched.ticks.count();
    fs::write(&other, "new").unwrap();
    of_other.next().await;
    assert_eq!(watched.ticks.count(), 1, "it ticked for the other file");
    watched.watch.check_all();
    watched.tick("on demand").await;
    of_other.next().await;
    drop(of_other);
    while watched.watch.shared.files().by_id.len() > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_hangs_is_forgotten_when_unsubscribed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    fs::write(&file, "one").unwrap();
    let watched = Watched::on(&file).await;
    let shared = Arc::clone(&watched.watch.shared);
    let (release, hangs) = std::sync::mpsc::channel::<()>();
    let (locked, is_locked) = std::sync::mpsc::channel();
    let of_thread = Arc::clone(&shared);
    let hanging = std::thread::spawn(move || {
        let _directories = of_thread.directories();
        locked.send(()).unwrap();
        hangs.recv()
    });
    is_locked.recv().unwrap();
    let hung = watched.watch.subscribe(&file);
    let followed = || {
        let files = shared.files();
        files.by_id.values().all(|file| file.paths != WatchedPaths::default())
    };
    let began = std::time::Instant::now();
    while !followed() {
        assert!(began.elapsed() < WITHIN, "the file is not followed");
        tokio::task::yield_now().await;
    }
    let forgotten = async {
        while shared.files().by_id.len() > 1 {
            tokio::task::yield_now().await;
        }
    };
    drop(hung);
    let forgotten = tokio::time::timeout(WITHIN, forgotten).await;
    assert!(forgotten.is_ok(), "the watch is kept");
    release.send(()).unwrap();
    hanging.join().unwrap().unwrap();
}
