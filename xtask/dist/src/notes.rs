//! Release notes: a section of CHANGELOG.md, with links that work outside of the repository.

use anyhow::{Context, Result, ensure};

use crate::release::Release;

/// The notes of `release`: the section of its version. A trial takes the unreleased changes, if there is no such
/// section.
pub(crate) fn of(changelog: &str, release: &Release) -> Result<String> {
    let version = &release.version;
    let section = match section(changelog, version) {
        None if release.tag.is_none() => section_named(changelog, "Unreleased"),
        found => found,
    };
    let section = section.with_context(|| {
        format!("CHANGELOG.md has no section `## {version}`: rename `## Unreleased`, and commit that before you tag")
    })?;
    ensure!(
        !section.is_empty(),
        "the section of CHANGELOG.md for {version} is empty"
    );
    Ok(match &release.source {
        Some(source) => format!(
            "{}\n",
            with_links_below(section, &format!("{source}/blob/{}", release.expected_tag()))
        ),
        None => format!("{section}\n"),
    })
}

/// The text, with the targets of its links to files of the repository put below `address`.
fn with_links_below(text: &str, address: &str) -> String {
    let mut parts = text.split("](");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let target = part.split(')').next().unwrap_or_default();
        result += "](";
        if !target.contains("://") {
            result.extend([address, "/"]);
        }
        result += part;
    }
    result
}

fn section<'t>(changelog: &'t str, version: &str) -> Option<&'t str> {
    section_named(changelog, version).or_else(|| section_named(changelog, &format!("[{version}]")))
}

/// What is below the heading `## NAME`, which may continue with ` - DATE`.
fn section_named<'t>(changelog: &'t str, name: &str) -> Option<&'t str> {
    let mut start = None;
    let mut at = 0;
    for line in changelog.split_inclusive('\n') {
        if let Some(heading) = line.strip_prefix("## ") {
            if let Some(start) = start {
                return Some(changelog[start..at].trim());
            }
            let title = heading.split(" - ").next().unwrap_or_default().trim();
            if title == name {
                start = Some(at + line.len());
            }
        }
        at += line.len();
    }
    start.map(|start| changelog[start..].trim())
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::release::release;

    const CHANGELOG: &str = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.1.0 - 2026-12-01\n\n### Added\n\n- a \
                             ([guide](docs/a.md#b), [site](https://example.org))\n\n## 0.0.9\n\n- old\n";

    #[test]
    fn notes_are_the_section_of_the_version_with_full_links() {
        insta::assert_snapshot!(of(CHANGELOG, &release()).unwrap(), @"
        ### Added

        - a ([guide](https://example.com/informant/blob/v0.1.0/docs/a.md#b), [site](https://example.org))
        ");
    }

    #[test]
    fn trial_takes_unreleased_changes_and_a_tag_does_not() {
        let mut release = release();
        release.version = "0.2.0".to_owned();
        assert_eq!(of(CHANGELOG, &release).unwrap(), "- new\n");
        release.tag = Some("v0.2.0".to_owned());
        insta::assert_snapshot!(of(CHANGELOG, &release).unwrap_err(), @"CHANGELOG.md has no section `## 0.2.0`: rename `## Unreleased`, and commit that before you tag");
    }

    #[test]
    fn last_section_ends_with_the_file() {
        let mut release = release();
        release.version = "0.0.9".to_owned();
        assert_eq!(of(CHANGELOG, &release).unwrap(), "- old\n");
    }
}
