use std::fmt::Write as _;

use super::*;

fn target(url: &str) -> Result<HttpTarget, &'static str> {
    HttpTarget::parse(&url.parse().map_err(|_| "is not a URL")?)
}

/// Whether one of `grants` allows `url`.
fn allows(grants: &[&str], url: &str) -> bool {
    let grants: Vec<HttpGrant> = grants.iter().map(|grant| HttpGrant::parse(grant).unwrap()).collect();
    target(url).is_ok_and(|target| target.granted_by(&grants).is_ok_and(|grant| grant.is_some()))
}

#[test]
fn scheme_host_and_port_must_be_granted() {
    let grant = ["https://example.com"];
    for url in [
        "https://example.com",
        "https://EXAMPLE.com:443/a?b",
        "https://example.com/%2e%2e/",
    ] {
        assert!(allows(&grant, url), "{url}");
    }
    for url in [
        "http://example.com",
        "https://example.com:8443",
        "https://a.example.com",
        "https://example.com.evil.org",
        "https://evil.org/example.com",
        "https://example.com@evil.org",
        "https://example.com./",
        "https://user:password@example.com",
        "ftp://example.com",
        "/example.com",
    ] {
        assert!(!allows(&grant, url), "{url}");
    }
}

#[test]
fn a_wildcard_is_any_number_of_labels() {
    let grant = ["http://*.svc:80"];
    for url in ["http://a.svc", "http://api.web.svc/path", "http://x.y.z.SVC"] {
        assert!(allows(&grant, url), "{url}");
    }
    for url in [
        "http://svc",
        "http://.svc",
        "http://asvc",
        "http://a.svc.evil.org",
        "http://10.0.0.1",
    ] {
        assert!(!allows(&grant, url), "{url}");
    }
}

#[test]
fn a_path_cannot_leave_its_prefix() {
    for grant in [
        "https://h/services/T000/",
        "https://h/services/T000",
        "https://h/services/%54000",
    ] {
        for url in [
            "https://h/services/T000",
            "https://h/services/T000/",
            "https://h/services/T%30%300/B/x?a=../",
            "https://h/services/T000/a%ef%bc%8eb/..c/%c3%a9%20/",
        ] {
            assert!(allows(&[grant], url), "{grant} {url}");
        }
        for url in [
            "https://h",
            "https://h/services",
            "https://h/services/T0001",
            "https://h/services/t000/",
            "https://h//services/T000/",
            "https://h/services/T000/../T001",
            "https://h/services/T000/./x",
            "https://h/services/T000/%2e%2E/T001",
            "https://h/services/T000/.%2e/T001",
            "https://h/services/T000/%252e%252e/T001",
            "https://h/services/T000/..;a=b/T001",
            "https://h/services/T000%2f..%2fT001",
            "https://h/services/T000/..%5cT001",
            "https://h/services/T000/%00",
            "https://h/services/T000/%zz",
            "https://h/services/T000/%c0%ae%c0%ae/T001",
            "https://h/services/T000/%ff",
            "https://h/services/T000/..%20/T001",
            "https://h/services/T000/%20../T001",
            "https://h/services/T000/%c2%a0..;a/T001",
            "https://h/services/T000/%ef%bc%8e%ef%bc%8e/T001",
            "https://h/services/T000/.%e2%80%a4/T001",
            "https://h/services/T000/%e2%80%a5/T001",
            "https://h/services/T000/%ef%b9%92./T001",
            "https://h/services/T000/x%ef%bc%8f..%ef%bc%8fT001",
            "https://h/services/T000/x%ef%bc%bc..",
            "https://h/other/../services/T000/",
        ] {
            assert!(!allows(&[grant], url), "{grant} {url}");
        }
    }
}

#[test]
fn an_address_is_granted_by_its_own_url_only() {
    assert!(allows(&["http://127.0.0.1:8080"], "http://127.0.0.1:8080/"));
    assert!(allows(&["http://[::1]:8080"], "http://[0:0:0:0:0:0:0:1]:8080/"));
    for url in [
        "http://127.0.0.2:8080",
        "http://127.1:8080",
        "http://0x7f.1:8080",
        "http://0x7f000001:8080",
        "http://2130706433:8080",
        "http://0177.0.0.1:8080",
        "http://127.0.0.1.:8080",
        "http://[::ffff:127.0.0.1]:8080",
    ] {
        assert!(!allows(&["http://127.0.0.1:8080"], url), "{url}");
    }
}

#[test]
fn the_most_specific_grant_decides() {
    let grants = [
        "https://*.example.com",
        "https://a.example.com",
        "https://a.example.com/api/",
    ];
    let grants = grants.map(|grant| HttpGrant::parse(grant).unwrap());
    for (url, wanted) in [
        ("https://b.example.com/api/", "https://*.example.com"),
        ("https://a.example.com/other", "https://a.example.com"),
        ("https://a.example.com/api/x", "https://a.example.com/api/"),
    ] {
        let target = target(url).unwrap();
        assert_eq!(target.granted_by(&grants).unwrap().unwrap().url(), wanted);
    }
}

#[test]
fn grants_that_mean_something_else_are_refused() {
    let mut text = String::new();
    for url in [
        "",
        "example.com",
        "ftp://example.com",
        "https://",
        "https://*",
        "https://*.",
        "https://a.*.com",
        "https://*.10.0.0.1",
        "https://user@example.com",
        "https://example.com?a",
        "https://example.com#a",
        "https://example.com/a/../b",
        "https://example.com/a//b",
        "https://example.com./",
        "https://example.com:0",
        "https://example.com:",
        "http://127.1",
        "http://exa mple.com",
        "https://exämple.com",
    ] {
        writeln!(text, "{url}: {}", HttpGrant::parse(url).unwrap_err()).unwrap();
    }
    insta::assert_snapshot!(text, @r#"
    : the URL is invalid; write https://HOST, with :PORT and /PATH if they matter
    example.com: the URL has no scheme: http or https
    ftp://example.com: the URL has another scheme than http and https
    https://: the URL is invalid; write https://HOST, with :PORT and /PATH if they matter
    https://*: the URL has a wildcard that is not the first label; only `*.` before a name is one
    https://*.: the URL is invalid; write https://HOST, with :PORT and /PATH if they matter
    https://a.*.com: the URL has a wildcard that is not the first label; only `*.` before a name is one
    https://*.10.0.0.1: the URL has an invalid host name
    https://user@example.com: the URL has user information; set a header instead
    https://example.com?a: the URL has a query or a fragment; grants end with the path
    https://example.com#a: the URL has a query or a fragment; grants end with the path
    https://example.com/a/../b: the URL has a segment of dots
    https://example.com/a//b: the URL has an empty segment in its path
    https://example.com./: the URL has a host that ends with a dot; remove the dot
    https://example.com:0: the URL has port 0
    https://example.com:: the URL has an invalid port
    http://127.1: the URL has a number as its host; write an IPv4 address as four decimal numbers
    http://exa mple.com: the URL is invalid; write https://HOST, with :PORT and /PATH if they matter
    https://exämple.com: the URL is invalid; write https://HOST, with :PORT and /PATH if they matter
    "#);
}
