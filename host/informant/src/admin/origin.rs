//! Which hosts and origins the admin port accepts.
//!
//! Without TLS the port has no authentication, so a web page in the operator's browser must not be able to use it. A
//! page reaches a loopback address by a name that its owner resolves to 127.0.0.1 (DNS rebinding): its requests then
//! carry that name in `Host`. So a name must be known; an address in `Host` was not resolved from any name. A page of
//! another origin announces itself in `Origin`. With TLS pages have no token to send; the rules are the same.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};

use super::AdminState;
use super::error::{AdminError, Code};

/// The host names that the admin port accepts, besides `localhost` and every IP address.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownHosts(Arc<[String]>);

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Foreign {
    Host(String),
    Origin(String),
}

impl KnownHosts {
    pub(crate) fn new(hosts: &[String]) -> Self {
        Self(hosts.iter().map(|host| host.to_ascii_lowercase()).collect())
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Foreign> {
        let host = host_of(uri, headers)?;
        if !(is_address(&host) || self.knows(&host)) {
            return Err(Foreign::Host(host.to_string()));
        }
        let Some(origin) = headers.get(ORIGIN) else {
            return Ok(());
        };
        let shown = || Foreign::Origin(String::from_utf8_lossy(origin.as_bytes()).into_owned());
        let origin: Uri = origin.as_bytes().try_into().map_err(|_| shown())?;
        let authority = origin.authority().ok_or_else(shown)?;
        // A page that this port served itself would be of the same host and port; others need to be listed.
        let is_own = authority.as_str().eq_ignore_ascii_case(host.as_str());
        if is_own || self.lists(authority.host()) {
            Ok(())
        } else {
            Err(shown())
        }
    }

    fn knows(&self, host: &Authority) -> bool {
        host.host().eq_ignore_ascii_case("localhost") || self.lists(host.host())
    }

    fn lists(&self, host: &str) -> bool {
        self.0.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// The one host that a request is for.
fn host_of(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Foreign> {
    let shown = || {
        let values = headers.get_all(HOST).iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Foreign::Host(values.collect::<Vec<_>>().join(", "))
    };
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(shown());
    };
    let host = Authority::try_from(host.as_bytes()).map_err(|_| shown())?;
    // A request line with a whole URL overrides the header, so both have to be the same.
    match uri.authority() {
        Some(authority) if *authority != host => Err(Foreign::Host(authority.to_string())),
        _ => Ok(host),
    }
}

/// Whether the host is an IP address.
fn is_address(host: &Authority) -> bool {
    let host = host.host();
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Refuses requests with a foreign `Host` or `Origin`.
pub(super) async fn refuse_foreign(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    let message = match state.hosts.check(request.uri(), request.headers()) {
        Ok(()) => return next.run(request).await,
        Err(Foreign::Host(host)) => {
            state.metrics.daemon.admin_rejected("host");
            format!(
                "host {host:?} is not accepted; use an address or localhost, or list the name in `hosts` of [admin]"
            )
        }
        Err(Foreign::Origin(origin)) => {
            state.metrics.daemon.admin_rejected("origin");
            format!("requests of web pages from {origin:?} are not accepted; list the name in `hosts` of [admin]")
        }
    };
    AdminError::new(Code::Forbidden, message).into_response()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(hosts: &[&str], uri: &str, host: &[&str], origin: Option<&str>) -> Result<(), Foreign> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut headers = HeaderMap::new();
        for host in host {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        KnownHosts::new(&hosts).check(&uri.parse().unwrap(), &headers)
    }

    #[test]
    fn addresses_localhost_and_listed_names_are_accepted() {
        for host in [
            "localhost",
            "LOCALHOST:8089",
            "127.0.0.1:8089",
            "127.1.2.3",
            "[::1]:8089",
            "10.0.0.7:8089",
            "[fd00::7]",
            "informant.example.com:8089",
        ] {
            assert_eq!(check(&["Informant.example.com"], "/", &[host], None), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_and_unclear_hosts_are_refused() {
        for host in [
            "evil.example.com",
            "localhost.evil.example.com",
            "127.0.0.1.evil.example.com",
            "evil.example.com:8089",
            "localhost.",
            "",
            "127.0.0.1@evil.example.com",
            "[::1",
        ] {
            assert!(check(&[], "/", &[host], None).is_err(), "{host}");
        }
        assert!(check(&[], "/", &[], None).is_err(), "no host");
        assert!(check(&[], "/", &["localhost", "evil.example.com"], None).is_err());
        assert!(check(&[], "http://evil.example.com/", &["localhost"], None).is_err());
        assert_eq!(check(&[], "http://localhost:1/", &["localhost:1"], None), Ok(()));
    }

    #[test]
    fn origins_have_to_be_the_host_itself_or_listed() {
        let check = |origin| check(&["console.example.com"], "/", &["localhost:8089"], Some(origin));
        assert_eq!(check("http://localhost:8089"), Ok(()));
        assert_eq!(check("https://console.example.com"), Ok(()));
        for origin in [
            "null",
            "https://evil.example.com",
            "http://localhost:3000",
            "http://203.0.113.5",
            "file://",
            "",
        ] {
            assert!(check(origin).is_err(), "{origin}");
        }
    }
}
