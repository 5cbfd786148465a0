//! The interfaces that Informant provides to components, and hints about others.

use crate::bindings::PACKAGE;
use crate::component::binary::{SdkInfo, Surface};
use crate::component::interface_name::{InterfaceName, InterfaceVersion, is_canonical};
use crate::component::roles::{check_version, offered_version};
use crate::error::LoadProblem;

/// WASI 0.2 except TLS and servers. Nothing is granted with it: no directory, socket or environment variable, and no
/// host that is not in `allow.http`.
const WASI: [(&str, &[&str]); 7] = [
    ("wasi:io", &["error", "poll", "streams"]),
    (
        "wasi:cli",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", &["monotonic-clock", "wall-clock"]),
    ("wasi:filesystem", &["types", "preopens"]),
    ("wasi:random", &["random", "insecure", "insecure-seed"]),
    ("wasi:http", &["outgoing-handler", "types"]),
    (
        "wasi:sockets",
        &[
            "instance-network",
            "ip-name-lookup",
            "network",
            "tcp",
            "tcp-create-socket",
            "udp",
            "udp-create-socket",
        ],
    ),
];

/// The version of WASI that is linked.
const WASI_VERSION: &str = "0.2.0";

/// Informant's interface without functions, which is offered with all others.
pub(super) const TYPES: &str = "types";

/// Checks a component's imports against the offered interfaces, of which `ours` are Informant's.
///
/// # Errors
/// [`LoadProblem::Import`] for the first that is not offered, [`LoadProblem::NewerContract`] for one of a later
/// contract.
pub(crate) fn check_names(surface: &Surface, ours: &[&str]) -> Result<(), LoadProblem> {
    let sdk = surface.sdk.as_ref();
    surface.imports.iter().try_for_each(|import| check(import, ours, sdk))
}

fn check(import: &str, ours: &[&str], sdk: Option<&SdkInfo>) -> Result<(), LoadProblem> {
    let refuse = |hint: &str| {
        Err(LoadProblem::Import {
            interface: import.to_owned(),
            hint: hint.to_owned(),
        })
    };
    if is_canonical(import) {
        return Err(LoadProblem::CanonicalName {
            name: import.to_owned(),
        });
    }
    let Some(name) = InterfaceName::parse(import) else {
        return refuse(": it is not an interface of a package; import only what the SDK's world contains");
    };
    if name.package == PACKAGE {
        let version = check_version(name.version, sdk)?;
        // What a newer contract added is linked as stubs.
        let is_ours = name.interface == TYPES || ours.contains(&name.interface);
        return match is_ours || version.is_newer_than(&offered_version()) {
            true => Ok(()),
            false => refuse(" yet; upgrade Informant, or build it without this import"),
        };
    }
    let offered = WASI
        .iter()
        .any(|(package, interfaces)| *package == name.package && interfaces.contains(&name.interface));
    let version_fits = match (name.version, InterfaceVersion::parse(WASI_VERSION)) {
        (Some(version), Some(offered)) => version.is_compatible_with(&offered),
        _ => false,
    };
    match (offered && version_fits, hint(&name)) {
        (true, _) => Ok(()),
        (false, hint) => refuse(hint),
    }
}

/// What to do about an import that is not offered.
fn hint(name: &InterfaceName<'_>) -> &'static str {
    let is_wasi = name.package.starts_with("wasi:");
    match (name.package, name.version) {
        (_, Some(version)) if is_wasi && (version.major, version.minor) == (0, 3) => {
            "; build it for WASI 0.2 (Rust: --target wasm32-wasip2)"
        }
        (_, Some(version)) if is_wasi && !version.prerelease.is_empty() => {
            "; it provides WASI 0.2 and no drafts or release candidates: update the toolchain"
        }
        _ if is_wasi => "; it provides WASI 0.2 without incoming HTTP, tls, config and keyvalue: build it without them",
        _ => "; build it without this import, or compose it with a component that exports it (wac plug)",
    }
}

/// Every offered interface with a compatible version, to test that the linker agrees.
#[cfg(test)]
pub(crate) fn offered(ours: &[&str]) -> Vec<String> {
    let ours = ours
        .iter()
        .chain([&TYPES])
        .map(|interface| format!("{PACKAGE}/{interface}@{}", crate::bindings::CONTRACT));
    let wasi = WASI.iter().flat_map(|(package, interfaces)| {
        interfaces
            .iter()
            .map(move |interface| format!("{package}/{interface}@0.2.6"))
    });
    ours.chain(wasi).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [&str; 2] = ["store", "log"];

    #[test]
    fn offered_interfaces_pass_at_each_compatible_version() {
        for import in offered(&OURS) {
            check(&import, &OURS, None).unwrap();
        }
        let check = |import: &str| check(import, &OURS, None);
        check("wasi:io/poll@0.2.0").unwrap();
        check("wasi:io/poll@0.2.99").unwrap();
        check("informant:plugin/store@0.3.7").unwrap();
        check("informant:plugin/tomorrow@0.3.7").unwrap();
    }

    #[test]
    fn other_imports_are_rejected_with_a_hint() {
        let mut text = String::new();
        for import in [
            "wasi:http/incoming-handler@0.2.6",
            "wasi:cli/stdout@0.3.0",
            "wasi:io/poll@0.2.0-rc-2023-11-10",
            "wasi:keyvalue/store@0.2.0-draft",
            "wasi:config/store@0.2.0",
            "informant:plugin/timers@0.3.0",
            "informant:plugin/store@0.4.0",
            "informant:plugin/store@0.0.1",
            "informant:plugin/store@1",
            "wasi:io/poll@0.2",
            "acme:tools/clock@1.0.0",
            "read-file",
        ] {
            text += &check(import, &OURS, None).unwrap_err().to_string();
            text.push('\n');
        }
        insta::assert_snapshot!(text, @r#"
        imports wasi:http/incoming-handler@0.2.6, which Informant does not provide; it provides WASI 0.2 without incoming HTTP, tls, config and keyvalue: build it without them
        imports wasi:cli/stdout@0.3.0, which Informant does not provide; build it for WASI 0.2 (Rust: --target wasm32-wasip2)
        imports wasi:io/poll@0.2.0-rc-2023-11-10, which Informant does not provide; it provides WASI 0.2 and no drafts or release candidates: update the toolchain
        imports wasi:keyvalue/store@0.2.0-draft, which Informant does not provide; it provides WASI 0.2 and no drafts or release candidates: update the toolchain
        imports wasi:config/store@0.2.0, which Informant does not provide; it provides WASI 0.2 without incoming HTTP, tls, config and keyvalue: build it without them
        imports informant:plugin/timers@0.3.0, which Informant does not provide yet; upgrade Informant, or build it without this import
        built for the newer contract 0.4.0, but this Informant supports 0.3.0; upgrade Informant, or build it with an older SDK
        built for the older contract 0.0.1, but this Informant supports 0.3.0; rebuild it with the SDK of this Informant (version 0.1.0)
        imports or exports informant:plugin/store@1, which has a canonical name; build it with tools that write the whole version (without `--emit-canonical-names`), as informant:plugin/…@0.3.0
        imports or exports wasi:io/poll@0.2, which has a canonical name; build it with tools that write the whole version (without `--emit-canonical-names`), as informant:plugin/…@0.3.0
        imports acme:tools/clock@1.0.0, which Informant does not provide; build it without this import, or compose it with a component that exports it (wac plug)
        imports read-file, which Informant does not provide: it is not an interface of a package; import only what the SDK's world contains
        "#);
    }
}
