//! Names of Kubernetes objects on the command line, which become parts of URLs.

/// The longest name of an object.
const NAME_BYTES_MAX: usize = 253;

/// Accepts the name of a namespace, a pod or a service account (a DNS subdomain).
pub(super) fn parse(text: &str) -> Result<String, String> {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    let is_name = text.len() <= NAME_BYTES_MAX
        && text.bytes().all(is_of_name)
        && ends
            .iter()
            .flatten()
            .filter(|byte| byte.is_ascii_alphanumeric())
            .count()
            == ends.len();
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("not the name of a Kubernetes object: use lowercase letters, digits, `-` and `.`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_dns_subdomains_are_names() {
        for name in ["informant", "informant-0", "a.b", "0"] {
            assert_eq!(parse(name).as_deref(), Ok(name));
        }
        for text in ["", ".", "..", "a/b", "A", "a-", "-a", "a b", "a%2f", &"a".repeat(254)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
