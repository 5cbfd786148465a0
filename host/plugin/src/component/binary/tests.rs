use super::*;

fn refusal(bytes: &[u8]) -> String {
    surface(bytes).unwrap_err().to_string()
}

#[test]
fn files_that_are_not_webassembly_are_described() {
    let mut text = String::new();
    for bytes in [
        &b""[..],
        b"hello, I am a plugin",
        b"<!DOCTYPE html><html>",
        b"\n <html lang=en>",
        b"(component (import \"a\" (func)))",
        b"\x1f\x8b\x08\x00",
        b"\x7fELF\x02\x01",
        &[0; 8_192],
        &[0xff, 0xfe, 0x00, 0x10],
    ] {
        text += &refusal(bytes);
        text.push('\n');
    }
    insta::assert_snapshot!(text, @r#"
    not WebAssembly: the file is empty; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it starts with the text "hello, I am a plugin"; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it is an HTML page, as from a download that required a login; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it is an HTML page, as from a download that required a login; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it is WebAssembly text; convert it with `wasm-tools parse`; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it is compressed; unpack it first; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it is a native executable (or a compiled artifact); use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it starts with zeros, as after a failed copy or download; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    not WebAssembly: it starts with the bytes [ff, fe, 00, 10]; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    "#);
}

#[test]
fn a_core_module_is_rejected() {
    insta::assert_snapshot!(refusal(&wat::parse_str("(module)").unwrap()), @"a core module, not a component; make one of it: informant plugin build FILE -o NAME.wasm (Rust: build with --target wasm32-wasip2)");
    assert_eq!(
        surface(&wat::parse_str("(component)").unwrap()).unwrap(),
        Surface::default()
    );
}

#[test]
fn a_truncated_component_is_rejected_with_the_offset() {
    let whole = wat::parse_str(
        r#"(component (core module (func (result i32) i32.const 1)) (import "a:b/c@1.0.0" (instance)))"#,
    )
    .unwrap();
    for length in 9..whole.len() {
        // Where a section ends the rest is not missed, but then neither is what it would have said.
        if let Err(problem) = surface(&whole[..length]) {
            assert!(matches!(problem, LoadProblem::Broken { .. }), "{length}: {problem}");
        }
    }
    insta::assert_snapshot!(refusal(&whole[..whole.len() - 3]), @"invalid WebAssembly at byte 44 of 57: unexpected end-of-file; the file may be truncated, so copy or build it again");
}

#[test]
fn only_the_outermost_components_names_count() {
    let bytes = wat::parse_str(
        r#"(component
            (component (import "inner:inner/inner@1.0.0" (instance)))
            (import "wasi:io/poll@0.2.6" (instance))
            (instance $i)
            (export "informant:plugin/lifecycle@0.2.0" (instance $i)))"#,
    )
    .unwrap();
    let surface = surface(&bytes).unwrap();
    assert_eq!(surface.imports, ["wasi:io/poll@0.2.6"]);
    assert_eq!(surface.exports, ["informant:plugin/lifecycle@0.2.0"]);
}

#[test]
fn the_sdk_is_found_in_nested_modules() {
    let section = r#"(@custom "informant-sdk" "{\"language\":\"rust\",\"sdk\":\"1.2.3\",\"contract\":\"0.2.0\"}")"#;
    let sdk_of = |text: String| surface(&wat::parse_str(text).unwrap()).unwrap().sdk;
    let found = |text: String| sdk_of(text).map(|sdk| [sdk.language, sdk.sdk, sdk.contract].join(" "));
    assert_eq!(
        found(format!("(component {section})")).as_deref(),
        Some("rust 1.2.3 0.2.0")
    );
    let nested = format!("(component (component (core module {section})))");
    assert_eq!(found(nested).as_deref(), Some("rust 1.2.3 0.2.0"));
    assert_eq!(sdk_of("(component (core module))".to_owned()), None);
    let written = SdkInfo {
        language: "go".to_owned(),
        sdk: "0.1.0".to_owned(),
        contract: "0.3.0".to_owned(),
    };
    let component = [wat::parse_str("(component)").unwrap(), written.section()].concat();
    assert_eq!(surface(&component).unwrap().sdk, Some(written));
    // What is not such a document, or too long, is as good as none.
    assert_eq!(
        sdk_of(r#"(component (@custom "informant-sdk" "rust"))"#.to_owned()),
        None
    );
    let long = format!(
        r#""{{\"language\":\"{}\",\"sdk\":\"\",\"contract\":\"\"}}""#,
        "x".repeat(5_000)
    );
    assert_eq!(sdk_of(format!(r#"(component (@custom "informant-sdk" {long}))"#)), None);
}
