//! `informant state copy`.

use super::*;
use crate::shared::{CopyError, export_file, import_file};

#[test]
fn rows_are_copied_to_shared_state_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first.redb"), folder.path().join("second.redb"));
    let mut server = Server::default();
    let replica = Replica::open("a", &mut server);
    for plugin in ["p", "q"] {
        let space = replica.journal.space(plugin, RowKind::Key);
        space.commit([change("a", "1"), change("\0timers", "{}")].concat(), None);
        for kind in [RowKind::Pause, RowKind::Letter] {
            replica.journal.space(plugin, kind).commit(change("a\0b", "2"), None);
        }
    }
    let rows = replica.journal.export();
    assert_eq!(import_file(&first, &rows, false).unwrap(), 8);
    let read = export_file(&first).unwrap();
    assert_eq!(read, rows);

    let mut other = Server::default();
    let mut replica = Replica::open("b", &mut other);
    replica.journal.import(read, false).unwrap();
    replica.settle(&mut other);
    assert!(replica.journal.is_written());
    assert_eq!(stored(&other).unwrap(), rows);
    import_file(&second, &stored(&other).unwrap(), false).unwrap();
    assert_eq!(export_file(&second).unwrap(), rows);
}

#[test]
fn rows_that_are_there_are_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    replica.set("old", "1");
    let old = replica.journal.export();
    import_file(&path, &old, false).unwrap();
    let new = || {
        let mut rows = old.clone();
        rows[0].key.key = "new".into();
        let mut letter = rows[0].clone();
        letter.key.kind = RowKind::Letter;
        rows.push(letter);
        rows
    };
    let refused = import_file(&path, &new(), false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the target has 1 rows already: nothing was copied; replace them with --replace"
    );
    assert_eq!(export_file(&path).unwrap(), old);
    let refused = replica.journal.import(new(), false).unwrap_err();
    assert!(matches!(refused, CopyError::NotEmpty { rows: 1 }));

    assert_eq!(import_file(&path, &new(), true).unwrap(), 2);
    assert_eq!(export_file(&path).unwrap(), new());
    assert_eq!(replica.journal.import(new(), true).unwrap(), 2);
    replica.settle(&mut server);
    assert_eq!(stored(&server).unwrap(), new());
}

#[test]
fn file_that_is_missing_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    assert!(export_file(&path).is_err() && !path.exists());
}
