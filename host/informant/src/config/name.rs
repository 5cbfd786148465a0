//! What may be the name of an informer, a plugin, an index, an alias or a namespace.

/// How long a name may be, in bytes: as long as a DNS label, which namespaces are too.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// Judges the name of an informer, a plugin or a namespace: a DNS label. Names are metric labels, parts of paths and
/// words on the command line, so nothing needs quoting.
///
/// # Errors
/// The rule.
pub(crate) fn judge_name(name: &str) -> Result<(), &'static str> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if good {
        Ok(())
    } else {
        Err("1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends")
    }
}

/// Judges the name of an index or of an alias: these are the plugin's words, so capitals, '_', '.' and '/' are theirs
/// to use.
///
/// # Errors
/// The rule.
pub(crate) fn judge_word(word: &str) -> Result<(), &'static str> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let good = (1..=NAME_BYTES_MAX).contains(&word.len())
        && word.bytes().all(inner)
        && word.starts_with(|first: char| first.is_ascii_alphanumeric());
    if good {
        Ok(())
    } else {
        Err("1 to 63 letters, digits, '-', '_', '.' and '/', beginning with a letter or digit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels_and_words_are_a_little_more() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        let too_long = "a".repeat(NAME_BYTES_MAX + 1);
        for (name, good) in [
            ("pods", true),
            ("0", true),
            ("a-b", true),
            (longest.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("Pods", false),
            ("a_b", false),
            ("a.b", false),
            ("ä", false),
        ] {
            assert_eq!(judge_name(name).is_ok(), good, "{name}");
        }
        for (word, good) in [
            ("byNode", true),
            ("a/b.c_d-e", true),
            ("=", false),
            ("", false),
            ("_a", false),
            ("a=b", false),
        ] {
            assert_eq!(judge_word(word).is_ok(), good, "{word}");
        }
    }
}
