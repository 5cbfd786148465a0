//! Secrets that were damaged, deleted or exchanged while no replica ran: refused, and left alone.

use super::*;
use crate::shared::SharedStateError;
use crate::shared::format::FORMAT;

const JOURNAL: &str = "informant-state-journal";
const CHUNK: &str = "informant-state-chunk-1";

/// A state with several chunks.
fn written() -> Server {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    for number in 0..20 {
        replica.set(&format!("key-{number}"), &"x".repeat(100));
        replica.settle(&mut server);
    }
    server
}

/// What a start says, which must change no chunk.
fn refused(mut server: Server) -> SharedStateError {
    let chunks = |server: &Server| {
        let chunks = server.secrets.iter().filter(|(name, _)| *name != JOURNAL);
        chunks
            .map(|(name, secret)| (name.clone(), secret.clone()))
            .collect::<Vec<_>>()
    };
    let before = chunks(&server);
    let mut replica = Replica::new("b");
    let SharedStep::Refused(error) = replica.settle(&mut server) else {
        panic!("it was accepted")
    };
    assert_eq!(chunks(&server), before);
    assert!(!replica.journal.is_open());
    error
}

#[test]
fn good_state_is_accepted() {
    assert_eq!(stored(&written()).unwrap().len(), 20);
}

#[test]
fn missing_secrets_are_named_and_both_ways_out() {
    for name in [JOURNAL, CHUNK, "informant-state-chunk-0"] {
        let mut server = written();
        server.secrets.remove(name);
        let message = refused(server).to_string();
        assert_eq!(
            message,
            format!(
                "the Secret {name} is missing, and others of the group are there: it was deleted; restore all Secrets of \
                 the group from one backup, or start with empty state: kubectl delete secret -l \
                 informant.dev/state=informant, which loses what plugins remember, pauses and dead \
                 letters"
            )
        );
    }
}

#[test]
fn deleted_journal_of_one_row_is_no_first_start() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    replica.set("k", "1");
    replica.settle(&mut server);
    server.secrets.remove(JOURNAL);
    assert!(matches!(refused(server), SharedStateError::Missing { .. }));
}

#[test]
fn any_changed_byte_is_refused() {
    for name in [JOURNAL, CHUNK] {
        let good = written();
        let length = good.secrets[name].1.len();
        for place in (0..length).step_by(7).chain(0..70) {
            let mut server = good.clone();
            server.edit(name, |data| data[place] ^= 0x11);
            let error = refused(server);
            let is_expected = matches!(&error, SharedStateError::Damaged { secret, .. } | SharedStateError::Newer { secret, .. } if secret == name);
            assert!(is_expected, "at {place}: {error}");
        }
    }
}

#[test]
fn cut_empty_and_long_secrets_are_refused() {
    for name in [JOURNAL, CHUNK] {
        for length in [0, 1, 20, 61, 100] {
            let mut server = written();
            server.edit(name, |data| data.truncate(length));
            assert!(matches!(refused(server), SharedStateError::Damaged { .. }), "{length}");
        }
        let mut server = written();
        server.edit(name, |data| data.resize(2 << 20, 0));
        assert!(refused(server).to_string().contains("its length differs"));
    }
}

#[test]
fn newer_format_is_refused_by_both_versions_names() {
    let mut server = written();
    let before = server.clone();
    server.edit(JOURNAL, |data| {
        data[16..20].copy_from_slice(&(FORMAT + 1).to_be_bytes())
    });
    let message = refused(server.clone()).to_string();
    let expected = format!(
        "the Secret {JOURNAL} has format {}, and this version of Informant reads formats up to {FORMAT}: use the version \
         that wrote it",
        FORMAT + 1
    );
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(server.secrets[CHUNK], before.secrets[CHUNK]);
}

#[test]
fn state_of_another_group_is_refused() {
    let mut server = written();
    let others: Vec<(String, (u64, Vec<u8>))> = std::mem::take(&mut server.secrets).into_iter().collect();
    for (name, secret) in others {
        server.secrets.insert(name.replacen(GROUP, "other", 1), secret);
    }
    let options = SharedOptions {
        group: "other".to_owned(),
        ..options("b")
    };
    let mut replica = Replica::of(SharedJournal::with_sizes(options, SharedMetrics::default(), SMALL));
    let SharedStep::Refused(error) = replica.settle(&mut server) else {
        panic!("it was accepted")
    };
    assert!(
        error
            .to_string()
            .contains("has the content of the group \"informant\": it was copied")
    );
}

#[test]
fn parts_of_different_backups_are_refused() {
    let mut earlier = written();
    let mut server = earlier.clone();
    let mut replica = Replica::open("b", &mut server);
    for number in 0..20 {
        replica.set(&format!("key-{number}"), &"y".repeat(100));
        replica.settle(&mut server);
    }
    for name in [JOURNAL, CHUNK] {
        let mut mixed = server.clone();
        let old = earlier.secrets[name].1.clone();
        mixed.edit(name, |data| *data = old);
        assert!(matches!(refused(mixed), SharedStateError::Mismatched { .. }), "{name}");
    }
    let mut exchanged = server.clone();
    let other = exchanged.secrets["informant-state-chunk-0"].1.clone();
    exchanged.edit(CHUNK, |data| *data = other);
    assert!(matches!(refused(exchanged), SharedStateError::Damaged { .. }));
    // All of one backup.
    earlier.last_version = server.last_version;
    assert_eq!(texts(&stored(&earlier).unwrap())["p/key-1"], "x".repeat(100));
}

/// The holder has the state of its last backup in its hands: it does not write over it.
#[test]
fn state_that_is_restored_under_a_holder_ends_its_term() {
    let mut backup = Server::default();
    drop(Replica::open("a", &mut backup));
    let mut server = backup.clone();
    let mut replica = Replica::open("b", &mut server);
    let old = backup.secrets[JOURNAL].1.clone();
    server.edit(JOURNAL, |data| *data = old);
    replica.set("k", "1");
    assert!(matches!(replica.settle(&mut server), SharedStep::Lost(_)));
}

#[test]
fn journal_of_a_newer_informant_ends_the_term() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    server.edit(JOURNAL, |data| {
        data[16..20].copy_from_slice(&(FORMAT + 1).to_be_bytes())
    });
    let before = server.clone();
    replica.set("k", "1");
    let SharedStep::Lost(lost) = replica.settle(&mut server) else {
        panic!("it has not lost")
    };
    assert_eq!(lost.holder, "a newer version of Informant");
    assert_eq!(server.secrets, before.secrets);
}
