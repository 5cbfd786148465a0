//! The results as JUnit XML, as CI systems read it: a suite, and a case for each scenario.
//!
//! Written by hand: it is three elements, and a crate for it brings its own clock and identifiers.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use super::Verdict;
use super::prepare::shown;

/// One scenario.
pub(super) struct Case {
    file: String,
    name: String,
    took: Duration,
    /// The element, the first line and the whole text of what went wrong.
    problem: Option<(&'static str, String)>,
}

impl Case {
    pub(super) fn new(file: &Path, name: String, verdict: &Verdict, took: Duration) -> Case {
        let problem = match verdict {
            Verdict::Passed | Verdict::Updated(_) => None,
            Verdict::Failed(report) => Some(("failure", report.clone())),
            Verdict::Broken(error) => Some(("error", format!("{error:#}"))),
        };
        Case {
            file: shown(file),
            name,
            took,
            problem,
        }
    }

    fn element(&self) -> String {
        let (file, name) = (escaped(&self.file), escaped(&self.name));
        let head = format!(
            "    <testcase classname=\"{file}\" name=\"{name}\" time=\"{:.3}\"",
            self.took.as_secs_f64()
        );
        match &self.problem {
            None => format!("{head}/>\n"),
            Some((element, text)) => {
                let (message, text) = (escaped(text.lines().next().unwrap_or_default()), escaped(text));
                format!("{head}>\n      <{element} message=\"{message}\">{text}</{element}>\n    </testcase>\n")
            }
        }
    }
}

pub(super) fn document(cases: &[Case]) -> String {
    let of = |element| {
        let is_it = |case: &&Case| case.problem.as_ref().is_some_and(|(other, _)| *other == element);
        cases.iter().filter(is_it).count()
    };
    let took: Duration = cases.iter().map(|case| case.took).sum();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\"",
        cases.len(),
        of("failure"),
        of("error"),
        took.as_secs_f64()
    );
    let elements: String = cases.iter().map(Case::element).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"informant plugin test\" \
         {counts}>\n{elements}  </testsuite>\n</testsuites>\n"
    )
}

/// A text for an element or an attribute. What XML does not permit is replaced.
fn escaped(text: &str) -> String {
    let characters = text.chars().map(|c| match c {
        '&' => Cow::Borrowed("&amp;"),
        '<' => Cow::Borrowed("&lt;"),
        '>' => Cow::Borrowed("&gt;"),
        '"' => Cow::Borrowed("&quot;"),
        '\n' | '\t' => Cow::Owned(c.to_string()),
        c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => Cow::Borrowed("\u{fffd}"),
        c => Cow::Owned(c.to_string()),
    });
    characters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_one_suite_with_escaped_texts() {
        let case = |name: &str, verdict: &Verdict| {
            Case::new(
                Path::new("a.scenario.yaml"),
                name.to_owned(),
                verdict,
                Duration::from_millis(1_500),
            )
        };
        let cases = [
            case("greets", &Verdict::Passed),
            case(
                "a \"b\" & <c>",
                &Verdict::Failed("a.scenario.yaml:3:5: log differ\n  - a\u{1b}[1m".to_owned()),
            ),
            case(
                "broken",
                &Verdict::Broken(anyhow::anyhow!("no such file").context("cannot build")),
            ),
        ];
        let written = document(&cases);
        for expected in [
            "<testsuites tests=\"3\" failures=\"1\" errors=\"1\" time=\"4.500\">",
            "    <testcase classname=\"a.scenario.yaml\" name=\"greets\" time=\"1.500\"/>\n",
            "name=\"a &quot;b&quot; &amp; &lt;c&gt;\"",
            "<failure message=\"a.scenario.yaml:3:5: log differ\">a.scenario.yaml:3:5: log differ\n  - a\u{fffd}[1m</failure>",
            "<error message=\"cannot build: no such file\">",
        ] {
            assert!(written.contains(expected), "{expected}: {written}");
        }
    }
}
