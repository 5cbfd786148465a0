//! The grammar of label selectors.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] KEY | KEY ( "=" | "==" | "!=" ) [ VALUE ] | KEY ( ">" | "<" ) INTEGER
//!             | KEY ( "in" | "notin" ) "(" [ VALUE ] { "," [ VALUE ] } ")"
//! ```
//!
//! White space is allowed between tokens. `in` and `notin` are operators only where an operator is expected: a label
//! key can have these names. The parentheses must hold a value or a comma; a missing value is empty.
//!
//! Source: apimachinery `pkg/labels/selector.go` (Lexer, Parser, NewRequirement) and `pkg/util/validation`.

use std::collections::BTreeSet;

use super::SelectorError;
use super::label::{LabelRequirement, Operator};

/// Longest name part of a label key, and longest value, in bytes. Source: apimachinery `qualifiedNameMaxLength`.
const NAME_BYTES_MAX: usize = 63;

/// Longest prefix of a label key, in bytes. Source: apimachinery `DNS1123SubdomainMaxLength`.
const PREFIX_BYTES_MAX: usize = 253;

/// Longest first: `!=` before `!`.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];

/// Reads the requirements of a selector, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut parser = Parser { text, at: 0 };
    let mut requirements = Vec::new();
    if parser.next() == Token::End {
        return Ok(requirements);
    }
    loop {
        requirements.push(parser.requirement()?);
        let (at, token) = parser.take();
        match token {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => {}
            other => return Err(parser.expected(at, other, "\",\" or the end")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Symbol(&'t str),
    Word(&'t str),
    End,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let absent = self.next() == Token::Symbol("!");
        if absent {
            self.take();
        }
        let key = self.key()?;
        let operator = match self.next() {
            _ if absent => Operator::DoesNotExist,
            Token::End | Token::Symbol(",") => Operator::Exists,
            _ => self.operator()?,
        };
        Ok(LabelRequirement { key, operator })
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        let (at, token) = self.take();
        let Token::Word(key) = token else {
            return Err(self.expected(at, token, "a label key or \"!\""));
        };
        match key_problem(key) {
            Some(problem) => Err(self.error(at, format!("{key:?} is not a label key: {problem}"))),
            None => Ok(key.to_owned()),
        }
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let (at, token) = self.take();
        Ok(match token {
            Token::Symbol("=") => Operator::Equals(self.value()?),
            Token::Symbol("==") => Operator::DoubleEquals(self.value()?),
            Token::Symbol("!=") => Operator::NotEquals(self.value()?),
            Token::Symbol(">") => Operator::GreaterThan(self.integer()?),
            Token::Symbol("<") => Operator::LessThan(self.integer()?),
            Token::Word("in") => Operator::In(self.values()?),
            Token::Word("notin") => Operator::NotIn(self.values()?),
            other => return Err(self.expected(at, other, "=, ==, !=, in, notin, >, <, \",\" or the end")),
        })
    }

    /// The value after an operator; an absent one is empty.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.next() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(_) => self.word(),
            _ => {
                let (at, token) = self.take();
                Err(self.expected(at, token, "a label value"))
            }
        }
    }

    fn integer(&mut self) -> Result<i64, SelectorError> {
        let (at, token) = self.take();
        let Token::Word(word) = token else {
            return Err(self.expected(at, token, "an integer"));
        };
        // A sign is not a valid label value, so Kubernetes rejects it here as well.
        let integer = word.parse().ok().filter(|_| name_problem(word).is_none());
        integer.ok_or_else(|| {
            self.error(
                at,
                format!("{word:?} is not an integer without sign, as > and < need it"),
            )
        })
    }

    /// The parenthesized values after `in` and `notin`.
    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let (at, token) = self.take();
        if token != Token::Symbol("(") {
            return Err(self.expected(at, token, "\"(\""));
        }
        if self.next() == Token::Symbol(")") {
            return Err(self.error(at, "the parentheses hold no value".to_owned()));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(match self.next() {
                Token::Word(_) => self.word()?,
                _ => String::new(),
            });
            let (at, token) = self.take();
            match token {
                Token::Symbol(")") => return Ok(values),
                Token::Symbol(",") => {}
                other => return Err(self.expected(at, other, "\",\" or \")\"")),
            }
        }
    }

    /// The label value that comes next.
    fn word(&mut self) -> Result<String, SelectorError> {
        let (at, token) = self.take();
        let Token::Word(word) = token else {
            return Err(self.expected(at, token, "a label value"));
        };
        match name_problem(word) {
            Some(problem) => Err(self.error(at, format!("{word:?} is not a label value: {problem}"))),
            None => Ok(word.to_owned()),
        }
    }

    /// The next token, left in place.
    fn next(&self) -> Token<'t> {
        Parser {
            text: self.text,
            at: self.at,
        }
        .take()
        .1
    }

    /// The next token and where it begins.
    fn take(&mut self) -> (usize, Token<'t>) {
        let rest = &self.text[self.at..];
        let rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let at = self.text.len() - rest.len();
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let end = rest.find(|c: char| " \t\r\n=!(),<>".contains(c)).unwrap_or(rest.len());
        let (bytes, token) = match symbol {
            Some(symbol) => (symbol.len(), Token::Symbol(symbol)),
            None if rest.is_empty() => (0, Token::End),
            None => (end, Token::Word(&rest[..end])),
        };
        self.at = at + bytes;
        (at, token)
    }

    fn expected(&self, at: usize, found: Token<'_>, expected: &str) -> SelectorError {
        let found = match found {
            Token::Symbol(text) | Token::Word(text) => format!("{text:?}"),
            Token::End => "the end".to_owned(),
        };
        self.error(at, format!("found {found}, expected {expected}"))
    }

    fn error(&self, at: usize, problem: String) -> SelectorError {
        SelectorError {
            kind: "label",
            text: self.text.to_owned(),
            at,
            problem,
        }
    }
}

/// Why `key` is not a valid label key, or `None` if it is.
fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => return Some("it has more than one slash"),
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.is_empty() {
        return Some("its name is empty");
    }
    name_problem(name).or_else(|| prefix.and_then(prefix_problem))
}

/// Why `name` is not a valid label value or name part of a key, or `None` if it is.
fn name_problem(name: &str) -> Option<&'static str> {
    if name.len() > NAME_BYTES_MAX {
        return Some("it is longer than 63 characters");
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return Some("only letters, digits, \"-\", \"_\" and \".\" are allowed");
    }
    let outer = [name.bytes().next(), name.bytes().last()];
    let bounded = outer.into_iter().flatten().all(|byte| byte.is_ascii_alphanumeric());
    (!bounded).then_some("it must begin and end with a letter or digit")
}

fn prefix_problem(prefix: &str) -> Option<&'static str> {
    let part_ok = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(allowed) && !part.starts_with('-') && !part.ends_with('-')
    };
    if prefix.len() > PREFIX_BYTES_MAX {
        return Some("its prefix is longer than 253 characters");
    }
    (!prefix.split('.').all(part_ok)).then_some("its prefix must be a DNS name in lower case")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_position() {
        let error = |text: &str| parse(text).expect_err("refused").to_string();
        insta::assert_snapshot!(error("app web"), @r#"label selector "app web", byte 4: found "web", expected =, ==, !=, in, notin, >, <, "," or the end"#);
        insta::assert_snapshot!(error("app=web,"), @r#"label selector "app=web,", byte 8: found the end, expected a label key or "!""#);
        insta::assert_snapshot!(error(",app"), @r#"label selector ",app", byte 0: found ",", expected a label key or "!""#);
        insta::assert_snapshot!(error("app in web"), @r#"label selector "app in web", byte 7: found "web", expected "(""#);
        insta::assert_snapshot!(error("app in ()"), @r#"label selector "app in ()", byte 7: the parentheses hold no value"#);
        insta::assert_snapshot!(error("app in (a b)"), @r#"label selector "app in (a b)", byte 10: found "b", expected "," or ")""#);
        insta::assert_snapshot!(error("!app=web"), @r#"label selector "!app=web", byte 4: found "=", expected "," or the end"#);
        insta::assert_snapshot!(error("app=(a)"), @r#"label selector "app=(a)", byte 4: found "(", expected a label value"#);
        insta::assert_snapshot!(error("app=a=b"), @r#"label selector "app=a=b", byte 5: found "=", expected "," or the end"#);
        insta::assert_snapshot!(error("n>x"), @r#"label selector "n>x", byte 2: "x" is not an integer without sign, as > and < need it"#);
        insta::assert_snapshot!(error("-app=web"), @r#"label selector "-app=web", byte 0: "-app" is not a label key: it must begin and end with a letter or digit"#);
        insta::assert_snapshot!(error("app=web_"), @r#"label selector "app=web_", byte 4: "web_" is not a label value: it must begin and end with a letter or digit"#);
        insta::assert_snapshot!(error("Example.com/app=web"), @r#"label selector "Example.com/app=web", byte 0: "Example.com/app" is not a label key: its prefix must be a DNS name in lower case"#);
        insta::assert_snapshot!(error("a/b/c"), @r#"label selector "a/b/c", byte 0: "a/b/c" is not a label key: it has more than one slash"#);
        insta::assert_snapshot!(error("example.com/"), @r#"label selector "example.com/", byte 0: "example.com/" is not a label key: its name is empty"#);
        insta::assert_snapshot!(error("app = größe"), @r#"label selector "app = größe", byte 6: "größe" is not a label value: only letters, digits, "-", "_" and "." are allowed"#);
        insta::assert_snapshot!(error("app === web"), @r#"label selector "app === web", byte 6: found "=", expected a label value"#);
    }

    #[test]
    fn long_keys_and_values_are_refused_at_kubernetes_limits() {
        let long = "a".repeat(64);
        let fits = "a".repeat(63);
        assert!(parse(&fits).is_ok() && parse(&format!("a={fits}")).is_ok());
        assert!(parse(&long).is_err() && parse(&format!("a={long}")).is_err());
        let prefix = vec!["a".repeat(63); 4].join(".");
        assert!(parse(&format!("{}/a", &prefix[..253])).is_ok());
        assert!(parse(&format!("{prefix}/a")).is_err());
    }
}
