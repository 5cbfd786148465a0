//! URLs of requests: what is granted reads as one of the granted URLs, however a server reads it.

use informant_fuzz::{corpus, fuzz};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asked {
    method: String,
    url: String,
}

fn grants() -> Vec<HttpGrant> {
    let urls = ["http://a.svc/kit", "https://*.example.com", "http://b.svc:8080/x/y/"];
    urls.map(|url| HttpGrant::parse(url).unwrap()).to_vec()
}

fn asked() -> impl Strategy<Value = Asked> {
    let method = select(&["GET", "POST", "TRACE", "connect", "Track", "PATCH", "X-OWN"][..]);
    let scheme = select(&["http://", "https://", "HTTP://", "ftp://", "//", ""][..]);
    let host = prop_oneof![
        6 => select(&["a.svc", "A.svc", "b.svc:8080", "b.svc", "x.example.com", "example.com", "xexample.com", "a.svc.", "a.svc:80",
            "u@a.svc", "a.svc:0", "127.1", "0x7f.1", "[::1]", "a.svc@evil"][..]).prop_map(str::to_owned),
        1 => "[a-z0-9.:@%-]{0,12}",
    ];
    let segment = select(
        &[
            "kit", "x", "y", "..", ".", "", "%2e%2e", "%2E.", "..%2f", "kit%2f..", "%6bit", "a;b", "\\", "?q", "#f",
            "%",
        ][..],
    );
    let path = vec(segment, 0..5)
        .prop_map(|segments| segments.iter().map(|segment| format!("/{segment}")).collect::<String>());
    (method, scheme, host, path).prop_map(|(method, scheme, host, path)| Asked {
        method: method.to_owned(),
        url: format!("{scheme}{host}{path}"),
    })
}

/// The path, decoded as often as anybody might do so, with both kinds of slashes.
fn decoded(path: &str) -> String {
    let mut path = path.to_owned();
    for _ in 0..3 {
        for (code, c) in [("%2e", "."), ("%2f", "/"), ("%5c", "/"), ("%6b", "k"), ("\\", "/")] {
            path = path.replace(code, c).replace(&code.to_uppercase(), c);
        }
    }
    path
}

#[test]
fn a_granted_request_goes_where_a_grant_says() {
    let grants = grants();
    fuzz(corpus!("http"), asked(), |Asked { method, url }| {
        let request = Request::builder().method(method.as_str()).uri(url);
        let Ok(request) = request.body(answer(StatusCode::OK).into_body()) else {
            return Ok(());
        };
        let (_, grant) = match granted("p", &request, &grants) {
            Ok(granted) => granted,
            Err(denied) => {
                prop_assert_eq!(denied.code, HttpErrorCode::Denied);
                prop_assert!(!denied.to_string().is_empty());
                return Ok(());
            }
        };
        prop_assert!(
            !["CONNECT", "TRACE", "TRACK"].contains(&method.to_uppercase().as_str()),
            "{method}"
        );
        let (scheme, rest) = url.split_once("://").unwrap();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        prop_assert!(!authority.contains('@'), "{url}");
        let host = authority.to_lowercase();
        let path = decoded(path.split(['?', '#']).next().unwrap());
        let is_below =
            |prefix: &str| (path.clone() + "/").starts_with(prefix) && !path.split('/').any(|segment| segment == "..");
        let is_meant = match grant.url() {
            "http://a.svc/kit" => matches!(&*host, "a.svc" | "a.svc:80") && is_below("/kit/"),
            "https://*.example.com" => host.split(':').next().unwrap().ends_with(".example.com"),
            _ => host == "b.svc:8080" && is_below("/x/y/"),
        };
        let is_https = scheme.eq_ignore_ascii_case("https");
        prop_assert!(
            is_meant && is_https == grant.url().starts_with("https"),
            "{} grants it",
            grant.url()
        );
        Ok(())
    });
}
