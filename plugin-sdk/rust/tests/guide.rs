//! The Rust code in `docs/start/first-component.md`, `docs/guides/plugins.md`, `docs/guides/plugin-features.md` and
//! `docs/guides/http.md` compiles, and the plugins pass their tests.

#[path = "guide/effects.rs"]
mod effects;
#[path = "guide/greeter.rs"]
mod greeter;
#[path = "guide/http.rs"]
mod http;
#[path = "guide/snippets.rs"]
mod snippets;

/// The text without whitespace and trailing commas, in which the guide and the source differ.
fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<String>().replace(",)", ")")
}

#[test]
fn all_rust_code_in_the_guide_compiles() {
    let pages = [
        include_str!("../../../docs/start/first-component.md"),
        include_str!("../../../docs/guides/plugins.md"),
        include_str!("../../../docs/guides/plugin-features.md"),
        include_str!("../../../docs/guides/http.md"),
    ];
    let here = [
        include_str!("guide/effects.rs"),
        include_str!("guide/greeter.rs"),
        include_str!("guide/http.rs"),
        include_str!("guide/snippets.rs"),
    ]
    .map(normalized);
    let pieces: Vec<&str> = pages
        .iter()
        .flat_map(|page| page.split("```rust\n").skip(1))
        .filter_map(|rest| rest.split_once("```").map(|(piece, _)| piece))
        .collect();
    assert_eq!(pieces.len(), 22, "the number of code blocks in the guide has changed");
    for piece in pieces {
        let wanted = normalized(piece);
        assert!(
            here.iter().any(|text| text.contains(&wanted)),
            "this code block is in no file of tests/guide:\n{piece}"
        );
    }
}
