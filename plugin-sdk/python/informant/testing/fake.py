"""Informant in a test: the imports of the contract, over the objects that the test has put."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

from .. import events
from ..errors import HostError, HttpError, KubeError
from ..host import (
    LEVELS,
    Address,
    Child,
    Children,
    HttpAnswer,
    HttpRequest,
    Labels,
    Owner,
    Query,
    Regarding,
    SourceInfo,
)
from . import selector
from .children import set_children
from .cluster import Cluster
from .projection import project

#: As in Informant.
KEY_BYTES_MAX = 512
VALUE_BYTES_MAX = 256 << 10
KV_BYTES_MAX = 1 << 20
KV_KEY_BYTES = 64
LIST_MAX = 1_000
PAGE_BYTES_MAX = 1 << 20
CALL_EVENTS_MAX = 100
REASON_BYTES_MAX = 128
NOTE_BYTES_MAX = 1_024

_CAMEL_CASE = re.compile("[A-Z][A-Za-z0-9]*")

#: Which calls of Informant may use what.
_ALLOWED = {
    "handler": {"store", "kube", "kv", "metrics", "recorder", "http"},
    "init": {"kv"},
}


class LogLine(NamedTuple):
    """A line of the log."""

    level: str
    message: str
    fields: dict[str, str] = {}  # noqa: RUF012

    def __str__(self) -> str:
        return f"{self.level}: {self.message}"


class Read(NamedTuple):
    """A read of the cache."""

    #: ``get``, ``find``, ``list``, ``by_index``, ``index_keys`` or ``index_values``.
    function: str
    informer: str
    #: The other arguments.
    arguments: tuple[Any, ...]


class RecordedEvent(NamedTuple):
    """A Kubernetes Event that the plugin recorded. As text it is ``Warning Crashing Pod web/a: 5 restarts``."""

    #: ``Normal`` or ``Warning``.
    type: str
    reason: str
    action: str
    note: str
    #: As text it is ``Pod web/a``.
    regarding: Regarding
    related: Regarding | None

    def __str__(self) -> str:
        return f"{self.type} {self.reason} {self.regarding}: {self.note}"


class Keys(MutableMapping[str, Any]):
    """What the plugin remembers: values by key, as JSON values."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    def __getitem__(self, key: str) -> Any:
        return json.loads(self.rows[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self.rows[key] = json.dumps(value).encode()

    def __delitem__(self, key: str) -> None:
        del self.rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return repr({key: self[key] for key in self})


#: The values of an object in an index.
IndexFunction = Callable[[Any], "list[str]"]


class FakeHost:
    """What a plugin in a test asks."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.logs: list[LogLine] = []
        self.reads: list[Read] = []
        self.requests: list[HttpRequest] = []
        self.events: list[RecordedEvent] = []
        #: Those of the current call.
        self.recorded: list[RecordedEvent] = []
        self.keys = Keys()
        self.declared: dict[str, dict[str, Any]] = {}
        self.series: dict[tuple[str, tuple[tuple[str, str], ...]], float | list[float]] = {}
        self.indexes: dict[tuple[str, str], IndexFunction] = {}
        #: How the test adds an index, given the informer, the name and a pointer.
        self.index_remedy: Callable[[str, str, str], str] = 'add it with driver.add_index("{}", "{}", "{}")'.format
        #: The plugin's own indexes.
        self.own_index: Callable[[Any], dict[str, list[str]]] | None = None
        self.own_indexes: set[str] = set()
        #: The name of the plugin, and the member ``reconciler`` of its manifest.
        self.plugin = "test"
        self.reconciler: dict[str, Any] | None = None
        #: Of the current call of a reconciler.
        self.cache_is_behind = False
        self.has_children = False
        self.service: Callable[[HttpRequest], Any] | None = None
        self.store_error: HostError | None = None
        self.kube_error: KubeError | None = None
        self.kv_error: HostError | None = None
        self.events_error: HostError | None = None
        self.phase = "describe"
        self.is_index = False
        self.page_bytes_max = PAGE_BYTES_MAX
        self._saved: Any = None

    # --- calls ---

    def begin(self, phase: str) -> None:
        """A call of the plugin begins."""
        self.phase = phase
        self._saved = (dict(self.keys.rows), copy.deepcopy(self.series))
        self.cluster.deferred.clear()
        self.recorded = []
        self.has_children = False

    def end(self, has_succeeded: bool) -> None:
        """A call has ended: keeps what it changed if it succeeded."""
        self.phase = ""
        if has_succeeded:
            self.events += self.recorded
        else:
            self.keys.rows, self.series = self._saved
            self.cluster.deferred.clear()
        self.recorded = []

    def _check(self, interface: str) -> None:
        if interface not in _ALLOWED.get(self.phase, ()) or (self.is_index and self.phase == "init"):
            where = "an index function" if self.phase == "index" else self.phase or "code outside of a call"
            message = f"{interface} cannot be used in {where}"
            if interface == "kube":
                raise KubeError("not-here", message)
            raise HostError("not-here", message)
        if interface == "kv" and self.kv_error is not None:
            raise HostError(self.kv_error.code, str(self.kv_error))

    # --- log ---

    def log(self, level: int, message: str, fields: list[tuple[str, str]]) -> None:
        self.logs.append(LogLine(LEVELS[level], message, dict(fields)))

    # --- store ---

    def _store(self) -> None:
        self._check("store")
        if self.store_error is not None:
            raise HostError(self.store_error.code, str(self.store_error))

    def source(self, id: int) -> SourceInfo:
        self._check("store")
        if not 0 <= id < len(self.cluster.sources):
            raise HostError("not-found", f"there is no source {id}")
        return self.cluster.sources[id]

    def sources(self, informer: str) -> list[SourceInfo]:
        self._check("store")
        found = [info for info in self.cluster.sources if info.informer == informer]
        if not found:
            raise HostError("unknown-informer", f"no informer named {informer!r} in this test: call add_source")
        return found

    def version(self, source: int) -> tuple[str, bool]:
        self.source(source)
        return self.cluster.version, True

    def get(self, source: int, namespace: str, name: str, pointers: list[str]) -> bytes | None:
        self._store()
        self.reads.append(Read("get", self.source(source).informer, (namespace, name, pointers)))
        return _shown(self.cluster.objects.get((source, namespace, name)), pointers)

    def find(self, informer: str, namespace: str, name: str, pointers: list[str]) -> tuple[int, bytes] | None:
        self._store()
        self.reads.append(Read("find", informer, (namespace, name, pointers)))
        sources = self.sources(informer)
        cluster = sources[0].cluster
        if events.current_source is not None:
            cluster = self.cluster.sources[events.current_source].cluster
        elif len({info.cluster for info in sources}) > 1:
            message = f"informer {informer!r} has several clusters, and this call is about no object"
            raise HostError("invalid", message)
        if len({info.kind for info in sources}) > 1:
            raise HostError("invalid", f"informer {informer!r} has several kinds")
        here = [info.id for info in sources if info.cluster == cluster]
        if not here:
            raise HostError("not-ready", f"informer {informer!r} has no source in cluster {cluster!r}")
        for source in here:
            document = _shown(self.cluster.objects.get((source, namespace, name)), pointers)
            if document is not None:
                return source, document
        return None

    def list_objects(self, informer: str, query: Query) -> tuple[list[tuple[int, bytes]], str]:
        self._store()
        self.reads.append(Read("list", informer, (query.namespace, query.label_selector, query.pointers)))
        return self._page(informer, query, lambda object: True)

    def by_index(self, informer: str, index: str, value: str, query: Query) -> tuple[list[tuple[int, bytes]], str]:
        self._store()
        self.reads.append(Read("by_index", informer, (index, value, query.namespace)))
        values = self._index(informer, index)
        return self._page(informer, query, lambda object: value in values(object))

    def index_keys(self, informer: str, sources: list[int], index: str, value: str) -> list[tuple[int, str, str]]:
        self._store()
        self.reads.append(Read("index_keys", informer, (index, value)))
        values = self._index(informer, index)
        return [key for key, object in self._objects(informer, sources) if value in values(object)]

    def index_values(self, informer: str, sources: list[int], index: str, cursor: str, limit: int) -> list[str]:
        self._store()
        self.reads.append(Read("index_values", informer, (index,)))
        values = self._index(informer, index)
        found = sorted({value for _, object in self._objects(informer, sources) for value in values(object)})
        return [value for value in found if not cursor or value > cursor][: limit or LIST_MAX]

    def _index(self, informer: str, index: str) -> IndexFunction:
        known = self.indexes.get((informer, index))
        if known is not None:
            return known
        if index == "namespace":
            # The informer's own index.
            return lambda object: [object["metadata"].get("namespace") or ""]
        own = self.own_index
        if own is None or index not in self.own_indexes:
            pointer = "/metadata/ownerReferences/*/uid" if index == "owner" else "/path/of/the/value"
            remedy = self.index_remedy(informer, index, pointer)
            raise HostError("unknown-index", f"informer {informer!r} has no index {index!r} in this test; {remedy}")
        return lambda object: own(object).get(index, [])

    def _objects(self, informer: str, sources: list[int]) -> list[tuple[Any, Any]]:
        ids = [info.id for info in self.sources(informer)]
        stray = [source for source in sources if source not in ids]
        if stray:
            raise HostError("invalid", f"informer {informer!r} has no source {stray[0]}")
        wanted = sources or ids
        return [(key, object) for key, object in sorted(self.cluster.objects.items()) if key[0] in wanted]

    def _page(self, informer: str, query: Query, fits: Callable[[Any], bool]) -> tuple[list[tuple[int, bytes]], str]:
        try:
            selector.parse(query.label_selector)
        except ValueError as error:
            raise HostError("invalid", str(error)) from None
        items: list[tuple[int, bytes]] = []
        size, last = 0, ""
        for key, object in self._objects(informer, query.sources):
            cursor = f"{key[0]:010}/{key[1]}/{key[2]}"
            if cursor <= query.cursor or query.namespace not in (None, key[1]):
                continue
            if not selector.matches(query.label_selector, object) or not fits(object):
                continue
            document = _shown(object, query.pointers) or b""
            size += len(document)
            if (query.limit and len(items) == query.limit) or (items and size > self.page_bytes_max):
                return items, last
            last = cursor
            items.append((key[0], document))
        return items, ""

    # --- kube ---

    def _kube(self) -> None:
        self._check("kube")
        if self.kube_error is not None:
            raise self.kube_error

    def kube_get(self, address: Address) -> bytes:
        self._kube()
        return self.cluster.get(address)

    def kube_list(self, address: Address, options: bytes) -> tuple[list[bytes], str]:
        self._kube()
        return self.cluster.list(address, options)

    def kube_create(self, address: Address, object: bytes, options: bytes, deferred: bool) -> bytes | None:
        return self._write("create", deferred, address, object, options)

    def kube_update(self, address: Address, object: bytes, options: bytes, deferred: bool) -> bytes | None:
        return self._write("update", deferred, address, object, options)

    def kube_patch(self, address: Address, kind: str, document: bytes, options: bytes, deferred: bool) -> bytes | None:
        return self._write("patch", deferred, address, kind, document, options)

    def kube_delete(self, address: Address, options: bytes, deferred: bool) -> None:
        self._write("delete", deferred, address, options)

    def kube_children(self, owner: Owner, children: list[Child]) -> Children:
        self._kube()
        if self.has_children:
            raise KubeError("invalid", "the call has set its children already: set all of them at once")
        self.has_children = True
        if self.reconciler is None or events.current_source != owner.source:
            raise KubeError("not-here", "only reconcile has children: those of the object that it is about")
        owns = self.reconciler.get("owns", [])
        return set_children(
            self.cluster, owner, children, owns=owns, plugin=self.plugin, is_behind=self.cache_is_behind
        )

    def _write(self, verb: str, deferred: bool, address: Address, *arguments: Any) -> bytes | None:
        self._kube()
        if deferred:
            self.cluster.defer(verb, address, *arguments)
            return None
        written: bytes | None = self.cluster.send(verb, address, *arguments)
        return written

    # --- kv ---

    def kv_get(self, key: str) -> bytes | None:
        self._key(key)
        return self.keys.rows.get(key)

    def kv_set(self, key: str, value: bytes) -> None:
        self._key(key)
        if len(value) > VALUE_BYTES_MAX:
            message = f"the value of {key!r} has {len(value)} bytes, and a value may have {VALUE_BYTES_MAX}"
            raise HostError("too-large", message)
        rows = {**self.keys.rows, key: value}
        used = sum(len(name.encode()) + len(content) + KV_KEY_BYTES for name, content in rows.items())
        if used > KV_BYTES_MAX:
            raise HostError("exhausted", f"all keys and values have {used} bytes, and may have {KV_BYTES_MAX}")
        self.keys.rows = rows

    def kv_set_if_absent(self, key: str, value: bytes) -> bool:
        if self.kv_get(key) is not None:
            return False
        self.kv_set(key, value)
        return True

    def kv_delete(self, key: str) -> None:
        self._key(key)
        self.keys.rows.pop(key, None)

    def kv_list(self, prefix: str, cursor: str, limit: int) -> list[str]:
        self._check("kv")
        found = sorted(key for key in self.keys.rows if key.startswith(prefix) and key > cursor)
        return found[: min(limit or LIST_MAX, LIST_MAX)]

    def _key(self, key: str) -> None:
        self._check("kv")
        size = len(key.encode())
        if size == 0:
            raise HostError("invalid", "the key is empty")
        if size > KEY_BYTES_MAX:
            raise HostError("invalid", f"the key has {size} bytes, and may have {KEY_BYTES_MAX}")
        if "\0" in key:
            raise HostError("invalid", f"the key {key!r} contains NUL")

    # --- metrics ---

    def metrics_add(self, name: str, amount: float, labels: Labels) -> None:
        series = self._series(name, ("counter", "gauge"), labels)
        if self.declared[name]["type"] == "counter" and amount < 0:
            raise HostError("invalid", f"the amount for a counter is not negative: {amount}")
        before: Any = self.series.get(series, 0.0)
        self.series[series] = before + _finite(amount)

    def metrics_set(self, name: str, value: float, labels: Labels) -> None:
        self.series[self._series(name, ("gauge",), labels)] = _finite(value)

    def metrics_observe(self, name: str, value: float, labels: Labels) -> None:
        observed: Any = self.series.setdefault(self._series(name, ("histogram",), labels), [])
        observed.append(_finite(value))

    def metrics_replace(self, name: str, samples: Sequence[tuple[float, Labels]]) -> None:
        rows = {self._series(name, ("gauge",), labels): _finite(value) for value, labels in samples}
        if not samples:
            self._series(name, ("gauge",), None)
        self.series = {series: value for series, value in self.series.items() if series[0] != name}
        self.series.update(rows)

    def _series(self, name: str, types: tuple[str, ...], labels: Labels | None) -> Any:
        self._check("metrics")
        declared = self.declared.get(name)
        if declared is None:
            raise HostError("invalid", f"the manifest does not declare the metric {name!r}")
        if declared["type"] not in types:
            raise HostError("invalid", f"the metric {name!r} is a {declared['type']}")
        given = sorted(label for label, _ in labels or ())
        if labels is not None and given != sorted(declared.get("labels", [])):
            wanted = declared.get("labels", [])
            raise HostError("invalid", f"the metric {name!r} has the labels {wanted}, not {given}")
        return name, tuple(sorted(labels or ()))

    # --- recorder ---

    def recorder_event(
        self, about: Regarding, related: Regarding | None, type: str, reason: str, action: str, note: str
    ) -> None:
        self._check("recorder")
        if self.events_error is not None:
            raise HostError(self.events_error.code, str(self.events_error))
        for member, value in (("reason", reason), ("action", action)):
            if _CAMEL_CASE.fullmatch(value) is None or len(value) > REASON_BYTES_MAX:
                message = f"the {member} {value!r} is not CamelCase of at most {REASON_BYTES_MAX} bytes"
                raise HostError("invalid", message)
        if len(self.recorded) == CALL_EVENTS_MAX:
            raise HostError("too-large", f"a call can record at most {CALL_EVENTS_MAX} Events")
        note = note.encode()[:NOTE_BYTES_MAX].decode(errors="ignore")
        self.recorded.append(RecordedEvent(type, reason, action, note, about, related))

    # --- http ---

    def http_send(self, request: HttpRequest) -> HttpAnswer:
        if self.service is None or self.phase != "handler":
            raise HttpError("denied", "not granted (allow.http): call Driver.serve_http in the test")
        self.requests.append(request)
        answer = self.service(request)
        if isinstance(answer, int):
            answer = (answer, {}, b"")
        status, headers, body = answer
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        content = body.encode() if isinstance(body, str) else bytes(body)
        return HttpAnswer(status, list(dict(headers).items()), content)


def _finite(value: float) -> float:
    if value - value != 0:
        raise HostError("invalid", f"a value must be a finite number, not {value}")
    return value


def _shown(object: Any, pointers: list[str]) -> bytes | None:
    if object is None:
        return None
    return json.dumps(project(object, pointers) if pointers else object, ensure_ascii=False).encode()
