//! `[http] proxy`: requests go through a proxy, https in a tunnel.

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use informant_config::HttpSection;
use informant_plugin_host::{HttpError, HttpErrorCode};
use tokio::net::TcpStream;

use super::connect::Destination;

/// The proxy, and what does not go through it.
pub(super) struct Proxy(Matcher);

pub(super) struct ProxyHop(Intercept);

impl Proxy {
    pub(super) fn new(section: &HttpSection) -> Option<Proxy> {
        let proxy = section.proxy.as_deref()?;
        let matcher = Matcher::builder().all(proxy).no(section.no_proxy.join(",")).build();
        Some(Proxy(matcher))
    }

    /// The proxy for `url`; none: it is reached directly.
    pub(super) fn hop(&self, url: &Uri) -> Option<ProxyHop> {
        self.0.intercept(url).map(ProxyHop)
    }
}

impl ProxyHop {
    pub(super) fn url(&self) -> &Uri {
        self.0.uri()
    }

    /// The value of Proxy-Authorization, if the proxy's URL has user information.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        self.0.basic_auth().cloned()
    }

    /// Opens a tunnel to `destination` through the proxy at the other end of `socket`.
    pub(super) async fn tunnel(
        &self,
        socket: TcpStream,
        destination: &Destination<'_>,
    ) -> Result<TokioIo<Upgraded>, HttpError> {
        let refused = |problem: String| {
            let message = format!("the proxy ([http] proxy) opens no tunnel: {problem}");
            HttpError::new(HttpErrorCode::Connect, message)
        };
        let broken = |error: hyper::Error| refused(error.to_string());
        let (mut sender, driver) = http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
        let authority = format!("{}:{}", destination.host, destination.port);
        let mut request = Request::connect(&authority).header(header::HOST, &authority);
        if let Some(value) = self.authorization() {
            request = request.header(header::PROXY_AUTHORIZATION, value);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| refused(error.to_string()))?;
        let opened = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            if !response.status().is_success() {
                return Err(refused(format!("it answered {}", response.status())));
            }
            hyper::upgrade::on(response).await.map_err(broken)
        };
        // The driver ends when the connection is upgraded.
        let (opened, _driven) = tokio::join!(opened, driver.with_upgrades());
        opened.map(TokioIo::new)
    }
}
