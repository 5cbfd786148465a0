//! "Did you mean": the known word that is closest to a typo, in a section or in a document of a plugin.

/// The least length of a prefix that counts as an abbreviation.
const SHORTENED_LEN_MIN: usize = 3;

/// The word of `known` nearest to `written`, if it is near enough to suggest.
///
/// Case, `-` and `_` are ignored; one edit per three letters is allowed, and swapping two letters is one edit.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let wanted = plain(written);
    let edits_max = (wanted.chars().count() / 3).max(1);
    let edits = |word: &str| {
        let word = plain(word);
        // `mem` is an abbreviation of `memory`, not a typo.
        let shortened = wanted.len() >= SHORTENED_LEN_MIN && word.starts_with(&wanted);
        if shortened {
            1
        } else {
            strsim::damerau_levenshtein(&wanted, &word)
        }
    };
    known
        .into_iter()
        .map(|word| (edits(word), word))
        .filter(|(edits, _)| *edits <= edits_max)
        .min()
        .map(|(_, word)| word)
}

/// "did you mean `word`?", or else the list of known words.
pub fn did_you_mean(written: &str, known: &[&str], of_what: &str) -> String {
    if let Some(word) = nearest(written, known.iter().copied()) {
        return format!("did you mean `{word}`?");
    }
    known_values(known, of_what)
}

/// The list of known words.
pub fn known_values(known: &[&str], of_what: &str) -> String {
    if known.is_empty() {
        return format!("there are no {of_what}");
    }
    let list: Vec<_> = known.iter().map(|word| format!("`{word}`")).collect();
    format!("{of_what}: {}", list.join(", "))
}

fn plain(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_and_other_casings_are_matched_within_limits() {
        let keys = ["resync", "resource", "label-selector", "drop"];
        assert_eq!(nearest("resnyc", keys), Some("resync"));
        assert_eq!(nearest("labelSelector", keys), Some("label-selector"));
        assert_eq!(nearest("label_selector", keys), Some("label-selector"));
        assert_eq!(nearest("dorp", keys), Some("drop"));
        assert_eq!(nearest("label", keys), Some("label-selector"));
        assert_eq!(nearest("kind", keys), None);
        assert_eq!(nearest("x", keys), None);
    }
}
