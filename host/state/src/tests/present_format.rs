//! A file of the present format, which later versions must read, too. `format-2.redb` is what [`write`] leaves; the
//! test that compares both was run once with `INFORMANT_TESTS_UPDATE=1`, and is again when the format has a new number:
//! then the file gets that number in its name, and the old one stays, with a test in `formats`.

use super::dead_letters::letters;
use super::keys::{count, keys, value};
use super::*;
use crate::schema::FORMAT;

const FILE: &str = "src/tests/format-2.redb";

/// What the API server has when the next process starts.
const NOW: [(&str, &str, u64); 5] = [
    ("a", "u1", 6),
    ("b", "u2", 2),
    ("d", "u9", 12),
    ("letter", "u4", 5),
    ("called-again", "u5", 7),
];

/// What a process leaves that was killed: `a` was updated, `c` deleted, `d` deleted and created again, and none of it
/// accepted; `b` was accepted. There are a dead letter, a requeue, a key of the handler, and an encrypted source.
fn write(path: &Path) {
    let (_folder, kept) = kept(sealed_secrets());
    let mut process = Process::start(&kept, options());
    let first = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3), ("d", "u6", 4)];
    let later = [("letter", "u4", 4), ("called-again", "u5", 4), ("counted", "u7", 4)];
    let listed = first.into_iter().chain(later);
    process.sync(listed.map(|(name, uid, version)| object(name, uid, version)));
    process.attach(OnStart::Continue);
    process.settle();
    let counted = keys(&mut process);
    process.write(object("letter", "u4", 5));
    process.recorder.run_once();
    let refused = DeliveryOutcome::Permanent("no".to_owned());
    process.done(&process.take().unwrap(), refused);
    process.write(object("called-again", "u5", 7));
    process.recorder.run_once();
    let again = DeliveryOutcome::RequeueAfter(std::time::Duration::from_secs(60));
    process.done(&process.take().unwrap(), again);
    process.write(object("counted", "u7", 8));
    process.recorder.run_once();
    let delivery = process.take().unwrap();
    count(&process, &counted, delivery);
    process.recorder.run_once();
    process.write(object("a", "u1", 6));
    process.delete("c", 9);
    process.delete("d", 10);
    process.write(object("d", "u9", 12));
    process.recorder.run_once();
    process.crash(path);
}

fn sealed_secrets() -> SourceOptions {
    let mut options = sealed();
    options.identity.informer = "secrets".to_owned();
    options
}

/// Everything that the next process finds in a file.
fn read(path: &Path) -> Vec<String> {
    let mut process = Process::start(path, options());
    process.sync(NOW.map(|(name, uid, version)| object(name, uid, version)));
    process.attach(OnStart::Continue);
    let received = process.settle();
    let key = value(&keys(&mut process), "count").unwrap_or_default();
    let later = informant_cache::Moment::ZERO + std::time::Duration::from_secs(60);
    let requeued = match process.listener.consumer().next(later) {
        NextDelivery::Deliver(delivery) => shown(&delivery),
        _ => String::new(),
    };
    let letters = letters(&process);
    drop(process);
    let objects = [("a", "u1", 1), ("b", "u2", 2)];
    let encrypted = next_process_with(path, &objects, OnStart::Continue, sealed_secrets());
    vec![received, key, requeued, letters, encrypted]
}

/// If this fails, a file that a released version wrote is not read in full.
#[test]
fn file_of_the_present_format_is_read_fully() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written");
    write(&written);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("INFORMANT_TESTS_UPDATE").is_some() {
        fs::copy(&written, &file).unwrap();
    }
    let kept = folder.path().join("kept");
    fs::copy(&file, &kept).unwrap();
    let expected = [
        "delete c@3, delete counted@8?, delete d@4, add a@6, add d@12, synced",
        "1",
        "update called-again@7",
        "update letter@5: no",
        "delete c@3?, synced",
    ];
    assert_eq!(read(&kept), expected);
    assert_eq!(read(&written), expected);
    assert_eq!(FORMAT, 2, "keep the file of format 2, and add one of the new format");
}
