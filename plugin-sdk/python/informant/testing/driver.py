"""Calls a plugin as Informant does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from enum import Enum
from typing import Any, NamedTuple

from .. import blocked, events, logs, script
from .. import host as _host
from ..dispatch import Dispatcher, Failed
from ..errors import HostError, KubeError
from ..failure import failure_of
from ..host import CONTRACT, REASONS, ROLES, HttpRequest
from . import projection, selector
from .cluster import Write
from .fake import FakeHost, LogLine, Read, RecordedEvent

#: The most calls of ``Driver.settle``.
SETTLE_CALLS_MAX = 1_000

Reason = Enum("Reason", {name: number for number, name in enumerate(REASONS)})  # type: ignore[misc]


class ObjectRef(NamedTuple):
    """The object that a call is about, as in the contract."""

    source: int
    namespace: str
    name: str
    uid: str
    resource_version: str


class _Call(NamedTuple):
    reason: Any
    attempt: int


class _Request(NamedTuple):
    reason: Any
    attempt: int
    cache_is_behind: bool


class _Tick(NamedTuple):
    name: str
    scheduled: str
    missed: int
    attempt: int


class _Requeue(NamedTuple):
    seconds: float
    #: The last state, and whether it is not the final one, if the object was deleted.
    deleted: tuple[Any, bool] | None


class HandlerCall(NamedTuple):
    """A call of a handler, or of ``save`` and ``restore`` in a swap, with its result."""

    #: ``on-add``, ``on-update``, ``on-delete``, ``reconcile``, ``on-timer``, ``on-synced``, ``save`` or ``restore``.
    call: str
    #: ``v1/pods web/a``; of ``on-synced``, ``v1/pods``; ``None`` of ``on-timer``, ``save`` and ``restore``.
    object: str | None
    reason: str | None
    attempt: int | None
    #: ``ok``, ``retry`` or ``permanent``.
    result: str
    error: str | None
    #: Seconds, also of a failure that asked for a delay.
    requeue_after: float | None
    #: Of ``on-timer``: the name of the timer, and how many earlier runs were missed.
    timer: str | None = None
    missed: int | None = None


class Driver:
    """A running plugin, and the objects that it sees.

    The plugin receives objects as its manifest requests: only those kinds and fields, ``old`` if requested, and no
    unchanged payloads with ``changed_only``. So a test finds a field that is missing in ``fields``.

    A call that fails raises ``Failed``.
    """

    def __init__(
        self,
        plugin: str | os.PathLike[str],
        *,
        config: Mapping[str, Any] | None = None,
        name: str = "test",
        log_level: str | None = "trace",
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Starts the plugin in a file, with the ``config`` of its section in config.toml.

        The file is relative to the one that calls this function, or to the current folder. ``context`` sets other
        members of the context: ``because``, ``instance`` and so on.
        """
        self._folder = os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename))
        self._file = self._found(plugin)
        self._members = {"plugin": name, "config": dict(config or {}), **(context or {})}
        self._log_level = log_level
        self.host = FakeHost()
        self.manifest: dict[str, Any] = {}
        self._requeues: dict[tuple[int, str, str], _Requeue] = {}
        self._calls: list[HandlerCall] = []
        #: The types that informers of the plugin watch; ``None`` for all.
        self._watched: set[tuple[str, str]] | None = None
        self._indexer: Dispatcher | None = None
        self._instance = self._start("events", "start")

    # --- what the plugin did ---

    @property
    def writes(self) -> list[Write]:
        """The plugin's writes to the API server since ``clear``, without failed ones and dry runs."""
        return self.host.cluster.writes

    @property
    def logs(self) -> list[LogLine]:
        """The lines that the plugin logged since ``clear``, with their fields."""
        return self.host.logs

    @property
    def messages(self) -> list[str]:
        """The same lines as ``level: message``, without ``debug`` and ``trace``."""
        return [str(line) for line in self.logs if line.level not in ("debug", "trace")]

    @property
    def reads(self) -> list[Read]:
        """The plugin's reads of the cache since ``clear``."""
        return self.host.reads

    @property
    def requests(self) -> list[HttpRequest]:
        """The plugin's HTTP requests since ``clear``."""
        return self.host.requests

    @property
    def events(self) -> list[RecordedEvent]:
        """The Kubernetes Events that the plugin recorded since ``clear``, in calls that succeeded."""
        return self.host.events

    @property
    def calls(self) -> list[HandlerCall]:
        """The calls of handlers since ``clear``."""
        return self._calls

    @property
    def kv(self) -> Any:
        """What the plugin remembers: a mapping that the test may change."""
        return self.host.keys

    @property
    def requeues(self) -> dict[str, float]:
        """The keys of the objects for which the plugin asked to be called again, and after how many seconds."""
        return {_text(key): requeue.seconds for key, requeue in self._requeues.items()}

    @property
    def registry(self) -> Any:
        """What the plugin has registered."""
        return self._instance.registry

    @property
    def state(self) -> Any:
        """The unnamed state of the plugin."""
        return self.registry.states["state"][0]

    def metric(self, name: str, /, **labels: str) -> float | list[float] | None:
        """The value of a series, or ``None``. Of a histogram, the observed values."""
        return self.host.series.get((name, tuple(sorted((label, str(value)) for label, value in labels.items()))))

    def clear(self) -> None:
        """Forgets writes, logs, reads, requests, events and calls."""
        self.host.cluster.writes.clear()
        self.host.cluster.sent.clear()
        self._calls.clear()
        self.host.logs.clear()
        self.host.reads.clear()
        self.host.requests.clear()
        self.host.events.clear()

    # --- what the plugin meets ---

    def add_source(
        self, informer: str, api_version: str, kind: str, *, cluster: str = "", namespaced: bool = True
    ) -> int:
        """Adds a source to an informer. Without it, the informer of Pods is called ``pods``, and so on."""
        return self.host.cluster.add_source(informer, api_version, kind, cluster, namespaced).id

    def add(self, object: Mapping[str, Any], *, cluster: str | None = None) -> None:
        """Puts an object into the cache without a call of the plugin."""
        self.host.cluster.put(object, cluster)

    def add_index(self, informer: str, name: str, values: str | Callable[[Any], Any]) -> None:
        """Adds an index of config.toml, or of another plugin, to an informer. The plugin's own indexes are there.

        ``values`` is the JSON pointer in ``[informer.NAME.index]``, such as ``/metadata/ownerReferences/*/uid``, or a
        function of an object, which returns what an index function of a plugin returns.
        """
        self.host.indexes[(informer, name)] = projection.index_function(informer, name, values)

    def serve_http(self, service: Callable[[HttpRequest], Any]) -> None:
        """Answers HTTP requests: with a status, or with status, headers and body. Until then they are denied."""
        self.host.service = service

    def refuse_store(self, error: HostError | None) -> None:
        """Makes every read of the cache fail with this error; ``None`` ends that."""
        self.host.store_error = error

    def refuse_kube(self, error: KubeError | None) -> None:
        """Makes every call of ``kube`` fail with this error; ``None`` ends that."""
        self.host.kube_error = error

    def refuse_events(self, error: HostError | None) -> None:
        """Makes every Event that the plugin records fail with this error; ``None`` ends that."""
        self.host.events_error = error

    def object(self, key: str, kind: str | None = None) -> Any:
        """The object with this key, ``namespace/name``, as it is in the cache, or ``None``."""
        found = self._keys(key, kind)
        return self.host.cluster.objects[found[0]] if found else None

    # --- calls ---

    def put(
        self, object: Mapping[str, Any], *, cluster: str | None = None, reason: str = "watch", attempt: int = 0
    ) -> float | None:
        """Puts an object into the cache and calls the plugin: an add if the key is new, otherwise an update.

        An object with another uid is a delete and an add. Returns the seconds after which the plugin wants to be called
        again for the object.
        """
        key = self.host.cluster.key_of(object, cluster)
        before = self.host.cluster.objects.get(key)
        uid = (object.get("metadata") or {}).get("uid")
        if before is not None and uid is not None and uid != before["metadata"]["uid"]:
            self._delete(key, False, reason, attempt)
            before = None
        self.host.cluster.put(object, cluster)
        return self._deliver(key, before, self.host.cluster.objects[key], reason, attempt)

    def delete(
        self,
        object: Mapping[str, Any] | str,
        *,
        kind: str | None = None,
        final_state_unknown: bool = False,
        reason: str = "watch",
        attempt: int = 0,
    ) -> float | None:
        """Removes an object, or the one with this key (``namespace/name``), and calls the plugin."""
        if isinstance(object, str):
            found = self._keys(object, kind)
        else:
            found = [self.host.cluster.key_of(object)]
        if not found or found[0] not in self.host.cluster.objects:
            raise LookupError(f"the test deletes {object}, which is not in the cache")
        if len(found) > 1:
            raise LookupError(f"several objects have the key {object}: pass the kind, too")
        return self._delete(found[0], final_state_unknown, reason, attempt)

    def synced(self, informer: str | None = None) -> None:
        """Calls the plugin for each source of an informer, or of all: every object was attempted."""
        for info in self.host.cluster.sources:
            if informer in (None, info.informer):
                self._synced(info.id, 0)

    def replay(self) -> None:
        """Calls the plugin for each object of the cache, as after a restart."""
        self._requeues.clear()
        for key, object in sorted(self.host.cluster.objects.items()):
            if self._selects(object):
                self._upsert("replay", 0, key, True, None, object)

    def trigger(self, key: str, kind: str | None = None) -> float | None:
        """Calls the plugin for an object, as ``informant plugin trigger`` does."""
        found = self._keys(key, kind)
        if not found:
            raise LookupError(f"the test triggers {key}, which is not in the cache")
        return self._upsert("trigger", 0, found[0], False, None, self.host.cluster.objects[found[0]])

    def reconcile(
        self, key: str, *, reason: str = "watch", attempt: int = 0, cache_is_behind: bool = False
    ) -> float | None:
        """Reconciles an object (``namespace/name``), as it is in the cache; as one that is gone if it is not there.

        Returns the seconds after which the plugin wants to be called again.
        """
        rule = (self.manifest.get("reconciler") or {}).get("for")
        if rule is None:
            raise LookupError("the plugin reconciles nothing: no function has the decorator reconcile")
        found = self._keys(key, rule["kind"])
        object = self.host.cluster.objects[found[0]] if found else None
        where = found[0] if found else self._gone_key(key, rule)
        about = _about(where, object if object is not None else {"metadata": {}})
        document = None if object is None else projection.document(object, rule.get("payload", "whole"))
        request = _Request(Reason[reason], attempt, cache_is_behind)
        self.host.cache_is_behind = cache_is_behind

        def call() -> Any:
            with self._calling("handler"):
                return self._instance.reconcile(about, request, document)

        returned = self._recorded("reconcile", where, reason, attempt, call)
        return None if returned is None else returned / 1000

    def tick(self, timer: str, *, scheduled: datetime | None = None, missed: int = 0, attempt: int = 0) -> None:
        """Runs the timer with this name. Its schedule does not matter: the run is due when you call this.

        ``scheduled`` is by default now.
        """
        names = self._timers
        if not names:
            raise LookupError("the plugin has no timers: no function has the decorator timer")
        if timer not in names:
            raise LookupError(f"the plugin has no timer {timer!r}, only {', '.join(names)}")
        due = (scheduled or datetime.now(timezone.utc).replace(microsecond=0)).astimezone(timezone.utc)
        tick = _Tick(timer, due.isoformat().replace("+00:00", "Z"), missed, attempt)

        def call() -> None:
            with self._calling("handler"):
                self._instance.on_timer(tick)

        self._recorded("on-timer", None, None, attempt, call, timer=timer, missed=missed)

    @property
    def _timers(self) -> list[str]:
        return [timer["name"] for timer in self.manifest.get("timers", [])]

    def _gone_key(self, key: str, rule: Mapping[str, Any]) -> Any:
        sources = self.host.cluster.sources
        of_kind = (info.id for info in sources if (info.api_version, info.kind) == (rule["apiVersion"], rule["kind"]))
        namespace, _, name = key.rpartition("/")
        return (next(of_kind, 0), namespace, name)

    def run_requeues(self) -> int:
        """Makes the calls that the plugin asked for, without waiting, each once. Returns the number of calls."""
        due, self._requeues = self._requeues, {}
        for key, requeue in due.items():
            object = self.host.cluster.objects.get(key)
            if requeue.deleted is not None:
                self._call_delete("requeue-after", 0, key, *requeue.deleted)
            elif object is not None:
                self._upsert("requeue-after", 0, key, False, None, object)
        return len(due)

    def settle(self) -> int:
        """Delivers the events of the plugin's own writes until it stops writing. Returns the number of calls."""
        calls = 0
        while self.host.cluster.changed:
            changed, self.host.cluster.changed = self.host.cluster.changed, []
            for key, before in changed:
                calls += 1
                if calls > SETTLE_CALLS_MAX:
                    raise AssertionError(
                        f"the plugin still writes after {SETTLE_CALLS_MAX} calls: each write causes another; compare "
                        "before writing"
                    )
                now = self.host.cluster.objects.get(key)
                if now is not None:
                    self._deliver(key, before, now, "watch", 0)
                elif before is not None and self._selects(before):
                    self._call_delete("watch", 0, key, before, False)
        return calls

    def index(self, object: Mapping[str, Any]) -> dict[str, list[str]]:
        """
        The values of an object in the plugin's indexes. The object is not put into the cache. Raises ``Failed`` if the
        function does; an object of the cache on which it fails has no values.
        """
        rules = (self.manifest.get("indexes") or {}).get("objects", [])
        rule = _rule_of(rules, object)
        if rule is None:
            return {}
        if self._indexer is None:
            self._indexer = self._load("index", "start")
            with self._calling("init", is_index=True):
                self._indexer.init(self._context("index", "start"))
        about = _about(self.host.cluster.key_of(object), object)
        with self._calling("index", is_index=True):
            values = self._indexer.index(about, projection.document(object, rule.get("payload", "whole")))
        return dict(zip(self.manifest["indexes"]["names"], values, strict=True))

    def save(self) -> bytes:
        """The state that the plugin hands over to its next version."""
        with self._calling("save"):
            return self._instance.save()

    def swap(self, plugin: str | os.PathLike[str] | None = None, *, config: Mapping[str, Any] | None = None) -> None:
        """Replaces the plugin by another version, or by itself, which receives its state. The cache and ``kv`` stay.

        If the new version fails, the previous one keeps running.
        """
        saved = (
            self._recorded("save", None, None, None, self.save)
            if "state" in self.manifest.get("roles", ROLES)
            else None
        )
        before = (self._file, self._members, self.manifest, self._indexer)
        if plugin is not None:
            self._file = self._found(plugin)
        if config is not None:
            self._members = {**self._members, "config": dict(config)}
        try:
            instance = self._start("events", "swap")
            if saved is not None and "state" in self.manifest.get("roles", ROLES):
                self._recorded("restore", None, None, None, lambda: self._restore(instance, saved))
        except Failed:
            self._file, self._members, self.manifest, self._indexer = before
            self._declare()
            raise
        self._instance = instance

    # --- details ---

    def _restore(self, instance: Dispatcher, saved: bytes) -> None:
        with self._calling("restore"):
            instance.restore(saved)

    def _synced(self, source: int, attempt: int) -> None:
        def call() -> None:
            with self._calling("handler"):
                self._instance.on_synced(source, _Call(Reason["initial"], attempt))

        self._recorded("on-synced", (source,), "initial", attempt, call)

    def _recorded(
        self, name: str, key: Any, reason: str | None, attempt: int | None, call: Callable[[], Any], **of_timer: Any
    ) -> Any:
        """Makes a call, and keeps its result."""
        object = None if key is None else self.host.cluster.sources[key[0]].resource
        if key is not None and len(key) > 1:
            object = f"{object} {_text(key)}"
        at = len(self._calls)
        made = HandlerCall(name, object, reason, attempt, "ok", None, None, **of_timer)
        self._calls.append(made)
        try:
            returned = call()
        except Failed as failed:
            result = "permanent" if failed.kind == "permanent" else "retry"
            after = failed.failure.after_ms / 1000 if failed.kind == "retry-after" else None
            self._calls[at] = made._replace(result=result, error=failed.message, requeue_after=after)
            raise
        if name in ("on-add", "on-update", "on-delete", "reconcile") and returned is not None:
            self._calls[at] = made._replace(requeue_after=returned / 1000)
        return returned

    def _found(self, plugin: str | os.PathLike[str]) -> str:
        for folder in (self._folder, os.getcwd()):
            file = os.path.abspath(os.path.join(folder, os.fspath(plugin)))
            if os.path.isfile(file):
                return file
        raise FileNotFoundError(f"{os.fspath(plugin)} is neither in {self._folder} nor in {os.getcwd()}")

    def _context(self, role: str | None, because: str) -> dict[str, Any]:
        context: dict[str, Any] = {
            "informant": "test",
            "contract": CONTRACT,
            "offers": ["store", "kube", "kv", "metrics", "recorder", "log"],
            "roles": list(ROLES),
            "limits": {"memoryBytes": 64 << 20, "callMs": 10_000},
        }
        if role is not None:
            context.update({"role": role, "because": because, "instance": 0, "instances": 1})
            if self._log_level is not None:
                context["logLevel"] = self._log_level
        return {**context, **self._members}

    def _start(self, role: str, because: str) -> Dispatcher:
        with self._calling("describe"):
            described = self._load(None, because)
            manifest = described.describe(self._context(None, because))
        # As in Informant, the manifest is a document.
        self.manifest = json.loads(json.dumps(manifest))
        self._indexer = None
        self._declare()
        with self._calling("init"):
            instance = self._load(role, because)
            instance.init(self._context(role, because))
        return instance

    def _declare(self) -> None:
        self.host.declared = {metric["name"]: metric for metric in self.manifest.get("metrics", [])}
        self.host.plugin, self.host.reconciler = self._members["plugin"], self.manifest.get("reconciler")
        self.host.own_indexes = set((self.manifest.get("indexes") or {}).get("names", []))
        self.host.own_index = self._own_index

    def _own_index(self, object: Any) -> dict[str, list[str]]:
        """Called by the host while another call runs."""
        host, source = self.host, events.current_source
        saved = (host.phase, host._saved, host.is_index, host.cluster.deferred, host.recorded, host.has_children)
        host.own_index = None
        host.cluster.deferred = []
        try:
            return self.index(object)
        except Failed:
            # As in Informant: an object on which the function fails has no values.
            return {}
        finally:
            host.phase, host._saved, host.is_index, host.cluster.deferred, host.recorded, host.has_children = saved
            host.own_index = self._own_index
            events.begin_call(source)

    def _load(self, role: str | None, because: str) -> Dispatcher:
        folder = os.path.dirname(self._file)
        known = set(sys.modules)
        sys.path.insert(0, folder)
        remove = blocked.install(lambda globals: _is_below(globals.get("__file__"), folder))
        try:
            with open(self._file, "rb") as file:
                text = file.read()
            return script.load(self._file, text, self._context(role, because))
        finally:
            remove()
            sys.path.remove(folder)
            # The next instance imports its own, as in Informant.
            for name in set(sys.modules) - known:
                if _is_below(getattr(sys.modules[name], "__file__", None), folder):
                    del sys.modules[name]

    @contextmanager
    def _calling(self, phase: str, is_index: bool = False) -> Iterator[None]:
        before = _host.use(self.host)
        events.forget_sources()
        self.host.is_index = is_index
        self.host.begin(phase)
        try:
            with logs.Joined(self._log_level):
                yield
            if phase == "handler":
                self.host.cluster.make_deferred()
            self.host.end(True)
        except KubeError as error:
            # A deferred write failed.
            self.host.end(True)
            raise Failed(failure_of(error)) from error
        except BaseException:
            self.host.end(False)
            raise
        finally:
            _host.use(before)

    def _rule(self, object: Any) -> Any:
        is_watched = self._watched is None or (object.get("apiVersion"), object.get("kind")) in self._watched
        if "event-handler" not in self.manifest.get("roles", ROLES) or not is_watched:
            return None
        return _rule_of(self.manifest.get("events", [{"apiVersion": "*", "kind": "*"}]), object)

    def _selects(self, object: Any) -> bool:
        rule = self._rule(object)
        if rule is None:
            return False
        namespaces = rule.get("namespaces")
        is_in = namespaces is None or (object["metadata"].get("namespace") or "") in namespaces
        return is_in and selector.matches(rule.get("labelSelector", ""), object)

    def _deliver(self, key: Any, before: Any, object: Any, reason: str, attempt: int) -> float | None:
        """An object that starts to match its rule is an add, one that no longer matches is a delete."""
        if before is not None and not self._selects(before):
            before = None
        if not self._selects(object):
            return None if before is None else self._call_delete(reason, attempt, key, before, False)
        rule = self._rule(object)
        wanted = rule.get("payload", "whole")
        is_same = before is not None and projection.payload(before, wanted) == projection.payload(object, wanted)
        if rule.get("changedOnly") and is_same:
            return None
        return self._upsert(reason, attempt, key, before is None, before, object)

    def _upsert(self, reason: str, attempt: int, key: Any, is_new: bool, old: Any, object: Any) -> float | None:
        rule = self._rule(object)
        if rule is None:
            return None
        wanted = rule.get("payload", "whole")
        about, call = _about(key, object), _Call(Reason[reason], attempt)
        document = projection.document(object, wanted)
        self._requeues.pop(key, None)

        def handle() -> int | None:
            with self._calling("handler"):
                if is_new:
                    return self._instance.on_add(about, call, document)
                previous = projection.document(old, wanted) if old is not None and rule.get("old") else None
                return self._instance.on_update(about, call, previous, document)

        asked = self._recorded("on-add" if is_new else "on-update", key, reason, attempt, handle)
        return self._requeue(key, asked, None)

    def _delete(self, key: Any, final_state_unknown: bool, reason: str, attempt: int) -> float | None:
        last = self.host.cluster.objects.pop(key)
        if not self._selects(last):
            return None
        return self._call_delete(reason, attempt, key, last, final_state_unknown)

    def _call_delete(self, reason: str, attempt: int, key: Any, last: Any, unknown: bool) -> float | None:
        wanted = self._rule(last).get("payload", "whole")
        self._requeues.pop(key, None)

        def handle() -> int | None:
            with self._calling("handler"):
                document = projection.document(last, wanted)
                return self._instance.on_delete(_about(key, last), _Call(Reason[reason], attempt), document, unknown)

        asked = self._recorded("on-delete", key, reason, attempt, handle)
        return self._requeue(key, asked, (last, unknown))

    def _requeue(self, key: Any, asked: int | None, deleted: tuple[Any, bool] | None) -> float | None:
        if asked is None:
            return None
        seconds = asked / 1000
        self._requeues[key] = _Requeue(seconds, deleted)
        return seconds

    def _keys(self, key: str, kind: str | None) -> list[tuple[int, str, str]]:
        return [
            found
            for found in self.host.cluster.objects
            if _text(found) == key and kind in (None, self.host.cluster.sources[found[0]].kind)
        ]


def _rule_of(rules: list[dict[str, Any]], object: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rule for an object's type: the one that names more of it."""
    api_version, kind = object.get("apiVersion"), object.get("kind")
    for wanted in ((api_version, kind), (api_version, "*"), ("*", kind), ("*", "*")):
        for rule in rules:
            if (rule["apiVersion"], rule["kind"]) == wanted:
                return rule
    return None


def _about(key: tuple[int, str, str], object: Mapping[str, Any]) -> ObjectRef:
    metadata = object.get("metadata") or {}
    return ObjectRef(*key, metadata.get("uid") or "", metadata.get("resourceVersion") or "")


def _text(key: tuple[int, str, str]) -> str:
    return f"{key[1]}/{key[2]}" if key[1] else key[2]


def _is_below(file: Any, folder: str) -> bool:
    return isinstance(file, str) and file.startswith(folder + os.sep) and "site-packages" not in file
