"""What the SDK asks of Informant, in plain Python types. In a component the bindings implement it, in tests a fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

#: The version of the contract that this SDK is made for.
CONTRACT = "0.3.0"

#: The roles of the contract that the SDK can play.
ROLES = ("event-handler", "reconciler", "timer-handler", "sync-handler", "index-funcs", "state")

#: Levels of the contract's log, in its order.
TRACE, DEBUG, INFO, WARN, ERROR = range(5)
LEVELS = ("trace", "debug", "info", "warn", "error")

#: Reasons of calls, in the contract's order.
REASONS = (
    "initial",
    "watch",
    "relist",
    "resync",
    "replay",
    "requeue",
    "reconfigured",
    "restored",
    "requeue-after",
    "trigger",
    "related",
    "takeover",
    "other",
)

#: Labels of a metric, as names and values.
Labels = Sequence["tuple[str, str]"]


class SourceInfo(NamedTuple):
    """What is known of a source."""

    id: int
    state: str
    informer: str
    cluster: str
    api_version: str
    kind: str
    resource: str
    namespace: str | None
    namespaced: bool
    partial: bool


class Address(NamedTuple):
    """An object of the API server or, with an empty name, the objects in a namespace."""

    cluster: str
    resource: str
    namespace: str
    name: str
    subresource: str = ""


class Owner(NamedTuple):
    """The object that is reconciled, to which others belong."""

    source: int
    namespace: str
    name: str
    uid: str


class Child(NamedTuple):
    """An object that belongs to the one that is reconciled."""

    object: bytes
    #: Whether everything but metadata and status becomes as it is in ``object``, or only the fields there are applied.
    whole: bool


class Children(NamedTuple):
    """What ``kube.children`` does once the call has succeeded."""

    #: How many objects are written, unless they turn out to be as they should.
    written: int
    #: How many are deleted: they belong to the object, and are no longer among its children.
    pruned: int
    #: Objects that exist and belong to somebody else: they stay as they are. ``Secret web/a``.
    refused: list[str]
    #: Why none is deleted, such as a source that is not live. ``None``: all that have to be are.
    prune_skipped: str | None


class Regarding(NamedTuple):
    """An object that a Kubernetes Event is about. As text it is ``Pod web/a``."""

    cluster: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Query(NamedTuple):
    """Which objects of an informer to read."""

    sources: list[int]
    namespace: str | None
    label_selector: str
    pointers: list[str]
    limit: int
    cursor: str


class Host(Protocol):
    """The imports of the contract. Errors are ``HostError``, ``KubeError`` and ``HttpError``."""

    def log(self, level: int, message: str, fields: list[tuple[str, str]]) -> None: ...

    def source(self, id: int) -> SourceInfo: ...
    def sources(self, informer: str) -> list[SourceInfo]: ...
    def version(self, source: int) -> tuple[str, bool]: ...
    def get(self, source: int, namespace: str, name: str, pointers: list[str]) -> bytes | None: ...
    def find(self, informer: str, namespace: str, name: str, pointers: list[str]) -> tuple[int, bytes] | None: ...
    def list_objects(self, informer: str, query: Query) -> tuple[list[tuple[int, bytes]], str]: ...
    def by_index(self, informer: str, index: str, value: str, query: Query) -> tuple[list[tuple[int, bytes]], str]: ...
    def index_keys(self, informer: str, sources: list[int], index: str, value: str) -> list[tuple[int, str, str]]: ...
    def index_values(self, informer: str, sources: list[int], index: str, cursor: str, limit: int) -> list[str]: ...

    def kube_get(self, address: Address) -> bytes: ...
    def kube_list(self, address: Address, options: bytes) -> tuple[list[bytes], str]: ...
    def kube_create(self, address: Address, object: bytes, options: bytes, deferred: bool) -> bytes | None: ...
    def kube_update(self, address: Address, object: bytes, options: bytes, deferred: bool) -> bytes | None: ...
    def kube_patch(
        self, address: Address, kind: str, document: bytes, options: bytes, deferred: bool
    ) -> bytes | None: ...
    def kube_delete(self, address: Address, options: bytes, deferred: bool) -> None: ...
    def kube_children(self, owner: Owner, children: list[Child]) -> Children: ...

    def kv_get(self, key: str) -> bytes | None: ...
    def kv_set(self, key: str, value: bytes) -> None: ...
    def kv_set_if_absent(self, key: str, value: bytes) -> bool: ...
    def kv_delete(self, key: str) -> None: ...
    def kv_list(self, prefix: str, cursor: str, limit: int) -> list[str]: ...

    def metrics_add(self, name: str, amount: float, labels: Labels) -> None: ...
    def metrics_set(self, name: str, value: float, labels: Labels) -> None: ...
    def metrics_observe(self, name: str, value: float, labels: Labels) -> None: ...
    def metrics_replace(self, name: str, samples: Sequence[tuple[float, Labels]]) -> None: ...

    def recorder_event(
        self, about: Regarding, related: Regarding | None, type: str, reason: str, action: str, note: str
    ) -> None: ...

    def http_send(self, request: HttpRequest) -> HttpAnswer: ...


class HttpRequest(NamedTuple):
    """A request: one exchange, without redirects."""

    method: str
    scheme: str
    authority: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    #: Seconds; ``None`` leaves the limit to config.toml.
    timeout: float | None

    @property
    def origin(self) -> str:
        """Scheme, host and port. Not the path: paths of webhooks are secrets."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.origin}{self.path}"


class HttpAnswer(NamedTuple):
    """A response, with its whole body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _NoHost:
    """The host of code that runs outside of a call."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "Informant is not there: this code runs outside of a call. In a component the top level runs when it is "
            "built: use @on.startup. In a test, create an informant.testing.Driver first"
        )


#: The host of the current call.
active: Host = _NoHost()


def use(host: Host) -> Host:
    """Makes calls of the SDK go to this host. Returns the previous one."""
    global active
    previous, active = active, host
    return previous
