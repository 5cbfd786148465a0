//! The Rust code in `docs/start/first-component.md` and `docs/guides/plugins.md` compiles, and the first plugin passes
//! its test.

#[path = "guide/greeter.rs"]
mod greeter;
#[path = "guide/snippets.rs"]
mod snippets;

/// Without what differs between the guide and here: white space, and the commas that come with line ends.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<String>().replace(",)", ")")
}

#[test]
fn every_piece_of_rust_in_the_guide_is_compiled_here() {
    let pages = [
        include_str!("../../../docs/start/first-component.md"),
        include_str!("../../../docs/guides/plugins.md"),
    ];
    let here = [include_str!("guide/greeter.rs"), include_str!("guide/snippets.rs")].map(squeezed);
    let pieces: Vec<&str> = pages
        .iter()
        .flat_map(|page| page.split("```rust\n").skip(1))
        .filter_map(|rest| rest.split_once("```").map(|(piece, _)| piece))
        .collect();
    assert_eq!(pieces.len(), 10, "the guide has more or less pieces than before");
    for piece in pieces {
        let wanted = squeezed(piece);
        assert!(
            here.iter().any(|text| text.contains(&wanted)),
            "not compiled anywhere:\n{piece}"
        );
    }
}
