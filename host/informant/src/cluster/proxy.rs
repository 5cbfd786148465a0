//! Selects the proxy for the API server.
//! A kubeconfig's `proxy-url` is always used. A proxy of the environment is used as in Go programs: never for this host
//! itself, and not for what `NO_PROXY` lists. kube's client compares `NO_PROXY` with the proxy's own address instead of
//! the API server's.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;

/// Where kube looks for a proxy when the kubeconfig has none.
const VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];

/// The proxy to use, given the one that kube found.
pub(super) fn select(config: &Config) -> Option<Uri> {
    let proxy = config.proxy_url.clone()?;
    let environment = VARIABLES.into_iter().filter_map(|name| std::env::var(name).ok());
    let is_from_environment = environment
        .into_iter()
        .any(|text| text.parse::<Uri>().is_ok_and(|uri| uri == proxy));
    (!is_from_environment || applies_to(&config.cluster_url, &Matcher::from_env())).then_some(proxy)
}

/// Whether the environment sets a proxy for requests to `url`.
fn applies_to(url: &Uri, environment: &Matcher) -> bool {
    !is_loopback_host(url) && environment.intercept(url).is_some()
}

fn is_loopback_host(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_proxy_skips_plain_http_loopback_and_no_proxy() {
        let environment = Matcher::builder()
            .https("http://proxy.example.com:3128")
            .no("10.0.0.0/8,.internal.example.com")
            .build();
        let applies = |url: &str| applies_to(&url.parse().unwrap(), &environment);
        assert!(applies("https://api.example.com:6443"));
        for url in [
            "https://10.96.0.1:443",
            "https://api.internal.example.com:6443",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
            "https://localhost:6443",
            "http://api.example.com:8080",
        ] {
            assert!(!applies(url), "{url}");
        }
    }
}
