//! Rules for the names of informers, plugins, indexes, aliases and namespaces.

/// The longest name, in bytes: the length of a DNS label, which a namespace is too.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// Validates the name of an informer, a plugin or a namespace: a DNS label. Names are used in metric labels, paths and
/// on the command line, so they must not need quoting.
///
/// # Errors
/// The rule that is violated.
pub fn validate_name(name: &str) -> Result<(), &'static str> {
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

/// Validates the name of an index or an alias. Plugins choose these, so capitals, '_', '.' and '/' are allowed.
pub(crate) fn validate_alias(word: &str) -> Result<(), &'static str> {
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
    fn names_are_dns_labels_and_aliases_allow_more() {
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
            assert_eq!(validate_name(name).is_ok(), good, "{name}");
        }
        for (word, good) in [
            ("byNode", true),
            ("a/b.c_d-e", true),
            ("=", false),
            ("", false),
            ("_a", false),
            ("a=b", false),
        ] {
            assert_eq!(validate_alias(word).is_ok(), good, "{word}");
        }
    }
}
