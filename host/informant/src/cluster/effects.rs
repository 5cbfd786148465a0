//! Connections for the effects of plugins: they carry bytes only while this process acts.
//!
//! ```text
//! request ─▶ kube's layers ─┬─ an Effect ─▶ TLS ─▶ proxy ─▶ GatedIo ─▶ socket
//!                           └─ any other ─▶ TLS ─▶ proxy ─▶ socket
//! ```
//! A process may be stopped between any two instructions (SIGSTOP, a virtual machine that is moved), for longer than
//! its Lease lasts. So the gate is asked as late as a process can: when a connection gives bytes to the kernel.
//! Connections of reads, which a standby also needs, are others.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::TryFutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioExecutor;
use informant_plugin_host::{ActingGate, ActsFor, NotActing};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use crate::kube_api::Effect;

/// The gate of the connections of effects; none where no other replica can act.
pub(crate) type EffectGate = Option<Arc<dyn ActingGate>>;

/// The client of a cluster, with connections of their own for [effects](Effect) if there is a gate. Reads
/// certificates, and may run the program of an auth provider.
///
/// # Errors
/// Those of kube: unusable certificates, credentials or proxies.
pub(super) fn client(config: Config, gate: EffectGate) -> kube::Result<Client> {
    if gate.is_none() {
        return Client::try_from(config);
    }
    let sockets = || [socket(None), socket(gate.clone())];
    let Some(proxy) = config.proxy_url.clone() else {
        return stack(&config, sockets());
    };
    match proxy.scheme_str() {
        Some("http") => stack(&config, sockets().map(|socket| tunnel(&proxy, socket))),
        Some("https") => {
            let [others, effects] = sockets().map(|socket| config.rustls_https_connector_with_connector(socket));
            stack(&config, [others?, effects?].map(|socket| tunnel(&proxy, socket)))
        }
        Some("socks5") => stack(&config, sockets().map(|socket| SocksV5::new(proxy.clone(), socket))),
        _ => Err(kube::Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(proxy),
        }),
    }
}

/// What kube's `ClientBuilder` makes but its tracing, with two senders. They share one login: a refresh token of OIDC
/// may be used once.
fn stack<C>(config: &Config, [others, effects]: [C; 2]) -> kube::Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let (others, effects) = (sender(config, others)?, sender(config, effects)?);
    let senders = service_fn(
        move |request: Request<Body>| match request.extensions().get::<Effect>() {
            Some(Effect) => effects(request),
            None => others(request),
        },
    );
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(senders);
    Ok(Client::new(service, config.default_namespace.clone()))
}

fn sender<C>(
    config: &Config,
    connector: C,
) -> kube::Result<impl Fn(Request<Body>) -> ResponseFuture + Clone + Send + Sync + use<C>>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    let client: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    Ok(move |request| client.request(request))
}

fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    match credentials(proxy) {
        Some(credentials) => tunnel.with_auth(credentials),
        None => tunnel,
    }
}

/// The value of `Proxy-Authorization`, if the proxy's URL has user information.
fn credentials(proxy: &Uri) -> Option<HeaderValue> {
    let matcher = Matcher::builder().all(proxy.to_string()).build();
    let any = Uri::from_static("https://any.invalid");
    matcher.intercept(&any)?.basic_auth().cloned()
}

/// Connects sockets behind this gate.
#[derive(Clone)]
struct Sockets {
    tcp: HttpConnector,
    gate: EffectGate,
}

fn socket(gate: EffectGate) -> Sockets {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    Sockets { tcp, gate }
}

impl Service<Uri> for Sockets {
    type Response = GatedIo<<HttpConnector as Service<Uri>>::Response>;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let gate = self.gate.clone();
        Box::pin(self.tcp.call(to).map_ok(|io| GatedIo { io, gate }))
    }
}

/// A socket that refuses bytes while the gate is closed.
struct GatedIo<T> {
    io: T,
    gate: EffectGate,
}

impl<T> GatedIo<T> {
    fn ask(&self) -> io::Result<()> {
        // A connection carries the requests of many objects.
        let may_act = |gate: &Arc<dyn ActingGate>| gate.remaining(ActsFor::AnyShard).is_some();
        match self.gate.as_ref().is_none_or(may_act) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, NotActing)),
        }
    }
}

impl<T: Read + Unpin> Read for GatedIo<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for GatedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<T: Connection> Connection for GatedIo<T> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}

#[cfg(test)]
mod tests;
