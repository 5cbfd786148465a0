//! Which proxy the API server is reached through.
//!
//! A kubeconfig's `proxy-url` is always followed. What the environment names is followed as Go's programs do: never to
//! this machine itself, and not to what `NO_PROXY` lists. kube's client holds `NO_PROXY` against the proxy's own
//! address instead of the API server's.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;

/// Where kube looks for a proxy when the kubeconfig names none.
const VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];

/// The proxy to use, of the one that kube found.
pub(super) fn judge(config: &Config) -> Option<Uri> {
    let proxy = config.proxy_url.clone()?;
    let environment = VARIABLES.into_iter().filter_map(|name| std::env::var(name).ok());
    let is_of_environment = environment
        .into_iter()
        .any(|text| text.parse::<Uri>().is_ok_and(|uri| uri == proxy));
    (!is_of_environment || is_meant_for(&config.cluster_url, &Matcher::from_env())).then_some(proxy)
}

/// Whether the environment wants a proxy for requests to `url`.
fn is_meant_for(url: &Uri, environment: &Matcher) -> bool {
    !is_this_machine(url) && environment.intercept(url).is_some()
}

fn is_this_machine(url: &Uri) -> bool {
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
    fn a_proxy_of_the_environment_is_for_https_beyond_this_machine_and_no_proxy() {
        let environment = Matcher::builder()
            .https("http://proxy.example.com:3128")
            .no("10.0.0.0/8,.internal.example.com")
            .build();
        let meant = |url: &str| is_meant_for(&url.parse().unwrap(), &environment);
        assert!(meant("https://api.example.com:6443"));
        for url in [
            "https://10.96.0.1:443",
            "https://api.internal.example.com:6443",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
            "https://localhost:6443",
            "http://api.example.com:8080",
        ] {
            assert!(!meant(url), "{url}");
        }
    }
}
