"""Sends HTTP requests to other services, where ``allow.http`` in config.toml grants it.

A request has its effect when it is sent, unlike deferred writes: if the handler fails afterwards, the event is retried
and the request is sent again. Send an idempotency key (``event.id``), or remember with ``kv`` what is done.
"""

from __future__ import annotations

# Python loads it by name, which a component cannot do when it runs: it has no files.
import encodings.utf_8_sig  # noqa: F401
import json as _json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from . import host as _host
from .errors import HttpError, Permanent, RetryAfter
from .host import HttpAnswer, HttpRequest

__all__ = ["Headers", "Response", "delete", "get", "patch", "post", "put", "request"]

#: How many redirects a request follows by default.
REDIRECTS_MAX = 5

#: The delay if a host asks for one without saying how long, and the longest that it may ask for, in seconds.
RETRY_AFTER_DEFAULT = 30
RETRY_AFTER_MAX = 3600

_REDIRECTS = (301, 302, 303, 307, 308)

#: What is said to one origin only, and what describes a body.
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})
_OF_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-location", "content-length"})

_EXCERPT_MAX = 200

#: Characters of a URL that are sent as they are; others are escaped.
_SAFE = "!#$%&'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz~"

Body = str | bytes | bytearray | memoryview


class Headers(Mapping[str, str]):
    """The headers of a response. Names are compared without their case; values of one name are joined by a comma."""

    def __init__(self, pairs: Any) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            key = str(name).lower()
            before = self._values.get(key)
            self._values[key] = str(value) if before is None else f"{before}, {value}"

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({sorted(self._values)})"


class Response:
    """A response, with its whole body. A response with any status is a success of the request: see ``ensure_ok``."""

    def __init__(self, request: HttpRequest, answer: HttpAnswer) -> None:
        self.status = answer.status
        self.headers = Headers(answer.headers)
        self.content = answer.body
        self.url = request.url
        self._origin = request.origin

    @property
    def ok(self) -> bool:
        """Whether the status is one of 200 to 299."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text in UTF-8, without a byte order mark."""
        return self.content.decode("utf-8-sig")

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return _json.loads(self.content)
        except ValueError as error:
            raise ValueError(f"{self._origin} answered {self.status} with a body that is not JSON ({error})") from None

    @property
    def retry_after(self) -> float | None:
        """How many seconds the server asks the client to wait: a number, or the time until a date."""
        return _retry_after(self.headers.get("retry-after", "").strip())

    def ensure_ok(self) -> Response:
        """This response, if its status is one of 200 to 299.

        Otherwise raises ``RetryAfter`` for 429 and 503, ``HttpError`` (retried) for 408, 425 and others from 500, and
        ``Permanent`` for any other.
        """
        if self.ok:
            return self
        excerpt = self.content[: 4 * _EXCERPT_MAX].decode("utf-8", "replace").strip()
        if len(excerpt) > _EXCERPT_MAX:
            excerpt = f"{excerpt[:_EXCERPT_MAX]}…"
        message = f"{self._origin} answered {self.status}{f': {excerpt}' if excerpt else ''}"
        if self.status in (429, 503):
            asked = self.retry_after
            raise RetryAfter(RETRY_AFTER_DEFAULT if asked is None else min(asked, RETRY_AFTER_MAX), message)
        if self.status >= 500 or self.status in (408, 425):
            raise HttpError("status", message, self.status)
        raise Permanent(message)

    def __repr__(self) -> str:
        return f"Response({self._origin}, {self.status}, {len(self.content)} bytes)"


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: Body | None = None,
    json: Any = None,
    timeout: float | None = None,
    redirects: int = REDIRECTS_MAX,
) -> Response:
    """Sends a request, and reads the whole response. Raises ``HttpError`` if there is none.

    ``timeout`` is in seconds, within the limits of config.toml. ``redirects=0`` returns a redirect.
    """
    method = method.upper()
    pairs = [(name.lower(), str(value)) for name, value in (headers or {}).items()]
    content = _content(method, body, json, pairs)
    scheme, authority, path = _parse(url)
    for followed in range(redirects + 1):
        sent = HttpRequest(method, scheme, authority, path, pairs, content, timeout)
        try:
            response = Response(sent, _host.active.http_send(sent))
        except HttpError as error:
            raise HttpError(error.code, f"{method} {sent.origin}: {error}") from None
        location = response.headers.get("location")
        if location is None or response.status not in _REDIRECTS or redirects == 0:
            return response
        if followed == redirects:
            raise HttpError("redirect", f"{method} {sent.origin}: more than {redirects} redirects")
        before = _origin(scheme, authority)
        scheme, authority, path = _parse(urljoin(sent.url, location))
        dropped: frozenset[str] = frozenset()
        if _origin(scheme, authority) != before:
            dropped |= _CREDENTIALS
        if (response.status == 303 and method != "HEAD") or (response.status < 303 and method == "POST"):
            method, content = "GET", b""
            dropped |= _OF_BODY
        pairs = [(name, value) for name, value in pairs if name not in dropped]
    raise AssertionError("unreachable")


def get(url: str, **options: Any) -> Response:
    """``request("GET", url, …)``."""
    return request("GET", url, **options)


def post(url: str, **options: Any) -> Response:
    """``request("POST", url, …)``."""
    return request("POST", url, **options)


def put(url: str, **options: Any) -> Response:
    """``request("PUT", url, …)``."""
    return request("PUT", url, **options)


def patch(url: str, **options: Any) -> Response:
    """``request("PATCH", url, …)``."""
    return request("PATCH", url, **options)


def delete(url: str, **options: Any) -> Response:
    """``request("DELETE", url, …)``."""
    return request("DELETE", url, **options)


def _content(method: str, body: Body | None, json: Any, pairs: list[tuple[str, str]]) -> bytes:
    """The body, whose type is added to the headers if they lack it."""
    if body is not None and json is not None:
        raise TypeError("http: pass either body or json")
    if body is None and json is None:
        return b""
    if method in ("GET", "HEAD"):
        raise TypeError(f"http: a {method} request has no body")
    content, type = b"", None
    if json is not None:
        content, type = _json.dumps(json, ensure_ascii=False).encode(), "application/json"
    elif isinstance(body, str):
        content, type = body.encode(), "text/plain;charset=UTF-8"
    elif isinstance(body, (bytes, bytearray, memoryview)):
        content = bytes(body)
    else:
        raise TypeError(f"http: the body must be a str or bytes, not {body!r}; for JSON, pass json=...")
    if type is not None and all(name != "content-type" for name, _ in pairs):
        pairs.append(("content-type", type))
    return content


def _parse(url: str) -> tuple[str, str, str]:
    """Scheme, authority, and path with query. A fragment is not sent."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise TypeError(f"http: {url!r} is not a URL that begins with http:// or https://")
    query = f"?{parts.query}" if parts.query else ""
    return parts.scheme, parts.netloc.lower(), quote((parts.path or "/") + query, safe=_SAFE)


def _origin(scheme: str, authority: str) -> str:
    return f"{scheme}://{re.sub(':443$' if scheme == 'https' else ':80$', '', authority)}"


def _retry_after(text: str) -> float | None:
    if text.isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError, IndexError):
        return None
