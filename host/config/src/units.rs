//! Sizes and rates in config.toml: a number and a unit. Durations are those of the specs.

pub(crate) use informant_spec::DURATION_FORM;
pub use informant_spec::{parse_duration, show_duration};

/// Units of size, longest first so that `KiB` is not read as `B`.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// The format of a size, for messages.
pub(crate) const SIZE_FORM: &str = "a whole number and a unit: \"512KiB\", \"64MiB\", \"1GiB\"";

/// The format of a rate, for messages.
pub(crate) const RATE_FORM: &str = "a whole number for each second: \"20/s\"";

/// Reads `"20/s"`.
pub(crate) fn parse_rate(text: &str) -> Option<u64> {
    let number = text.strip_suffix("/s")?.trim_end();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok()).flatten()
}

/// Reads `"64MiB"` into bytes. No fractions: `"1.5GiB"` is `"1536MiB"`.
pub(crate) fn parse_size_bytes(text: &str) -> Option<u64> {
    let (number, unit) = SIZE_UNITS
        .iter()
        .find_map(|(name, bytes)| text.strip_suffix(name).map(|number| (number.trim_end(), bytes)))?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(*unit)
}

/// Writes a size in the largest binary unit that divides it.
pub fn show_size(bytes: u64) -> String {
    let (unit, name) = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .unwrap_or((1, "B"));
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_whole_number_and_a_unit() {
        for (text, bytes) in [
            ("64MiB", Some(64 << 20)),
            ("1 GiB", Some(1 << 30)),
            ("10kB", Some(10_000)),
            ("7B", Some(7)),
            ("64", None),
            ("MiB", None),
            ("-1MiB", None),
            ("1.5GiB", None),
            ("99999999999GiB", None),
            ("64mib", None),
            ("", None),
        ] {
            assert_eq!(parse_size_bytes(text), bytes, "{text}");
        }
    }

    #[test]
    fn rates_are_whole_numbers_for_each_second() {
        for (text, rate) in [
            ("20/s", Some(20)),
            ("5 /s", Some(5)),
            ("20", None),
            ("/s", None),
            ("1.5/s", None),
            ("60/m", None),
        ] {
            assert_eq!(parse_rate(text), rate, "{text}");
        }
    }

    #[test]
    fn shown_sizes_parse_again() {
        for bytes in [0, 1, 1_000, 1 << 10, 1 << 20, 3 << 29, 1 << 30] {
            assert_eq!(parse_size_bytes(&show_size(bytes)), Some(bytes));
        }
    }
}
