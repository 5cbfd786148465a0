//! Grants of HTTP: `allow.http`, as scheme, host, port and path prefix.
//!
//! ```text
//! config.toml, allow.http ─▶ [HttpGrant] ◀─ checked for each request: the most specific one that matches
//! ```
//! A request's URL must be readable in one way only. Numeric hosts, trailing dots and user information are refused
//! whatever is granted. An address is granted only by its own URL. Pure.

mod host;
mod path;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use http::{HeaderName, Uri};

use self::host::{HostPattern, UrlHost};

/// One entry of `allow.http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGrant {
    origin: Origin<HostPattern>,
    /// The normalized segments of the path prefix.
    prefix: Vec<Vec<u8>>,
    /// The URL as it is written.
    url: String,
    /// Headers that Informant sets in each request, with the file that contains the value of each.
    pub header_files: Vec<(HeaderName, PathBuf)>,
}

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin<H> {
    is_https: bool,
    host: H,
    port: u16,
}

/// The URL of a request, as far as grants look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    origin: Origin<UrlHost>,
    path: String,
}

/// Why a text is not a grant. Continues a sentence that names its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the URL {0}")]
pub struct HttpGrantError(&'static str);

impl HttpGrant {
    /// Parses a URL: `https://hooks.slack.com/services/T000/`, `http://*.svc:8080`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<HttpGrant, HttpGrantError> {
        // A wildcard is no host name; a name in its place leaves the rest to the parser.
        let (written, is_wildcard) = match url.split_once("://*.") {
            Some((scheme, rest)) => (format!("{scheme}://{rest}"), true),
            None => (url.to_owned(), false),
        };
        if written.contains('*') {
            return Err(HttpGrantError(
                "has a wildcard that is not the first label; only `*.` before a name is one",
            ));
        }
        let invalid = "is invalid; write https://HOST, with :PORT and /PATH if they matter";
        let uri: Uri = written.parse().map_err(|_| HttpGrantError(invalid))?;
        let has_fragment = written.contains('#');
        if uri.query().is_some() || has_fragment {
            return Err(HttpGrantError("has a query or a fragment; grants end with the path"));
        }
        let wildcard = if is_wildcard { "*." } else { "" };
        let origin =
            Origin::parse(&uri, |host| HostPattern::parse(&format!("{wildcard}{host}"))).map_err(HttpGrantError)?;
        let mut prefix = path::segments(uri.path()).map_err(HttpGrantError)?;
        if prefix.last().is_some_and(Vec::is_empty) {
            prefix.pop();
        }
        if prefix.iter().any(Vec::is_empty) {
            return Err(HttpGrantError("has an empty segment in its path"));
        }
        Ok(HttpGrant {
            origin,
            prefix,
            url: url.to_owned(),
            header_files: Vec::new(),
        })
    }

    /// The URL as it is written.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is for one host, and not for all below a name.
    #[must_use]
    pub fn is_for_one_host(&self) -> bool {
        self.origin.host.is_exact()
    }

    /// The host as it is granted: a name, `*.` and a name, or an address.
    #[must_use]
    pub fn host(&self) -> String {
        self.origin.host.to_string()
    }

    /// Host and port as they are granted, for metrics: each grant has one.
    pub fn host_and_port(&self) -> String {
        self.origin.host_and_port()
    }

    fn has_origin(&self, target: &HttpTarget) -> bool {
        let (own, other) = (&self.origin, &target.origin);
        own.is_https == other.is_https && own.port == other.port && own.host.matches(&other.host)
    }

    /// Whether it allows a request for `target`; the error continues a sentence.
    fn allows(&self, target: &HttpTarget) -> Result<bool, &'static str> {
        if !self.has_origin(target) {
            return Ok(false);
        }
        // Without a prefix there is nothing to escape from.
        Ok(self.prefix.is_empty() || path::segments(&target.path)?.starts_with(&self.prefix))
    }
}

impl<H> Origin<H> {
    /// The error continues a sentence.
    fn parse(uri: &Uri, host: impl FnOnce(&str) -> Result<H, &'static str>) -> Result<Origin<H>, &'static str> {
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err("has another scheme than http and https"),
            None => return Err("has no scheme: http or https"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("has user information; set a header instead");
        }
        let port = match (authority.port_u16(), is_https) {
            (Some(0), _) => return Err("has port 0"),
            (Some(port), _) => port,
            (None, _) if authority.as_str().len() > authority.host().len() => return Err("has an invalid port"),
            (None, true) => 443,
            (None, false) => 80,
        };
        let host = host(authority.host())?;
        Ok(Origin { is_https, host, port })
    }
}

impl<H: fmt::Display> Origin<H> {
    fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl HttpTarget {
    /// Reads the URL of a request. The error continues a sentence.
    pub fn parse(uri: &Uri) -> Result<HttpTarget, &'static str> {
        Ok(HttpTarget {
            origin: Origin::parse(uri, UrlHost::parse)?,
            path: uri.path().to_owned(),
        })
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.origin.host_and_port()
    }

    /// The address that it has instead of a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.origin.host.address()
    }

    /// The grant that allows it: of several the most specific, an exact host before others, then the longest prefix.
    /// None: there is none. The error continues a sentence.
    pub fn granted_by<'g>(&self, grants: &'g [HttpGrant]) -> Result<Option<&'g HttpGrant>, &'static str> {
        let mut best: Option<&HttpGrant> = None;
        for grant in grants {
            let rank = |grant: &HttpGrant| {
                (
                    grant.origin.host.is_exact(),
                    grant.prefix.len(),
                    grant.origin.host.to_string().len(),
                )
            };
            if grant.allows(self)? && best.is_none_or(|best| rank(best) < rank(grant)) {
                best = Some(grant);
            }
        }
        Ok(best)
    }

    /// Whether a grant has its origin, but another path.
    pub fn has_granted_origin(&self, grants: &[HttpGrant]) -> bool {
        grants.iter().any(|grant| grant.has_origin(self))
    }
}

/// Scheme, host, and the port if it is not the scheme's. No path: paths of webhooks are secrets.
impl fmt::Display for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { is_https, host, port } = &self.origin;
        let (scheme, usual) = if *is_https { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{host}")?;
        match *port == usual {
            true => Ok(()),
            false => write!(f, ":{port}"),
        }
    }
}

#[cfg(test)]
mod tests;
