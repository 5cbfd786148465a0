//! `allow.http` of a plugin: where it may send requests.

use std::path::PathBuf;

use http::HeaderName;
use informant_spec::HttpGrant;

use crate::source::{FilePosition, Located};
use crate::table::{Entry, Table};

/// Entries of one plugin: 100. Each has series of metrics of its own.
const GRANTS_MAX: usize = 100;

/// Headers that a file must not set, because they say where a request goes or how long it is.
const UNSETTABLE: [HeaderName; 6] = [
    http::header::HOST,
    http::header::CONNECTION,
    http::header::CONTENT_LENGTH,
    http::header::TRANSFER_ENCODING,
    http::header::UPGRADE,
    http::header::PROXY_AUTHORIZATION,
];

/// `allow.http = ["https://example.com/path/", { url = "https://…", header-files = { Authorization = "FILE" } }]`.
pub(crate) fn read(allow: &Table<'_>) -> Vec<Located<HttpGrant>> {
    let entries = allow.entries(
        "http",
        "a list of URLs, [\"https://…\"], or of tables, [{ url = \"…\" }]",
    );
    let entries = entries.unwrap_or_default();
    if entries.len() > GRANTS_MAX {
        let message = format!(
            "`http` has {} entries; at most {GRANTS_MAX} are supported",
            entries.len()
        );
        let help = "a wildcard covers many hosts: \"https://*.example.com\"";
        allow.refuse(allow.value_position("http"), message, help);
    }
    entries
        .into_iter()
        .filter_map(|entry| read_entry(allow, entry))
        .collect()
}

fn read_entry(allow: &Table<'_>, entry: Entry<'_>) -> Option<Located<HttpGrant>> {
    match entry {
        Entry::Text(url) => Some(Located {
            value: read_url(allow, &url)?,
            position: url.position,
        }),
        Entry::Table(table) => {
            let url = table.required_string("url", "set the URL: url = \"https://example.com\"");
            let header_files = read_header_files(&table);
            table.finish(&[]);
            let url = url?;
            let mut grant = read_url(&table, &url)?;
            grant.header_files = header_files;
            if !grant.header_files.is_empty() && !grant.is_for_one_host() {
                let message = "`header-files` would be sent to every host of a wildcard";
                let help = "name one host in this entry; other entries may have the wildcard";
                table.refuse(url.position, message, help);
            }
            Some(Located {
                value: grant,
                position: url.position,
            })
        }
    }
}

fn read_url(table: &Table<'_>, url: &Located<String>) -> Option<HttpGrant> {
    let report = |error| table.report(url.position, format!("`http`: {error}"));
    HttpGrant::parse(&url.value).map_err(report).ok()
}

fn read_header_files(table: &Table<'_>) -> Vec<(HeaderName, PathBuf)> {
    let Some(files) = table.table("header-files") else {
        return Vec::new();
    };
    let refuse = |position: FilePosition, message: String| {
        let help = "map headers to files: header-files = { Authorization = \"/var/run/secrets/slack/authorization\" }";
        table.refuse(position, message, help);
    };
    let mut headers: Vec<(HeaderName, PathBuf)> = Vec::new();
    for key in files.keys() {
        let name = match HeaderName::from_bytes(key.value.as_bytes()) {
            Ok(name) if UNSETTABLE.contains(&name) => {
                refuse(key.position, format!("the header `{}` cannot be set", key.value));
                continue;
            }
            Ok(name) if headers.iter().any(|(other, _)| *other == name) => {
                refuse(key.position, format!("the header `{}` is set twice", key.value));
                continue;
            }
            Ok(name) => name,
            Err(_) => {
                refuse(key.position, format!("`{}` is not the name of a header", key.value));
                continue;
            }
        };
        let Some(path) = files.string(key.value) else {
            continue;
        };
        match path.value.is_empty() {
            true => refuse(path.position, format!("the file of `{}` is empty", key.value)),
            false => headers.push((name, table.file(path.value))),
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use crate::{Config, PluginSection, Problems, SourceFile};

    fn plugin(allow: &str) -> Result<PluginSection, Problems> {
        let informer = "[informer.pods]\nresource = \"v1/pods\"\n";
        let plugin = "[plugin.p]\ncomponent = \"p.wasm\"\ninformers = [\"pods\"]\n";
        let file = SourceFile::new("etc/config.toml", [informer, plugin, allow].concat());
        Ok(Config::parse(&file)?.plugins.remove("p").expect("it is there"))
    }

    #[test]
    fn urls_and_header_files_are_read() {
        let section = plugin(
            r#"allow.http = ["http://*.svc:8080", { url = "https://hooks.slack.com/services/T000/", header-files = { Authorization = "token" } }]"#,
        );
        let grants = section.unwrap_or_else(|problems| panic!("{problems}")).spec.allow_http;
        let urls: Vec<_> = grants.iter().map(|grant| grant.url()).collect();
        assert_eq!(urls, ["http://*.svc:8080", "https://hooks.slack.com/services/T000/"]);
        let (name, file) = &grants[1].header_files[0];
        assert_eq!((name.as_str(), file.to_str()), ("authorization", Some("etc/token")));
    }

    #[test]
    fn invalid_grants_of_http_are_reported_with_their_lines() {
        let text = plugin(
            r#"allow.http = [
  "hooks.slack.com",
  "https://user@example.com",
  "https://example.com/?a=b",
  "https://exam*.com",
  "http://127.1:8080",
  "https://example.com./",
  "https://example.com/a/../b",
  7,
  { url = "https://*.svc", header-files = { Authorization = "token" } },
  { url = "https://a.svc", header-files = { Host = "x", "a b" = "y" }, headers = {} },
  { },
]"#,
        );
        let problems = text.expect_err("it is refused").to_string();
        for (line, problem) in [
            (7, "`http`: the URL has no scheme"),
            (8, "`http`: the URL has user information"),
            (9, "`http`: the URL has a query"),
            (10, "`http`: the URL has a wildcard"),
            (11, "`http`: the URL has a number as its host"),
            (12, "`http`: the URL has a host that ends with a dot"),
            (13, "`http`: the URL has a segment of dots"),
            (14, "`http` must be a list of URLs"),
            (15, "`header-files` would be sent to every host of a wildcard"),
            (16, "the header `Host` cannot be set"),
            (16, "`a b` is not the name of a header"),
            (16, "unknown key `headers`"),
            (17, "[plugin.p.allow.http] lacks `url`"),
        ] {
            let is_it = |text: &&str| text.contains(&format!("toml:{line}:")) && text.contains(problem);
            assert!(problems.lines().find(is_it).is_some(), "{line}: {problem}\n{problems}");
        }
    }
}
