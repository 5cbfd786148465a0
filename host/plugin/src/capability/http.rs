//! `wasi:http/outgoing-handler`: lets a guest send HTTP requests.
//!
//! ```text
//! guest ─▶ URL readable in one way? ─▶ granted? ─▶ host open? ─▶ in-flight, rate ─▶ HttpClient ─▶ bounded body
//! ```
//!
//! Promises: nothing is sent that config.toml does not grant; all waits of a call together end before the guest's own
//! call reaches its time limit, with an error; waiting is not charged to the guest's CPU time; what the host holds for
//! a guest is bounded. Requests from `index`, `describe`, `init`, `save` and `restore` are always denied. wasi:http has
//! codes for errors, but no messages: those are written to the plugin's log. While another replica acts, requests other
//! than GET and HEAD are refused.

mod address;
mod body;
pub(crate) mod client;
mod link;
mod metrics;
mod plugin;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use informant_cache::Moment;
use informant_spec::{HttpGrant, HttpTarget, PluginSpec};
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error as WasiError, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx,
    WasiHttpCtxView, WasiHttpHooks,
};

pub use self::address::forbidden_address;
use self::body::{RequestBody, ResponseBody};
use self::client::{HttpCall, HttpError, HttpErrorCode};
use self::metrics::{HttpLimit, HttpResult, HttpSeries};
pub use self::plugin::ClosedHost;
pub(crate) use self::plugin::HttpPlugin;
use crate::bindings::informant::plugin::log::Level;
use crate::capability::HasCapabilities;
use crate::capability::parts::{CallEnd, CallPart, CallStart, Capability, Current, InstanceParts, PluginParts};
use crate::capability::permission::MayUse;
use crate::capture::{HttpTape, Tape};
use crate::effects::acting::NotActing;
use crate::engine::wait::{self, CallTime};
use crate::observed::{CallCause, CurrentCause, Effect, EffectKind};
use crate::output::Output;
use crate::series::Live;
use crate::sync::lock;

/// Requests of one plugin that may start at once before `limits.http` slows them down: 100.
pub(crate) const HTTP_BURST: u32 = 100;

/// Bytes of a set of headers that a guest makes, as they are in memory: 16 KiB. More is a trap.
pub(crate) const HTTP_FIELDS_BYTES_MAX: usize = 16 << 10;

/// Bytes of a request's body that a guest may write at once: 64 KiB. So much waits in the host for each body.
pub(crate) const HTTP_CHUNK_BYTES_MAX: usize = 64 << 10;

/// The longest time that a host which asked for a pause is closed to a plugin: 1 h.
pub(crate) const HTTP_CLOSED_MAX: Duration = Duration::from_secs(60 * 60);

/// Hosts that are closed to one plugin at once: 100. Further ones stay open.
pub(crate) const HTTP_CLOSED_HOSTS_MAX: usize = 100;

/// The result of a request to which a service answered that it did not do it: 4xx and 5xx.
const ERROR_STATUS: &str = "error-status";

/// Headers that guests may not set besides wasmtime's: they would change how the message is framed or forwarded.
const FORBIDDEN_HEADERS: [HeaderName; 4] = [header::TE, header::TRAILER, header::EXPECT, header::FORWARDED];

/// HTTP as one instance sees it.
pub(crate) struct HttpCaller {
    hooks: HttpHooks,
    /// wasmtime's state.
    context: WasiHttpCtx,
}

/// Sends HTTP requests for one instance: the hooks of wasmtime's implementation.
struct HttpHooks {
    plugin: Arc<HttpPlugin>,
    grants: Arc<Current<Vec<HttpGrant>>>,
    may_use: MayUse,
    time: CallTime,
    output: Output,
    tape: Tape,
    cause: CurrentCause,
    /// Hosts that asked for a pause in the current call, once it has sent a request.
    pauses: Option<Pauses>,
}

/// Hosts that asked for a pause, and how long if they said it in seconds.
type Pauses = Arc<Mutex<Vec<(String, Option<Duration>)>>>;

type WasiSent = Box<dyn Future<Output = Result<(), WasiError>> + Send>;
type WasiAnswer = Box<dyn Future<Output = Result<(Response<WasiBody>, WasiSent), WasiError>> + Send>;

/// A request that is granted.
struct GrantedRequest {
    plugin: Arc<HttpPlugin>,
    grants: Arc<Current<Vec<HttpGrant>>>,
    grant: HttpGrant,
    target: HttpTarget,
    request: Request<WasiBody>,
    /// Until the end of the response.
    time_max: Duration,
    /// Until its beginning.
    head_max: Duration,
    /// Between parts of its body, if the guest limits that.
    silence_max: Option<Duration>,
    pauses: Pauses,
    tape: HttpTape,
    cause: Option<Arc<CallCause>>,
}

/// The code of an error that a body ended with.
fn body_error_code(error: &wasmtime::Error) -> Option<ErrorCode> {
    if let Some(code) = error.downcast_ref::<ErrorCode>() {
        return Some(code.clone());
    }
    match error.downcast_ref::<WasiError>()? {
        WasiError::HttpResponseTimeout => Some(ErrorCode::HttpResponseTimeout),
        WasiError::ConnectionReadTimeout => Some(ErrorCode::ConnectionReadTimeout),
        WasiError::HttpResponseBodySize(bytes) => Some(ErrorCode::HttpResponseBodySize(*bytes)),
        WasiError::HttpResponseIncomplete => Some(ErrorCode::HttpResponseIncomplete),
        WasiError::HttpProtocolError => Some(ErrorCode::HttpProtocolError),
        other => Some(ErrorCode::InternalError(Some(other.to_string()))),
    }
}

impl Capability for HttpPlugin {
    const INTERFACE: Option<&'static str> = None;

    type Host = Live<HttpSeries>;
    type Grants = Vec<HttpGrant>;
    type Call = HttpCaller;

    fn grants(spec: &PluginSpec) -> Vec<HttpGrant> {
        spec.allow_http.clone()
    }

    fn new(host: &Self::Host, _grants: &Arc<Current<Self::Grants>>, plugin: &PluginParts<'_>) -> HttpPlugin {
        HttpPlugin::of(host.of(plugin.plugin), plugin)
    }

    fn configure(&self, spec: &PluginSpec, _grants: &Arc<Current<Self::Grants>>, _now: Moment) {
        self.set_limits(spec.limits);
    }

    fn call(self: &Arc<Self>, grants: &Arc<Current<Self::Grants>>, instance: &InstanceParts<'_>) -> HttpCaller {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(HTTP_FIELDS_BYTES_MAX);
        let hooks = HttpHooks {
            plugin: Arc::clone(self),
            grants: Arc::clone(grants),
            may_use: Ok(()),
            time: instance.time.clone(),
            output: instance.output.clone(),
            tape: instance.tape.clone(),
            cause: instance.cause.clone(),
            pauses: None,
        };
        HttpCaller { hooks, context }
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
        link::link(linker)
    }
}

impl CallPart for HttpCaller {
    type Effects = ();

    fn begin(&mut self, call: CallStart) {
        self.hooks.may_use = call.may_use;
        // A request of an earlier call that still runs has its own reference.
        self.hooks.pauses = None;
    }

    /// If the call asks to be retried after some time, closes the hosts that asked for a pause in it, each for the
    /// seconds that it named. After a date or no word at all, what the plugin made of it counts.
    fn finish(&mut self, end: CallEnd) {
        if let (CallEnd::RetryAfter(delay), Some(pauses)) = (end, self.hooks.pauses.take()) {
            let pauses = std::mem::take(&mut *lock(&pauses)).into_iter();
            let closed = pauses.map(|(host, asked)| (host, asked.unwrap_or(delay)));
            self.hooks.plugin.close(closed);
        }
    }
}

impl HttpCaller {
    /// For wasmtime, with the handles of the instance.
    pub(crate) fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView {
            hooks: &mut self.hooks,
            table,
            ctx: &mut self.context,
        }
    }
}

impl HttpHooks {
    /// Checks a request. Everything is refused that is not granted.
    fn authorize(&mut self, request: Request<WasiBody>, options: RequestOptions) -> Result<GrantedRequest, HttpError> {
        self.may_use
            .map_err(|reason| HttpError::new(HttpErrorCode::Denied, reason))?;
        let (plugin, grants) = (&self.plugin, &self.grants);
        let (target, grant) = granted(&plugin.plugin, &request, &grants.get())
            .inspect_err(|denied| plugin.series.count("", HttpResult::Failed(denied.code), None))?;
        let time_max = self.time.left().min(plugin.limits().http_time);
        let head_max = options.first_byte_timeout.map_or(time_max, |max| {
            time_max.min(max.saturating_add(options.connect_timeout.unwrap_or_default()))
        });
        Ok(GrantedRequest {
            tape: self.tape.http(&request),
            cause: self.cause.get(),
            plugin: Arc::clone(plugin),
            grants: Arc::clone(grants),
            grant,
            target,
            request,
            time_max,
            head_max,
            silence_max: options.between_bytes_timeout,
            pauses: Arc::clone(self.pauses.get_or_insert_default()),
        })
    }
}

impl WasiHttpHooks for HttpHooks {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| DEFAULT_FORBIDDEN_HEADERS.contains(name) || FORBIDDEN_HEADERS.contains(name))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        HTTP_CHUNK_BYTES_MAX
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: WasiSent,
    ) -> WasiAnswer {
        let granted = self.authorize(request, options.unwrap_or_default());
        let output = self.output.clone();
        Box::new(async move {
            let answer = match granted {
                Ok(granted) => granted.send().await,
                Err(denied) => Err(denied),
            };
            match answer {
                Ok(response) => Ok((response, Box::new(std::future::ready(Ok(()))) as WasiSent)),
                Err(error) => {
                    output.log(Level::Warn, &format!("HTTP request failed: {error}"), &[], None);
                    Err(wasi_error(error))
                }
            }
        })
    }
}

/// TRACE, which some servers call TRACK, would show the guest the headers that Informant sets; CONNECT is a tunnel to
/// anywhere. Methods are case-sensitive, but not every server and proxy reads them so.
fn is_forbidden(method: &Method) -> bool {
    let is = |name: &&str| method.as_str().eq_ignore_ascii_case(name);
    ["CONNECT", "TRACE", "TRACK"].iter().any(is)
}

/// The grant that allows a request, and what it is for.
fn granted(
    plugin: &str,
    request: &Request<WasiBody>,
    grants: &[HttpGrant],
) -> Result<(HttpTarget, HttpGrant), HttpError> {
    let deny = |message: String| Err(HttpError::new(HttpErrorCode::Denied, message));
    if is_forbidden(request.method()) {
        return deny(format!("the method {} is not allowed", request.method()));
    }
    let target = match HttpTarget::parse(request.uri()) {
        Ok(target) => target,
        Err(why) => return deny(format!("the URL of the request {why}")),
    };
    match target.granted_by(grants) {
        Ok(Some(grant)) => Ok((target, grant.clone())),
        Ok(None) if target.has_granted_origin(grants) => deny(format!(
            "{target} is granted, but not with the path of this request (allow.http)"
        )),
        Ok(None) => deny(format!(
            "{target} is not granted; in config.toml, set in [plugin.{plugin}]: allow.http = [\"{target}\"]"
        )),
        Err(why) => deny(format!("the path of a request to {target} {why}")),
    }
}

impl GrantedRequest {
    /// Sends the request, and waits for its response to begin.
    async fn send(self) -> Result<Response<WasiBody>, HttpError> {
        let (plugin, host) = (Arc::clone(&self.plugin), self.grant.host_and_port());
        let tape = self.tape.clone();
        if let Some(left) = plugin.closed_for(&self.target.host()) {
            plugin.series.count(&host, HttpResult::Closed, None);
            let response = closed(left);
            tape.response(&response);
            return Ok(response);
        }
        let (began, head_max) = (plugin.env.now(), self.head_max);
        let target = self.target.to_string();
        let answer = wait::at_most(&*plugin.env, head_max, self.exchange())
            .await
            .unwrap_or_else(|_late| {
                plugin.series.count_limited(HttpLimit::Time);
                Err(timed_out("the response"))
            });
        let result = match &answer {
            Ok(Some(response)) => HttpResult::Status(response.status()),
            Ok(None) => HttpResult::Withheld,
            Err(error) => HttpResult::Failed(error.code),
        };
        let took = (result != HttpResult::Withheld).then(|| plugin.env.now() - began);
        plugin.series.count(&host, result, took);
        let answer = answer.map(|response| response.unwrap_or_else(|| self::answer(StatusCode::ACCEPTED)));
        match &answer {
            Ok(response) => tape.response(response),
            Err(error) => tape.failed(error.code.as_str()),
        }
        answer.map_err(|error| HttpError::new(error.code, format!("{target}: {error}")))
    }

    fn may_change_something(&self) -> bool {
        !matches!(*self.request.method(), Method::GET | Method::HEAD)
    }

    /// In dry run, whether the request may change something. Then it is recorded.
    fn is_withheld(&self) -> bool {
        let effects = &self.plugin.dry_run;
        let is_withheld = effects.is_dry_run() && self.may_change_something();
        if is_withheld {
            effects.record(self.effect());
        }
        is_withheld
    }

    fn effect(&self) -> Effect {
        // The query is left out: it may hold a secret.
        let target = format!("{}{}", self.target, self.request.uri().path());
        Effect {
            grant: format!("allow.http = [{:?}]", self.grant.host_and_port()),
            cause: self.cause.clone(),
            ..Effect::new(EffectKind::Http, self.request.method().as_str(), target)
        }
    }

    /// None: it is withheld, which takes as long as a request must wait for its start.
    async fn exchange(self) -> Result<Option<Response<WasiBody>>, HttpError> {
        let began = self.plugin.env.now();
        let permit = self.plugin.admit().await;
        // A grant may be gone after the wait, or have other headers.
        let still_granted = granted(&self.plugin.plugin, &self.request, &self.grants.get());
        let (_, grant) = still_granted.map_err(|_| {
            let message = "its grant was removed while the request waited (allow.http)";
            HttpError::new(HttpErrorCode::Denied, message)
        })?;
        if let Some(left) = self.plugin.closed_for(&self.target.host()) {
            return Ok(Some(closed(left)));
        }
        if self.is_withheld() {
            return Ok(None);
        }
        let effect = self.plugin.dry_run.is_observed().then(|| self.effect());
        let waited = self.plugin.env.now() - began;
        let mut time_max = self.time_max.saturating_sub(waited);
        if self.may_change_something() {
            let about = self.cause.as_deref().and_then(CallCause::about);
            let admitted = self.plugin.dry_run.admit(EffectKind::Http, about);
            let refused = |why: NotActing| HttpError::new(HttpErrorCode::Unavailable, why.to_string());
            time_max = time_max.min(admitted.map_err(refused)?);
        }
        let (sent, plugin) = (self.plugin.env.now(), self.plugin);
        let Some(client) = &plugin.client else {
            let message = "no network: requests need `informant run`";
            return Err(HttpError::new(HttpErrorCode::Unavailable, message));
        };
        let limits = plugin.limits();
        let call = HttpCall {
            plugin: Arc::clone(&plugin.plugin),
            request: self.request.map(|inner| {
                RequestBody {
                    inner,
                    left: limits.http_request_bytes,
                    plugin: Arc::clone(&plugin),
                    tape: self.tape.clone(),
                }
                .boxed_unsync()
            }),
            address: self.target.address(),
            header_files: grant.header_files,
            time_max,
            permit,
        };
        let response = wait::at_most(&*plugin.env, time_max, client.send(call)).await;
        let response = response.unwrap_or_else(|_late| Err(timed_out("the response")));
        if let Some(effect) = effect {
            plugin.dry_run.made(|| answered(effect, &response));
        }
        let response = response?;
        if matches!(
            response.status(),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            lock(&self.pauses).push((self.target.host(), retry_after(response.headers())));
        }
        let late = plugin.env.sleep(time_max.saturating_sub(plugin.env.now() - sent));
        Ok(Some(response.map(|inner| {
            ResponseBody {
                inner,
                left: limits.http_response_bytes,
                late,
                silence_max: self.silence_max,
                silent: None,
                plugin,
                tape: self.tape,
            }
            .boxed_unsync()
        })))
    }
}

/// For how long, if that is in seconds. A date is left to the plugin.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?;
    seconds.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Informant's own response for a host that is closed to the plugin.
fn closed(left: Duration) -> Response<WasiBody> {
    let mut response = answer(StatusCode::TOO_MANY_REQUESTS);
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response
}

/// The effect of a request that was sent.
fn answered<B>(effect: Effect, response: &Result<Response<B>, HttpError>) -> Effect {
    match response.as_ref().map(Response::status) {
        Ok(status) if status.is_client_error() || status.is_server_error() => Effect {
            error: Some(format!("answered {status}")),
            result: ERROR_STATUS,
            detail: status.to_string(),
            ..effect
        },
        Ok(status) => Effect {
            detail: status.to_string(),
            ..effect
        },
        Err(error) => Effect {
            error: Some(error.to_string()),
            result: error.code.as_str(),
            ..effect
        },
    }
}

/// A response of Informant's own, without a body.
fn answer(status: StatusCode) -> Response<WasiBody> {
    let body = Empty::new().map_err(|never: std::convert::Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}

fn timed_out(what: &str) -> HttpError {
    let message = format!("{what} took too long (limits.http-time, or nine tenths of limits.call)");
    HttpError::new(HttpErrorCode::Timeout, message)
}

/// The code that the guest receives.
fn wasi_error(error: HttpError) -> WasiError {
    match error.code {
        HttpErrorCode::Denied => WasiError::HttpRequestDenied,
        HttpErrorCode::Address => WasiError::DestinationIpProhibited,
        HttpErrorCode::Dns => WasiError::DnsError {
            rcode: None,
            info_code: None,
        },
        HttpErrorCode::Connect => WasiError::ConnectionRefused,
        HttpErrorCode::ConnectTimeout => WasiError::ConnectionTimeout,
        HttpErrorCode::Certificate => WasiError::TlsCertificateError,
        HttpErrorCode::Tls => WasiError::TlsProtocolError,
        HttpErrorCode::Timeout => WasiError::HttpResponseTimeout,
        HttpErrorCode::RequestTooLarge => WasiError::HttpRequestBodySize(None),
        HttpErrorCode::ResponseTooLarge => WasiError::HttpResponseBodySize(None),
        HttpErrorCode::Interrupted => WasiError::HttpResponseIncomplete,
        HttpErrorCode::Protocol => WasiError::HttpProtocolError,
        HttpErrorCode::HeaderFile => WasiError::ConfigurationError,
        HttpErrorCode::Unavailable => WasiError::DestinationUnavailable,
    }
}

#[cfg(test)]
mod tests;
