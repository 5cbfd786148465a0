"""The host of a component: the imports of the contract and of wasi:http, through the bindings of componentize-py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from componentize_py_types import Err, Ok
from wit_world.imports import kube, kv, log, metrics, recorder, store

from . import host as _host
from .errors import HostError, HttpError, KubeError
from .host import Address, Child, Children, HttpAnswer, HttpRequest, Labels, Owner, Query, Regarding, SourceInfo

try:
    from wit_world.imports import informant_plugin_types as types
except ImportError:
    # A world without wasi:http, in which there is only one interface of this name.
    from wit_world.imports import types

try:
    from . import wasi_http as _wasi_http
except ImportError:
    _wasi_http = None  # type: ignore[assignment]

_LEVELS = [log.Level(number) for number in range(len(_host.LEVELS))]

_PATCH_KINDS = {
    "merge": kube.PatchKind.MERGE,
    "json": kube.PatchKind.JSON,
    "strategic": kube.PatchKind.STRATEGIC,
    "apply": kube.PatchKind.APPLY,
}

_EVENT_TYPES = {"Normal": recorder.EventType.NORMAL, "Warning": recorder.EventType.WARNING}


def _name(case: Any) -> str:
    """The name of an enum's case, as the contract writes it."""
    return str(case.name).lower().replace("_", "-")


def _raise(error: Err[Any]) -> NoReturn:
    value = error.value
    if isinstance(value, kube.ApiError):
        raise KubeError(_name(value.code), value.message, value.status, value.reason, value.retry_after_ms) from None
    raise HostError(_name(value.code), value.message) from None


def _asked(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Err as error:
        _raise(error)


def _info(info: Any) -> SourceInfo:
    return SourceInfo(
        info.id,
        _name(info.state),
        info.informer,
        info.cluster,
        info.api_version,
        info.kind,
        info.resource,
        info.namespace,
        info.namespaced,
        info.partial,
    )


def _at(address: Address) -> Any:
    return kube.Address(*address)


def _query(query: Query) -> Any:
    return store.Query(*query, options=b"")


def _page(page: Any) -> tuple[list[tuple[int, bytes]], str]:
    return [(item.source, item.object) for item in page.items], page.cursor


def _regarding(regarding: Regarding) -> Any:
    return recorder.Regarding(*regarding)


def _labels(labels: Labels) -> list[Any]:
    return [metrics.Label(name, value) for name, value in labels]


class Bindings:
    """Informant."""

    def log(self, level: int, message: str, fields: list[tuple[str, str]]) -> None:
        log.log(_LEVELS[level], message, fields)

    def source(self, id: int) -> SourceInfo:
        return _info(_asked(store.source, id))

    def sources(self, informer: str) -> list[SourceInfo]:
        return [_info(info) for info in _asked(store.sources, informer)]

    def version(self, source: int) -> tuple[str, bool]:
        version = _asked(store.version, source)
        return version.version, version.synced

    def get(self, source: int, namespace: str, name: str, pointers: list[str]) -> bytes | None:
        return _asked(store.get, source, namespace, name, pointers)  # type: ignore[no-any-return]

    def find(self, informer: str, namespace: str, name: str, pointers: list[str]) -> tuple[int, bytes] | None:
        item = _asked(store.find, informer, namespace, name, pointers)
        return None if item is None else (item.source, item.object)

    def list_objects(self, informer: str, query: Query) -> tuple[list[tuple[int, bytes]], str]:
        return _page(_asked(store.list, informer, _query(query)))

    def by_index(self, informer: str, index: str, value: str, query: Query) -> tuple[list[tuple[int, bytes]], str]:
        return _page(_asked(store.by_index, informer, index, value, _query(query)))

    def index_keys(self, informer: str, sources: list[int], index: str, value: str) -> list[tuple[int, str, str]]:
        keys = _asked(store.index_keys, informer, sources, index, value)
        return [(key.source, key.namespace, key.name) for key in keys]

    def index_values(self, informer: str, sources: list[int], index: str, cursor: str, limit: int) -> list[str]:
        return _asked(store.index_values, informer, sources, index, cursor, limit)  # type: ignore[no-any-return]

    def kube_get(self, address: Address) -> bytes:
        return _asked(kube.get, _at(address))  # type: ignore[no-any-return]

    def kube_list(self, address: Address, options: bytes) -> tuple[list[bytes], str]:
        page = _asked(kube.list, _at(address), options)
        return page.items, page.cursor

    def kube_create(self, address: Address, object: bytes, options: bytes, deferred: bool) -> bytes | None:
        call = kube.defer_create if deferred else kube.create
        return _asked(call, _at(address), object, options)  # type: ignore[no-any-return]

    def kube_update(self, address: Address, object: bytes, options: bytes, deferred: bool) -> bytes | None:
        call = kube.defer_update if deferred else kube.update
        return _asked(call, _at(address), object, options)  # type: ignore[no-any-return]

    def kube_patch(self, address: Address, kind: str, document: bytes, options: bytes, deferred: bool) -> bytes | None:
        call = kube.defer_patch if deferred else kube.patch
        return _asked(call, _at(address), _PATCH_KINDS[kind], document, options)  # type: ignore[no-any-return]

    def kube_delete(self, address: Address, options: bytes, deferred: bool) -> None:
        _asked(kube.defer_delete if deferred else kube.delete, _at(address), options)

    def kube_children(self, owner: Owner, children: list[Child]) -> Children:
        wanted = [kube.Child(child.object, child.whole) for child in children]
        done = _asked(kube.defer_children, kube.Owner(*owner), wanted)
        return Children(done.written, done.pruned, done.refused, done.prune_skipped)

    def kv_get(self, key: str) -> bytes | None:
        return _asked(kv.get, key)  # type: ignore[no-any-return]

    def kv_set(self, key: str, value: bytes) -> None:
        _asked(kv.set, key, value)

    def kv_set_if_absent(self, key: str, value: bytes) -> bool:
        return _asked(kv.set_if_absent, key, value)  # type: ignore[no-any-return]

    def kv_delete(self, key: str) -> None:
        _asked(kv.delete, key)

    def kv_list(self, prefix: str, cursor: str, limit: int) -> list[str]:
        return _asked(kv.list, prefix, cursor, limit)  # type: ignore[no-any-return]

    def metrics_add(self, name: str, amount: float, labels: Labels) -> None:
        _asked(metrics.add, name, amount, _labels(labels))

    def metrics_set(self, name: str, value: float, labels: Labels) -> None:
        _asked(metrics.set, name, value, _labels(labels))

    def metrics_observe(self, name: str, value: float, labels: Labels) -> None:
        _asked(metrics.observe, name, value, _labels(labels))

    def metrics_replace(self, name: str, samples: Sequence[tuple[float, Labels]]) -> None:
        rows = [metrics.Sample(value, _labels(labels)) for value, labels in samples]
        _asked(metrics.replace, name, rows)

    def recorder_event(
        self, about: Regarding, related: Regarding | None, type: str, reason: str, action: str, note: str
    ) -> None:
        other = None if related is None else _regarding(related)
        _asked(recorder.event, _regarding(about), other, _EVENT_TYPES[type], reason, action, note)

    def http_send(self, request: HttpRequest) -> HttpAnswer:
        if _wasi_http is None:
            raise HttpError("unavailable", "the component was built without HTTP: use the world that the SDK brings")
        return _wasi_http.send(request)


__all__ = ["Bindings", "Err", "Ok", "types"]
