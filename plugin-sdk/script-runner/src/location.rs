//! Locations in a script, parsed from stack traces of QuickJS.
//!
//! A frame is a line such as `    at check (handler.js:3:11)` or, for a syntax error, `    at handler.js:3:11`.

#![cfg_attr(
    not(target_family = "wasm"),
    allow(dead_code, reason = "off WebAssembly this is only tested")
)]

use std::fmt;

/// The maximum number of functions in an error, innermost first.
const FRAMES_MAX: usize = 5;

/// A location in a script. Lines and columns start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The innermost location in `stack` that is in the file `script`.
pub(crate) fn innermost(stack: &str, script: &str) -> Option<Location> {
    stack.lines().find_map(|line| in_frame(line, script))
}

/// The functions of `script` in `stack`, as `check < onAdd`. `None` if there is only one, which adds no information.
pub(crate) fn functions(stack: &str, script: &str) -> Option<String> {
    let frames = stack.lines().filter(|line| in_frame(line, script).is_some());
    let names: Vec<&str> = frames.filter_map(function).take(FRAMES_MAX).collect();
    (names.len() > 1).then(|| names.join(" < "))
}

fn in_frame(line: &str, script: &str) -> Option<Location> {
    let from = line.rfind(&format!("{script}:"))?;
    let before = &line[..from];
    if !(before.is_empty() || before.ends_with('(') || before.ends_with(' ')) {
        return None;
    }
    let mut numbers = line[from + script.len() + 1..].trim_end_matches(')').split(':');
    let line = numbers.next()?.parse().ok()?;
    let column = numbers.next().map_or(Some(1), |column| column.parse().ok())?;
    Some(Location { line, column })
}

fn function(line: &str) -> Option<&str> {
    let (name, _) = line.trim_start().strip_prefix("at ")?.split_once(" (")?;
    (!name.starts_with('<')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "    at native (informant:prelude:30:5)\n    at check (handler.js:3:11)\n    at <anonymous> (handler.js:9:2)\n    at onAdd (handler.js:12:3)\n";

    #[test]
    fn the_innermost_frame_of_the_script_is_the_location() {
        assert_eq!(innermost(STACK, "handler.js"), Some(Location { line: 3, column: 11 }));
        assert_eq!(
            innermost("    at handler.js:7:1\n", "handler.js"),
            Some(Location { line: 7, column: 1 })
        );
        assert_eq!(
            innermost("    at f (a b (1).js:7)\n", "a b (1).js"),
            Some(Location { line: 7, column: 1 })
        );
    }

    #[test]
    fn other_files_and_other_text_have_no_location() {
        for stack in [
            "",
            "    at f (native)\n",
            "    at f (my-handler.js:7:1)\n",
            "    at f (handler.js:x:1)\n",
            "    at f (handler.json:1:1)\n",
        ] {
            assert_eq!(innermost(stack, "handler.js"), None, "{stack}");
        }
    }

    #[test]
    fn functions_are_listed_if_there_are_several() {
        assert_eq!(functions(STACK, "handler.js").as_deref(), Some("check < onAdd"));
        assert_eq!(functions("    at onAdd (handler.js:12:3)\n", "handler.js"), None);
    }
}
