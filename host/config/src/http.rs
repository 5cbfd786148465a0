//! `[http]`: how plugins' requests leave the machine, and the limits of one plugin's requests.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use informant_spec::Limits;

use crate::source::Located;
use crate::table::Table;

/// Most requests in flight.
const IN_FLIGHT_MAX: u64 = 1_000;
/// Most requests in a second.
const PER_SECOND_MAX: u64 = 100_000;
/// Least time of a request.
const TIME_MIN: Duration = Duration::from_millis(10);
/// Most time of a request: no call of a plugin takes longer.
const TIME_MAX: Duration = Duration::from_secs(600);
/// Least bytes of a body.
const BODY_BYTES_MIN: usize = 1 << 10;
/// Most bytes of a body: all that a guest can hold.
const BODY_BYTES_MAX: usize = 4 << 30;

/// How HTTP requests of plugins are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpSection {
    /// A file with more root certificates in PEM, resolved relative to the current folder.
    pub ca_file: Option<Located<PathBuf>>,
    /// The URL of a proxy; none: hosts are reached directly.
    pub proxy: Option<String>,
    /// Hosts, domains and networks that are reached directly even so.
    pub no_proxy: Vec<String>,
}

pub(crate) fn read(root: &Table<'_>) -> HttpSection {
    let Some(table) = root.table("http") else {
        return HttpSection::default();
    };
    let ca_file = table.string("ca-file").and_then(|path| {
        if path.value.is_empty() {
            let message = "`ca-file` is empty";
            let help = "name a file: ca-file = \"/etc/informant/ca.pem\"";
            table.refuse(path.position, message, help);
            return None;
        }
        Some(Located {
            value: root.file(path.value),
            position: path.position,
        })
    });
    let proxy = table.string("proxy").and_then(|url| {
        let is_http = |uri: &Uri| uri.scheme_str() == Some("http") && uri.host().is_some();
        if url.value.parse().is_ok_and(|uri| is_http(&uri)) {
            return Some(url.value);
        }
        // Not the value: it may contain a password.
        let message = "`proxy` is not the URL of a proxy";
        let help = "write proxy = \"http://proxy.example.com:3128\"";
        table.refuse(url.position, message, help);
        None
    });
    let no_proxy = table.strings("no-proxy").unwrap_or_default();
    if !no_proxy.is_empty() && !table.has("proxy") {
        let message = "`no-proxy` has no effect without `proxy`";
        let help = "add `proxy`, or remove it";
        table.refuse(table.value_position("no-proxy"), message, help);
    }
    for host in no_proxy.iter().filter(|host| !is_direct(&host.value)) {
        let message = format!("`no-proxy` has \"{}\", which is no host, domain or network", host.value);
        let help = "write a name without scheme, port and path, \".svc\" for all names below it, an address, or a network, \"10.0.0.0/8\"";
        table.refuse(host.position, message, help);
    }
    table.finish(&[]);
    HttpSection {
        ca_file,
        proxy,
        no_proxy: no_proxy.into_iter().map(|host| host.value).collect(),
    }
}

/// Whether an entry of `no-proxy` can match: a name, a domain with a dot before it, an address, a network, or `*`.
fn is_direct(entry: &str) -> bool {
    if entry == "*" || entry.parse::<IpAddr>().is_ok() {
        return true;
    }
    if let Some((address, bits)) = entry.split_once('/') {
        let bits_max = match address.parse() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        return bits.parse::<u8>().is_ok_and(|bits| bits <= bits_max);
    }
    let is_label = |label: &str| {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        !label.is_empty() && label.chars().all(is_part)
    };
    entry.strip_prefix('.').unwrap_or(entry).split('.').all(is_label)
}

/// The limits of a plugin's requests in `[plugin.NAME.limits]`, over those of `limits`.
pub(crate) fn read_limits(table: &Table<'_>, limits: Limits) -> Limits {
    let bytes = |key, default| {
        let bytes = table.size_bytes(key, BODY_BYTES_MIN..=BODY_BYTES_MAX);
        bytes.unwrap_or(default)
    };
    Limits {
        http_in_flight: table
            .integer("http-in-flight", 1..=IN_FLIGHT_MAX)
            .unwrap_or(limits.http_in_flight),
        http_per_second: table.rate("http", 1..=PER_SECOND_MAX).unwrap_or(limits.http_per_second),
        http_time: table
            .duration("http-time", TIME_MIN..=TIME_MAX)
            .unwrap_or(limits.http_time),
        http_request_bytes: bytes("http-request", limits.http_request_bytes),
        http_response_bytes: bytes("http-response", limits.http_response_bytes),
        ..limits
    }
}
