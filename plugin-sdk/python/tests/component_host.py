"""Runs a component in wasmtime, with the imports of the contract over the fake host of the test kit.

It needs the package ``wasmtime`` from PyPI. A list of bytes is passed element by element: it is slow, and not for
measuring.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

from wasmtime import Config, Engine, Store, WasiConfig
from wasmtime.component import Component, Linker, Record, Variant

from informant import events
from informant.errors import HostError, KubeError
from informant.host import LEVELS, Address, Child, Owner, Query, Regarding
from informant.testing import FakeHost

PACKAGE = "informant:plugin"
CONTRACT = "0.3.0"

#: The stack of WebAssembly code that Informant provides: 512 KiB, wasmtime's default.
STACK_BYTES = 512 << 10

#: The limit of a plugin's memory, by default.
MEMORY_BYTES = 64 << 20


def record(**members: Any) -> Record:
    """A record of the contract."""
    made = Record()
    for name, value in members.items():
        setattr(made, name.replace("_", "-"), value)
    return made


def custom_sections(path: str) -> dict[str, bytes]:
    """The custom sections of a component, by name, except those of the modules in it."""
    with open(path, "rb") as file:
        data = file.read()

    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    sections, at = {}, 8
    while at < len(data):
        id = data[at]
        size, begin = number(at + 1)
        at = begin + size
        if id == 0:
            length, name = number(begin)
            sections[data[name : name + length].decode()] = data[name + length : at]
    return sections


def engine_of(cache: bool = True) -> Engine:
    """An engine like that of Informant."""
    config = Config()
    config.wasm_component_model = True
    config.max_wasm_stack = STACK_BYTES
    if cache:
        config.cache = True
    return Engine(config)


class Failure(Exception):
    """A call failed with ``kind`` and ``message``."""

    def __init__(self, value: Any) -> None:
        self.kind = value.tag if isinstance(value, Variant) else "error"
        payload = value.payload if isinstance(value, Variant) else value
        self.message = payload.message if isinstance(payload, Record) else payload
        self.after_ms = getattr(payload, "after-ms", None)
        super().__init__(f"{self.kind}: {self.message}")


class Instance:
    """An instance of a component; for the script runner, of a script."""

    def __init__(
        self,
        engine: Engine,
        component: Component,
        script: tuple[str, str] | None = None,
        host: FakeHost | None = None,
        inherit_output: bool = False,
    ) -> None:
        self.host = host or FakeHost()
        self._folder = tempfile.TemporaryDirectory()
        linker = Linker(engine)
        linker.add_wasip2()
        linker.add_wasi_http()
        with linker.root() as root:
            for interface, functions in self._imports().items():
                with root.add_instance(f"{PACKAGE}/{interface}@{CONTRACT}") as instance:
                    for name, function in functions.items():
                        instance.add_func(name, function)
        self.store = Store(engine)
        self.store.set_limits(memory_size=MEMORY_BYTES)
        wasi = WasiConfig()
        self._output = os.path.join(self._folder.name, "stdout")
        if inherit_output:
            wasi.inherit_stdout()
            wasi.inherit_stderr()
        else:
            wasi.stdout_file = self._output
            wasi.inherit_stderr()
        if script is not None:
            path = os.path.join(self._folder.name, "stdin")
            with open(path, "w", encoding="utf-8") as file:
                file.write(script[1])
            wasi.stdin_file = path
            wasi.argv = ["informant-script-runner", script[0]]
        self.store.set_wasi(wasi)
        self.store.set_wasi_http()
        self.instance = linker.instantiate(self.store, component)
        self._functions: dict[str, Any] = {}

    def close(self) -> None:
        """Ends the instance."""
        self._functions.clear()
        self.store.close()
        self._folder.cleanup()

    @property
    def stdout(self) -> str:
        """What the plugin printed."""
        with open(self._output, encoding="utf-8") as file:
            return file.read()

    def call(self, interface: str, name: str, *arguments: Any, phase: str = "handler") -> Any:
        """Calls an export. Raises ``Failure``, or a trap of wasmtime."""
        key = f"{interface}.{name}"
        if key not in self._functions:
            index = self.instance.get_export_index(self.store, f"{PACKAGE}/{interface}@{CONTRACT}")
            assert index is not None, interface
            function = self.instance.get_export_index(self.store, name, index)
            self._functions[key] = self.instance.get_func(self.store, function)
        function = self._functions[key]
        self.host.begin(phase)
        result = function(self.store, *arguments)
        function.post_return(self.store)
        has_failed = isinstance(result, (Variant, str))
        if not has_failed and phase == "handler":
            self.host.cluster.make_deferred()
        self.host.end(not has_failed)
        if has_failed:
            raise Failure(result)
        return result

    def describe(self, **context: Any) -> Any:
        """The manifest."""
        return json.loads(self.call("lifecycle", "describe", _context(context), phase="describe"))

    def init(self, **context: Any) -> None:
        """Starts the instance."""
        context = {"role": "events", "because": "start", "instance": 0, "instances": 1, "logLevel": "trace", **context}
        self.call("lifecycle", "init", _context(context), phase="init")

    def put(self, object: Any, reason: str = "watch", old: Any = None) -> int | None:
        """Puts an object, and calls the handler."""
        is_new = self.host.cluster.key_of(object) not in self.host.cluster.objects
        key = self.host.cluster.put(object)
        stored = self.host.cluster.objects[key]
        events.begin_call(key[0])
        call = record(reason=reason, attempt=0)
        document = json.dumps(stored).encode()
        if is_new:
            return self.call("event-handler", "on-add", _about(key, stored), call, document)
        previous = None if old is None else json.dumps(old).encode()
        return self.call("event-handler", "on-update", _about(key, stored), call, previous, document)

    def reconcile(self, object: Any, reason: str = "watch") -> int | None:
        """Puts an object, and reconciles it."""
        key = self.host.cluster.put(object)
        stored = self.host.cluster.objects[key]
        events.begin_call(key[0])
        request = record(reason=reason, attempt=0, cache_is_behind=False)
        return self.call("reconciler", "reconcile", _about(key, stored), request, json.dumps(stored).encode())

    def index(self, object: Any) -> Any:
        """The values of an object."""
        key = self.host.cluster.key_of(object)
        return self.call("index-funcs", "index", _about(key, object), json.dumps(object).encode(), phase="index")

    def synced(self, source: int) -> None:
        """Every object of the source was attempted."""
        events.begin_call(source)
        self.call("sync-handler", "on-synced", source, record(reason="initial", attempt=0))

    def tick(self, timer: str, scheduled: str = "2026-01-01T00:00:00Z", missed: int = 0, attempt: int = 0) -> None:
        """Runs a timer."""
        events.begin_call(None)
        self.call("timer-handler", "on-timer", record(name=timer, scheduled=scheduled, missed=missed, attempt=attempt))

    def save(self) -> bytes:
        """The state."""
        return self.call("state", "save", phase="save")

    def restore(self, state: bytes) -> None:
        """Receives the state."""
        self.call("state", "restore", state, phase="restore")

    def _imports(self) -> dict[str, dict[str, Callable[..., Any]]]:
        host = self.host

        def answered(call: Callable[..., Any], tagged: bool = False) -> Callable[..., Any]:
            def answer(_: Any, *arguments: Any) -> Any:
                try:
                    result = call(*arguments)
                except KubeError as error:
                    members = {"status": error.status, "reason": error.reason, "message": str(error)}
                    failed = record(code=error.code, retry_after_ms=error.retry_after_ms, **members)
                    return Variant("err", failed) if tagged else failed
                except HostError as error:
                    failed = record(code=error.code, message=str(error))
                    return Variant("err", failed) if tagged else failed
                return Variant("ok", result) if tagged else result

            return answer

        def at(address: Record) -> Address:
            members = (address.cluster, address.resource, address.namespace, address.name, address.subresource)
            return Address(*members)

        def query(asked: Any) -> Query:
            selector = getattr(asked, "label-selector")
            return Query(asked.sources, asked.namespace, selector, asked.pointers, asked.limit, asked.cursor)

        def page(found: Any) -> Record:
            items, cursor = found
            return record(items=[record(source=source, object=object) for source, object in items], cursor=cursor)

        def info(of: Any) -> Record:
            return record(**of._asdict())

        def found(item: Any) -> Record | None:
            return None if item is None else record(source=item[0], object=item[1])

        def version(of: Any) -> Record:
            return record(version=of[0], synced=of[1])

        def objects(answer: Any) -> Record:
            return record(items=answer[0], cursor=answer[1], resource_version=host.cluster.version)

        def key(of: Any) -> Record:
            return record(source=of[0], namespace=of[1], name=of[2])

        def labels(of: Any) -> list[tuple[str, str]]:
            return [(label.name, label.value) for label in of]

        def log(_: Any, level: str, message: str, fields: Any) -> None:
            host.log(LEVELS.index(level), message, [tuple(field) for field in fields])

        def regarding(of: Any) -> Regarding:
            return Regarding(of.cluster, getattr(of, "api-version"), of.kind, of.namespace, of.name, of.uid)

        def record_event(about: Any, related: Any, type: str, *texts: str) -> None:
            other = None if related is None else regarding(related)
            host.recorder_event(regarding(about), other, type.capitalize(), *texts)

        def children(of: Any, wanted: Any) -> Record:
            owner = Owner(of.source, of.namespace, of.name, of.uid)
            done = host.kube_children(owner, [Child(bytes(child.object), child.whole) for child in wanted])
            return record(**done._asdict())

        def samples(of: Any) -> Any:
            return [(sample.value, labels(sample.labels)) for sample in of]

        kube: dict[str, Callable[..., Any]] = {
            "get": answered(lambda a: host.kube_get(at(a))),
            "list": answered(lambda a, o: objects(host.kube_list(at(a), o)), tagged=True),
            "defer-children": answered(children, tagged=True),
        }
        for prefix, is_deferred in (("", False), ("defer-", True)):
            kube.update(
                {
                    f"{prefix}create": answered(lambda a, d, o, late=is_deferred: host.kube_create(at(a), d, o, late)),
                    f"{prefix}update": answered(lambda a, d, o, late=is_deferred: host.kube_update(at(a), d, o, late)),
                    f"{prefix}patch": answered(
                        lambda a, k, d, o, late=is_deferred: host.kube_patch(at(a), k, d, o, late)
                    ),
                    f"{prefix}delete": answered(lambda a, o, late=is_deferred: host.kube_delete(at(a), o, late)),
                }
            )
        return {
            "log": {"log": log},
            "store": {
                "source": answered(lambda id: info(host.source(id)), tagged=True),
                "sources": answered(lambda name: [info(of) for of in host.sources(name)]),
                "version": answered(lambda id: version(host.version(id)), tagged=True),
                "get": answered(host.get),
                "find": answered(lambda *a: found(host.find(*a)), tagged=True),
                "list": answered(lambda name, q: page(host.list_objects(name, query(q))), tagged=True),
                "by-index": answered(lambda n, i, v, q: page(host.by_index(n, i, v, query(q))), tagged=True),
                "index-keys": answered(lambda *a: [key(of) for of in host.index_keys(*a)]),
                "index-values": answered(host.index_values),
            },
            "kube": kube,
            "kv": {
                "get": answered(host.kv_get),
                "set": answered(host.kv_set),
                "set-if-absent": answered(host.kv_set_if_absent),
                "delete": answered(host.kv_delete),
                "list": answered(host.kv_list),
            },
            "metrics": {
                "add": answered(lambda name, amount, of: host.metrics_add(name, amount, labels(of))),
                "set": answered(lambda name, value, of: host.metrics_set(name, value, labels(of))),
                "observe": answered(lambda name, value, of: host.metrics_observe(name, value, labels(of))),
                "replace": answered(lambda name, of: host.metrics_replace(name, samples(of))),
            },
            "recorder": {"event": answered(record_event)},
        }


def _context(members: dict[str, Any]) -> bytes:
    base = {"plugin": "test", "config": {}, "informant": "test", "contract": CONTRACT}
    return json.dumps({**base, **members}).encode()


def _about(key: tuple[int, str, str], object: Any) -> Record:
    metadata = object["metadata"]
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    return record(source=key[0], namespace=key[1], name=key[2], uid=uid, resource_version=version)
