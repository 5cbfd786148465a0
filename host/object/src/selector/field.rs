//! Field selectors: `metadata.name=web-1,status.phase!=Failed`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::SelectorError;
use crate::object::Object;
use crate::pointer::{Pointer, PointerToken};

/// A field selector. All of its terms must hold; without any it matches everything.
///
/// Terms are `field=value`, `field==value` or `field!=value`, separated by commas; in a value `\` must precede `,`, `=`
/// and `\`. A field that is absent counts as the empty text. The API server decides which fields can be selected.
///
/// Source: apimachinery `pkg/fields/selector.go`, `ParseSelector`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
    pointer: Pointer,
}

impl FieldSelector {
    /// Reads a selector. The empty text selects everything.
    ///
    /// # Errors
    /// [`SelectorError`] with the position of the first fault.
    pub fn parse(text: &str) -> Result<FieldSelector, SelectorError> {
        let terms = split_terms(text).filter(|(_, term)| !term.is_empty());
        let terms = terms
            .map(|(at, term)| Term::parse(text, at, term))
            .collect::<Result<_, _>>()?;
        Ok(FieldSelector { terms })
    }

    /// The selector that matches everything.
    #[must_use]
    pub fn everything() -> FieldSelector {
        FieldSelector::default()
    }

    /// Whether the selector matches everything because it has no terms.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The selected fields, as written.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// Whether the fields of `object` meet all terms; `a.b` is looked up as `/a/b`.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.terms.iter().all(|term| {
            let values = object.pointer(&term.pointer);
            term.holds(values.first().map_or("", |value| value))
        })
    }

    /// Whether the fields that `field` returns (`metadata.name`) meet all terms.
    pub fn matches_with<'f>(&self, mut field: impl FnMut(&str) -> Option<Cow<'f, str>>) -> bool {
        self.terms
            .iter()
            .all(|term| term.holds(&field(&term.field).unwrap_or_default()))
    }
}

impl Term {
    /// Reads the term at offset `at` of the selector `whole`.
    fn parse(whole: &str, at: usize, term: &str) -> Result<Term, SelectorError> {
        let error = |offset: usize, problem: String| SelectorError {
            kind: "field",
            text: whole.to_owned(),
            at: at + offset,
            problem,
        };
        let Some((field, operator, value)) = split_operator(term) else {
            return Err(error(
                0,
                format!("{term:?} has no operator; write field=value or field!=value"),
            ));
        };
        if field.is_empty() || field.contains(char::is_whitespace) {
            return Err(error(
                0,
                format!("{field:?} is not a field; write metadata.name, without spaces"),
            ));
        }
        let value_at = field.len() + operator.len();
        let value = unescape(value).map_err(|(offset, problem)| error(value_at + offset, problem))?;
        let pointer = pointer_of(field).map_err(|problem| error(0, problem))?;
        Ok(Term {
            field: field.to_owned(),
            equal: operator != "!=",
            value,
            pointer,
        })
    }

    fn holds(&self, value: &str) -> bool {
        (value == self.value) == self.equal
    }
}

fn pointer_of(field: &str) -> Result<Pointer, String> {
    let escaped = field.replace('~', "~0").replace('/', "~1").replace('.', "/");
    let pointer = Pointer::parse(&format!("/{escaped}")).map_err(|error| error.to_string())?;
    if pointer.tokens().contains(&PointerToken::Any) {
        Err("a field cannot be \"*\"".to_owned())
    } else {
        Ok(pointer)
    }
}

/// Splits at commas that no backslash precedes; each term with its offset.
fn split_terms(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let begin = start?;
        let rest = &text[begin..];
        let end = unescaped(rest)
            .find(|(_, c)| *c == ',')
            .map_or(rest.len(), |(at, _)| at);
        start = (end < rest.len()).then_some(begin + end + 1);
        Some((begin, &rest[..end]))
    })
}

/// The characters of `text` that neither are a backslash nor follow one that escapes.
fn unescaped(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut after_backslash = false;
    text.char_indices().filter(move |(_, c)| {
        let escaped = after_backslash;
        after_backslash = !escaped && *c == '\\';
        !escaped && *c != '\\'
    })
}

/// Splits at the first operator that no backslash precedes.
fn split_operator(term: &str) -> Option<(&str, &str, &str)> {
    unescaped(term).find_map(|(at, _)| {
        let operator = ["!=", "==", "="]
            .into_iter()
            .find(|operator| term[at..].starts_with(operator))?;
        Some((&term[..at], operator, &term[at + operator.len()..]))
    })
}

/// Undoes `\\`, `\,` and `\=`. An error has its offset.
fn unescape(value: &str) -> Result<String, (usize, String)> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some((_, escaped @ ('\\' | ',' | '='))) => plain.push(escaped),
                _ => return Err((at, "a backslash must precede \"\\\", \",\" or \"=\"".to_owned())),
            },
            '=' => return Err((at, "\"=\" in a value must be written \"\\=\"".to_owned())),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<FieldSelector, SelectorError> {
        FieldSelector::parse(text)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, term) in self.terms.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", term.field)?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &str, fields: &[(&str, &'static str)]) -> bool {
        let selector = FieldSelector::parse(selector).expect(selector);
        selector.matches_with(|path| {
            fields
                .iter()
                .find(|(own, _)| *own == path)
                .map(|(_, value)| Cow::Borrowed(*value))
        })
    }

    #[test]
    fn terms_hold_as_in_apimachinery() {
        let fields = [
            ("metadata.name", "web"),
            ("status.phase", "Running"),
            ("odd", "a,b=c\\d"),
        ];
        for selector in [
            "",
            ",",
            "metadata.name=web",
            "metadata.name==web,status.phase!=Failed",
            "absent=",
            "absent!=x",
            r"odd=a\,b\=c\\d",
        ] {
            assert!(check(selector, &fields), "{selector:?}");
        }
        for selector in [
            "metadata.name=db",
            "metadata.name!=web",
            "absent!=",
            "metadata.name=web,status.phase=Failed",
        ] {
            assert!(!check(selector, &fields), "{selector:?}");
        }
    }

    #[test]
    fn a_selector_is_formatted_so_that_it_parses_equal() {
        for (text, written) in [
            ("a==1,,b!=2", "a=1,b!=2"),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            ("a.b=", "a.b="),
            ("a=!b", "a=!b"),
        ] {
            let selector = FieldSelector::parse(text).expect(text);
            assert_eq!(selector.to_string(), written);
            assert_eq!(FieldSelector::parse(written).expect("own text"), selector);
        }
    }

    #[test]
    fn errors_name_their_position() {
        let error = |text: &str| FieldSelector::parse(text).expect_err("refused").to_string();
        insta::assert_snapshot!(error("a=1,metadata.name"), @r#"field selector "a=1,metadata.name", byte 4: "metadata.name" has no operator; write field=value or field!=value"#);
        insta::assert_snapshot!(error("a=1, b=2"), @r#"field selector "a=1, b=2", byte 4: " b" is not a field; write metadata.name, without spaces"#);
        insta::assert_snapshot!(error("=1"), @r#"field selector "=1", byte 0: "" is not a field; write metadata.name, without spaces"#);
        insta::assert_snapshot!(error("a=b=c"), @r#"field selector "a=b=c", byte 3: "=" in a value must be written "\=""#);
        insta::assert_snapshot!(error(r"a=b\c"), @r#"field selector "a=b\\c", byte 3: a backslash must precede "\", "," or "=""#);
        insta::assert_snapshot!(error(r"a=b\"), @r#"field selector "a=b\\", byte 3: a backslash must precede "\", "," or "=""#);
        insta::assert_snapshot!(error("*=b"), @r#"field selector "*=b", byte 0: a field cannot be "*""#);
    }
}
