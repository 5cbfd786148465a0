use super::*;

/// A module that exports these functions, `cabi_realloc` and a memory.
fn module(exports: &[(&str, &str, &str)], more: &str) -> Vec<u8> {
    let functions: String = exports
        .iter()
        .map(|(role, function, kind)| {
            let (name, after) = (exported(role, function), exported(role, function));
            let post = match kind.contains("result") {
                true => format!("(func (export \"cabi_post_{after}\") (param i32))"),
                false => String::new(),
            };
            format!("(func (export {name:?}) {kind} unreachable)\n{post}\n")
        })
        .collect();
    let text = format!(
        "(module {more}\n(memory (export \"memory\") 1)\n{functions}\
         (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) unreachable))"
    );
    wat::parse_str(text).unwrap()
}

const LIFECYCLE: [(&str, &str, &str); 2] = [
    ("lifecycle", "describe", "(param i32 i32) (result i32)"),
    ("lifecycle", "init", "(param i32 i32) (result i32)"),
];

fn refusal(core: &[u8]) -> String {
    let error = from_core_module(core, Path::new("core.wasm")).unwrap_err();
    format!("{error:#}")
}

fn exports_of(component: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentExportSection(section) if depth == 0 => {
                names.extend(section.into_iter().map(|export| export.unwrap().name.name.to_owned()));
            }
            _ => {}
        }
    }
    names
}

#[test]
fn a_module_gets_the_roles_that_it_exports() {
    let sync = ("sync-handler", "on-synced", "(param i32 i32 i32) (result i32)");
    let component = from_core_module(&module(&LIFECYCLE, ""), Path::new("core.wasm")).unwrap();
    assert_eq!(exports_of(&component), [format!("informant:plugin/lifecycle@{CONTRACT}")]);
    let component = from_core_module(&module(&[&LIFECYCLE[..], &[sync]].concat(), ""), Path::new("core.wasm")).unwrap();
    assert_eq!(
        exports_of(&component),
        ["lifecycle", "sync-handler"].map(|role| format!("informant:plugin/{role}@{CONTRACT}"))
    );
}

#[test]
fn the_adapter_provides_wasi_preview_1() {
    let clock = "(import \"wasi_snapshot_preview1\" \"random_get\" (func (param i32 i32) (result i32)))";
    from_core_module(&module(&LIFECYCLE, clock), Path::new("core.wasm")).unwrap();
}

#[test]
fn modules_that_make_no_plugin_are_refused_with_the_remedy() {
    insta::assert_snapshot!(refusal(b"int main() {}"), @"core.wasm is not WebAssembly: name the module that your compiler writes");
    insta::assert_snapshot!(refusal(&wat::parse_str("(component)").unwrap()), @"core.wasm is a component already: `informant plugin inspect core.wasm` shows it");
    insta::assert_snapshot!(refusal(&wat::parse_str("(module)").unwrap()), @"core.wasm exports no function of the contract, such as informant:plugin/lifecycle@0.3.0#describe: generate bindings for your language from wit/informant.wit, or use its SDK");
    let start = "(func (export \"_start\"))";
    insta::assert_snapshot!(refusal(&module(&LIFECYCLE, start)), @"core.wasm is a program (it exports _start), not a library: link a reactor (C and C++: -mexec-model=reactor; Go: -buildmode=c-shared; Zig: -fno-entry -mexec-model=reactor)");
    for (from, hint) in [
        ("env", "a function without a definition: "),
        ("gojs", "use GOOS=wasip1 and -buildmode=c-shared"),
        ("wasi_unstable", "its compiler is too old"),
        ("a", "Informant provides WASI and the interfaces of its contract only"),
    ] {
        let import = format!("(import \"{from}\" \"f\" (func))");
        let text = refusal(&module(&LIFECYCLE, &import));
        let expected = format!("core.wasm imports f from \"{from}\", which no plugin has: ");
        assert!(text.starts_with(&expected) && text.contains(hint), "{text}");
    }
}

#[test]
fn a_missing_function_of_a_role_is_named() {
    let text = refusal(&module(&LIFECYCLE[..1], ""));
    assert!(text.contains("makes no component for contract") && text.contains("init"), "{text}");
}
