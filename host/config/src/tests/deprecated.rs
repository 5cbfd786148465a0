//! Keys that were renamed or removed.

use super::*;
use crate::deprecated::{DEPRECATED, Deprecated, Successor};

/// Keys that no version has.
const FORMER: &[Deprecated] = &[
    Deprecated {
        section: "informer.*",
        key: "kind",
        now: Successor::Key("resource"),
        refused_from: "0.9.0",
    },
    Deprecated {
        section: "informer.*",
        key: "threads",
        now: Successor::Advice("remove it, Informant uses all cores"),
        refused_from: "0.9.0",
    },
];

/// Reads an informer's `resource`, and returns it with what is reported.
fn resource(text: &str) -> (Option<String>, String) {
    let file = SourceFile::new("config.toml", text);
    let (document, _) = DeTable::parse_recoverable(file.text());
    let reporter = Reporter::with_deprecated(&file, FORMER);
    let read = {
        let root = Table::root(&reporter, document.get_ref());
        let informer = root.table("informer").unwrap().table("pods").unwrap();
        let read = informer.string("resource").map(|resource| resource.value);
        informer.finish(&[]);
        read
    };
    (read, reporter.finish().to_string())
}

#[test]
fn former_name_of_a_key_is_read_with_a_warning() {
    let (read, reported) = resource("[informer.pods]\nkind = \"v1/pods\"\nthreads = 4\n");
    assert_eq!(read.as_deref(), Some("v1/pods"));
    insta::assert_snapshot!(reported, @r"
    warning: config.toml:2:1: `kind` is deprecated in [informer.pods]
      help: use `resource`: Informant 0.9.0 refuses `kind`
    warning: config.toml:3:1: `threads` is deprecated in [informer.pods]
      help: remove it, Informant uses all cores: Informant 0.9.0 refuses `threads`
    ");
}

#[test]
fn both_names_of_a_key_are_refused() {
    let (_, reported) = resource("[informer.pods]\nkind = \"v1/pods\"\nresource = \"v1/nodes\"\n");
    insta::assert_snapshot!(reported, @r"
    error: config.toml:2:1: `kind` is the former name of `resource`, and both are set in [informer.pods]
      help: remove `kind`
    ");
}

#[test]
fn former_name_counts_in_its_section_only() {
    assert!(refusal("[informer.pods]\nkind = \"v1/pods\"\n").contains("unknown key `kind`"));
    assert!(FORMER[0].is_in("informer.pods"));
    for path in ["", "informer", "plugin.pods", "informer.pods.index"] {
        assert!(!FORMER[0].is_in(path), "{path}");
    }
}

/// If this fails, remove the key from the table: it was accepted for one minor version.
#[test]
fn no_deprecated_key_is_kept_too_long() {
    let version = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    for former in DEPRECATED {
        assert!(
            version(env!("CARGO_PKG_VERSION")) < version(former.refused_from),
            "{former:?}"
        );
    }
}
