//! Connections for the effects of plugins: they carry bytes only while this process acts.
//!
//! ```text
//! request ─▶ Client ─┬─ an Effect ─▶ kube's layers ─▶ TLS ─▶ proxy ─▶ GatedIo ─▶ socket
//!                    └─ any other ─▶ kube's client
//! ```
//! A process may be stopped between any two instructions (SIGSTOP, a virtual machine that is moved), for longer than
//! its Lease lasts. So the gate is asked as late as a process can: when a connection gives bytes to the kernel.
//! Connections of reads, which a standby also needs, are others.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioExecutor;
use informant_plugin_host::{ActingGate, NotActing};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _, service_fn};

use super::CONNECT_MAX;

/// Marks a request that changes something on behalf of a plugin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect;

/// The gate of the connections of effects; none where no other replica can act.
pub(crate) type EffectGate = Option<Arc<dyn ActingGate>>;

/// The client of a cluster, with connections of their own for [effects](Effect) if there is a gate. Reads
/// certificates, and may run the program of an auth provider.
///
/// # Errors
/// Those of kube: unusable certificates, credentials or proxies.
pub(super) fn client(config: Config, gate: EffectGate) -> kube::Result<Client> {
    let Some(gate) = gate else {
        return Client::try_from(config);
    };
    let namespace = config.default_namespace.clone();
    let effects = Client::new(gated(&config, gate)?, namespace.clone());
    let others = Client::try_from(config)?;
    let service = service_fn(move |request: Request<Body>| {
        let client = match request.extensions().get::<Effect>() {
            Some(Effect) => effects.clone(),
            None => others.clone(),
        };
        async move { client.send(request).await }
    });
    Ok(Client::new(service, namespace))
}

type Stack = BoxService<Request<Body>, Response<Incoming>, BoxError>;

/// What kube's `ClientBuilder` makes, with a gate at the socket.
fn gated(config: &Config, gate: Arc<dyn ActingGate>) -> kube::Result<Stack> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_MAX));
    let socket = tcp.map_response(move |io| GatedIo {
        io,
        gate: Arc::clone(&gate),
    });
    let Some(proxy) = config.proxy_url.clone() else {
        return stack(config, socket);
    };
    match proxy.scheme_str() {
        Some("http") => stack(config, tunnel(proxy, socket)),
        Some("https") => stack(
            config,
            tunnel(proxy, config.rustls_https_connector_with_connector(socket)?),
        ),
        _ => Err(kube::Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(proxy),
        }),
    }
}

fn tunnel<C>(proxy: Uri, connector: C) -> Tunnel<C> {
    let credentials = credentials(&proxy);
    let tunnel = Tunnel::new(proxy, connector);
    match credentials {
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

fn stack<C>(config: &Config, connector: C) -> kube::Result<Stack>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let sender: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(sender);
    Ok(service.boxed())
}

/// A socket that refuses bytes while the gate is closed.
struct GatedIo<T> {
    io: T,
    gate: Arc<dyn ActingGate>,
}

impl<T> GatedIo<T> {
    fn ask(&self) -> io::Result<()> {
        match self.gate.remaining() {
            Some(_) => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::PermissionDenied, NotActing)),
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
