//! Hosts of URLs: names and addresses, and the patterns of grants. Pure.

use std::fmt;
use std::net::IpAddr;

/// The host of a URL, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UrlHost {
    Name(String),
    Address(IpAddr),
}

/// The hosts of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostPattern {
    Exact(UrlHost),
    /// Any number of labels before this name, but at least one.
    Under(String),
}

impl UrlHost {
    /// Parses the host of an authority, in brackets if it is an IPv6 address. The error continues a sentence.
    pub(super) fn parse(text: &str) -> Result<UrlHost, &'static str> {
        if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            let address = inner.parse().map_err(|_| "has an invalid IPv6 address")?;
            return Ok(UrlHost::Address(IpAddr::V6(address)));
        }
        let name = text.to_ascii_lowercase();
        if name.ends_with('.') {
            return Err("has a host that ends with a dot; remove the dot");
        }
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err("has an invalid host name");
        }
        match is_number(name.rsplit('.').next().unwrap_or_default()) {
            // Resolvers read 127.1, 0x7f000001 and 017700000001 as 127.0.0.1.
            true => match name.parse() {
                Ok(address) => Ok(UrlHost::Address(IpAddr::V4(address))),
                Err(_) => Err("has a number as its host; write an IPv4 address as four decimal numbers"),
            },
            false => Ok(UrlHost::Name(name)),
        }
    }

    /// Its address, if it is not a name.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            UrlHost::Name(_) => None,
            UrlHost::Address(address) => Some(*address),
        }
    }
}

/// Whether resolvers take a host whose last label is this for an address.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<HostPattern, &'static str> {
        let Some(under) = text.strip_prefix("*.") else {
            return UrlHost::parse(text).map(HostPattern::Exact);
        };
        match UrlHost::parse(under)? {
            UrlHost::Name(name) => Ok(HostPattern::Under(name)),
            UrlHost::Address(_) => Err("has an invalid host name"),
        }
    }

    pub(super) fn matches(&self, host: &UrlHost) -> bool {
        match (self, host) {
            (HostPattern::Exact(exact), host) => exact == host,
            (HostPattern::Under(under), UrlHost::Name(name)) => name
                .strip_suffix(under)
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (HostPattern::Under(_), UrlHost::Address(_)) => false,
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        matches!(self, HostPattern::Exact(_))
    }
}

impl fmt::Display for UrlHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlHost::Name(name) => f.write_str(name),
            UrlHost::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            UrlHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(host) => write!(f, "{host}"),
            HostPattern::Under(name) => write!(f, "*.{name}"),
        }
    }
}
