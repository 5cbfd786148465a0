//! Errors of JSON documents that a plugin's author writes in a language of their own.

/// What is wrong with a document. A position is given only if it is not JSON at all, because authors do not see its
/// lines. A misspelled name comes with the one that was probably meant.
pub(crate) fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if !error.is_data() {
        return text;
    }
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    match meant(text) {
        Some(word) => format!("{text}; did you mean `{word}`?"),
        None => text.to_owned(),
    }
}

/// The expected name that is nearest to the unknown one: with the same first letter, because `watch` is no typo of
/// `patch`, and at most one edit per three letters. serde's message has both.
fn meant(text: &str) -> Option<&str> {
    let (unknown, expected) = text.split_once(", expected ")?;
    let unknown = unknown
        .strip_prefix("unknown field ")
        .or_else(|| unknown.strip_prefix("unknown variant "))?;
    let unknown = plain(unknown);
    let edits_max = (unknown.len() / 3).max(1);
    expected
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|word| (word, plain(word)))
        .filter(|(_, plain)| plain.chars().next() == unknown.chars().next())
        .map(|(word, plain)| (strsim::damerau_levenshtein(&unknown, &plain), word))
        .filter(|(edits, _)| *edits <= edits_max)
        .min()
        .map(|(_, word)| word)
}

/// Its letters: `changed-only` is `changedOnly`.
fn plain(word: &str) -> String {
    let letters = word.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_within_a_few_edits_are_suggested() {
        let text =
            |unknown: &str| format!("unknown field `{unknown}`, expected one of `events`, `changedOnly`, `patch`");
        for (unknown, expected) in [
            ("evnts", Some("events")),
            ("eventss", Some("events")),
            ("changed-only", Some("changedOnly")),
            ("watch", None),
            ("x", None),
        ] {
            assert_eq!(meant(&text(unknown)), expected, "{unknown}");
        }
        assert_eq!(meant("missing field `kind`"), None);
    }
}
