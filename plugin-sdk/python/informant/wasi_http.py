"""Requests over wasi:http."""

from __future__ import annotations

from typing import Any

from componentize_py_types import Err, Ok
from wit_world.imports import outgoing_handler, streams
from wit_world.imports import wasi_http_types as wasi

from .errors import HttpError
from .host import HttpAnswer, HttpRequest

#: Bytes of a body that are read at once, and written at once: Informant accepts as many.
READ_BYTES = 64 << 10
WRITE_BYTES = 4 << 10

_METHODS: dict[str, Any] = {
    "GET": wasi.Method_Get,
    "HEAD": wasi.Method_Head,
    "POST": wasi.Method_Post,
    "PUT": wasi.Method_Put,
    "DELETE": wasi.Method_Delete,
    "OPTIONS": wasi.Method_Options,
    "PATCH": wasi.Method_Patch,
}

#: The codes are those in the metrics of the host.
_CODES: dict[Any, tuple[str, str]] = {
    wasi.ErrorCode_HttpRequestDenied: (
        "denied",
        "not granted; the log names the line for config.toml, or the reason",
    ),
    wasi.ErrorCode_DestinationIpProhibited: ("address", "its name resolves to an address that plugins must not reach"),
    wasi.ErrorCode_DnsError: ("dns", "its name cannot be resolved"),
    wasi.ErrorCode_DnsTimeout: ("dns", "its name cannot be resolved"),
    wasi.ErrorCode_DestinationNotFound: ("dns", "its name cannot be resolved"),
    wasi.ErrorCode_ConnectionRefused: ("connect", "no connection"),
    wasi.ErrorCode_ConnectionTimeout: ("connect-timeout", "no connection in time"),
    wasi.ErrorCode_TlsCertificateError: ("certificate", "its certificate is not valid"),
    wasi.ErrorCode_TlsProtocolError: ("tls", "the TLS handshake failed"),
    wasi.ErrorCode_TlsAlertReceived: ("tls", "the TLS handshake failed"),
    wasi.ErrorCode_HttpRequestBodySize: (
        "request-too-large",
        "the body of the request exceeds limits.http-request",
    ),
    wasi.ErrorCode_HttpResponseBodySize: (
        "response-too-large",
        "the body of the response exceeds limits.http-response",
    ),
    wasi.ErrorCode_ConfigurationError: ("header-file", "the file of a header cannot be used; the log names it"),
    wasi.ErrorCode_DestinationUnavailable: ("unavailable", "Informant is stopping, or has no network"),
}

_LATE = (
    wasi.ErrorCode_HttpResponseTimeout,
    wasi.ErrorCode_ConnectionReadTimeout,
    wasi.ErrorCode_ConnectionWriteTimeout,
)
_BROKEN = (wasi.ErrorCode_HttpResponseIncomplete, wasi.ErrorCode_ConnectionTerminated)


def send(request: HttpRequest) -> HttpAnswer:
    """Sends a request, and reads its whole response."""
    outgoing = _outgoing(request)
    upload = outgoing.body() if request.body else None
    try:
        pending = outgoing_handler.handle(outgoing, _options(request.timeout))
    except Err as error:
        raise _failure(error.value) from None
    with pending:
        if upload is not None:
            _write(upload, request.body)
        with pending.subscribe() as ready:
            ready.block()
        answer = pending.get()
    if not isinstance(answer, Ok):
        raise _interrupted()
    if not isinstance(answer.value, Ok):
        raise _failure(answer.value.value)
    return _read(answer.value.value)


def _outgoing(request: HttpRequest) -> Any:
    fields = wasi.Fields()
    headers = list(request.headers)
    if request.body:
        # Informant checks it against the body, and needs no chunks.
        headers = [(name, value) for name, value in headers if name != "content-length"]
        headers.append(("content-length", str(len(request.body))))
    for name, value in headers:
        try:
            fields.append(name, value.encode())
        except Err as error:
            is_forbidden = isinstance(error.value, wasi.HeaderError_Forbidden)
            why = (
                f"plugins cannot set the header {name}"
                if is_forbidden
                else f"the header {name} or its value is invalid"
            )
            raise HttpError("invalid", why) from None
    outgoing = wasi.OutgoingRequest(fields)
    method = _METHODS.get(request.method)
    scheme = wasi.Scheme_Https() if request.scheme == "https" else wasi.Scheme_Http()
    try:
        outgoing.set_method(wasi.Method_Other(request.method) if method is None else method())
        outgoing.set_scheme(scheme)
        outgoing.set_authority(request.authority)
        outgoing.set_path_with_query(request.path)
    except Err:
        raise HttpError("invalid", "its method or URL has characters that are not allowed") from None
    return outgoing


def _options(timeout: float | None) -> Any:
    if timeout is None:
        return None
    options = wasi.RequestOptions()
    nanoseconds = max(int(timeout * 1e9), 1)
    options.set_connect_timeout(nanoseconds)
    options.set_first_byte_timeout(nanoseconds)
    options.set_between_bytes_timeout(nanoseconds)
    return options


def _write(body: Any, content: bytes) -> None:
    """Writes the body. If that fails, the response has the reason."""
    try:
        with body.write() as stream:
            for at in range(0, len(content), WRITE_BYTES):
                stream.blocking_write_and_flush(content[at : at + WRITE_BYTES])
        wasi.OutgoingBody.finish(body, None)
    except Err:
        pass


def _read(answer: Any) -> HttpAnswer:
    with answer:
        status = answer.status()
        with answer.headers() as fields:
            headers = [(name, value.decode("utf-8", "replace")) for name, value in fields.entries()]
        chunks = []
        with answer.consume() as body, body.stream() as stream:
            while True:
                try:
                    chunks.append(stream.blocking_read(READ_BYTES))
                except Err as error:
                    if isinstance(error.value, streams.StreamError_Closed):
                        break
                    code = wasi.http_error_code(error.value.value)
                    raise (_interrupted() if code is None else _failure(code)) from None
    return HttpAnswer(status, headers, b"".join(chunks))


def _interrupted() -> HttpError:
    return HttpError("interrupted", "the connection ended before the response did")


def _failure(code: Any) -> HttpError:
    if isinstance(code, _BROKEN):
        return _interrupted()
    if isinstance(code, _LATE):
        return HttpError("timeout", "no complete response in time (limits.http-time, or nine tenths of limits.call)")
    known = _CODES.get(type(code))
    if known is not None:
        return HttpError(*known)
    return HttpError("protocol", f"the request or the response is invalid ({type(code).__name__.split('_')[-1]})")
