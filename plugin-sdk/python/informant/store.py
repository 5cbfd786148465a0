"""Reads the cache. Within one call, all reads of a source see the same snapshot, at least as new as the event.

``informer`` is a name from the ``informers`` of the plugin's section, or an event or source, which stands for its
informer in its cluster. With several clusters, these functions read the cluster of the object or source that the call
is about; ``clusters="all"`` reads all clusters of the informer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from . import events
from . import host as _host
from .errors import HostError
from .events import Event, Source
from .objects import Object, Origin, parse_object

#: The name of an informer, or an event or source that stands for its informer.
Informer = str | Event | Source

__all__ = ["ObjectKey", "by_index", "find", "get", "index_keys", "index_values", "list", "source", "sources"]


class ObjectKey(NamedTuple):
    """Where an object is in the cache."""

    source: Source
    namespace: str
    name: str


def get(informer: Informer, namespace: str, name: str, *, fields: Sequence[str] = ()) -> Object | None:
    """An object, or ``None``. ``namespace`` is ``""`` for cluster-scoped objects.

    With an event or source it is of the same kind. ``fields`` are JSON pointers; without them the object is whole.
    """
    id = _source_id(informer)
    if id is None:
        return find(_informer_name(informer), namespace, name, fields=fields)
    wanted = events.details_of(id)
    # There can be a source for each namespace.
    for info in events.sources_of(wanted.informer):
        is_same = (info.cluster, info.api_version, info.kind) == (wanted.cluster, wanted.api_version, wanted.kind)
        if is_same and info.namespace in (None, namespace):
            document = _host.active.get(info.id, namespace, name, _pointers(fields))
            if document is not None:
                return _object(info.id, document, namespace, name)
    return None


def find(informer: str, namespace: str, name: str, *, fields: Sequence[str] = ()) -> Object | None:
    """An object of an informer with a single kind, by the informer's name, or ``None``."""
    found = _host.active.find(informer, namespace, name, _pointers(fields))
    return None if found is None else _object(*found, namespace, name)


def list(
    informer: Informer,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    fields: Sequence[str] = (),
    limit: int | None = None,
    clusters: Literal["all"] | None = None,
) -> Iterator[Object]:
    """Iterates over the objects of an informer, page by page."""
    name, read = _informer_name(informer), _host.active.list_objects
    return _pages(informer, clusters, namespace, label_selector, fields, limit, lambda query: read(name, query))


def by_index(
    informer: Informer,
    index: str,
    value: str,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    fields: Sequence[str] = (),
    limit: int | None = None,
    clusters: Literal["all"] | None = None,
) -> Iterator[Object]:
    """Iterates over the objects with this value in an index, page by page."""
    name, read = _informer_name(informer), _host.active.by_index
    return _pages(
        informer, clusters, namespace, label_selector, fields, limit, lambda query: read(name, index, value, query)
    )


def index_keys(
    informer: Informer, index: str, value: str, *, clusters: Literal["all"] | None = None
) -> Iterator[ObjectKey]:
    """Iterates over the keys of the objects with this value in an index."""
    sources = _sources_to_read(informer, clusters)
    for source, namespace, name in _host.active.index_keys(_informer_name(informer), sources, index, value):
        yield ObjectKey(Source(source), namespace, name)


def index_values(informer: Informer, index: str, *, clusters: Literal["all"] | None = None) -> Iterator[str]:
    """Iterates over the values of an index that are in use, in order."""
    sources = _sources_to_read(informer, clusters)
    cursor = ""
    while True:
        values = _host.active.index_values(_informer_name(informer), sources, index, cursor, 0)
        yield from values
        # The empty value sorts first, and it cannot be a cursor: a page that ends with it has nothing else.
        cursor = values[-1] if values else ""
        if cursor == "":
            return


def source(id: int | Source) -> Source:
    """A source by its number."""
    return Source(events.details_of(id.id if isinstance(id, Source) else id).id)


def sources(informer: Informer) -> Sequence[Source]:
    """The sources of an informer."""
    return [Source(info.id) for info in events.sources_of(_informer_name(informer))]


def _pages(
    informer: Informer,
    clusters: str | None,
    namespace: str | None,
    label_selector: str,
    fields: Sequence[str],
    limit: int | None,
    read: Any,
) -> Iterator[Object]:
    sources = _sources_to_read(informer, clusters)
    pointers = _pointers(fields)
    cursor, left = "", limit
    while left is None or left > 0:
        query = _host.Query(sources, namespace, label_selector, pointers, left or 0, cursor)
        items, cursor = read(query)
        for source, document in items:
            yield _object(source, document)
        if left is not None:
            left -= len(items)
        if cursor == "":
            return


def _object(source: int, document: bytes, namespace: str = "", name: str = "") -> Object:
    """The object with this namespace and name, which its document may lack because of ``fields``."""
    object = parse_object(document)
    metadata = object.metadata
    uid = metadata.get("uid") or ""
    origin = Origin(source, metadata.get("namespace") or namespace, metadata.get("name") or name, uid)
    return Object(object, origin=origin)


def _pointers(fields: Sequence[str]) -> Any:
    return [fields] if isinstance(fields, str) else [*fields]


def _source_id(informer: Any) -> int | None:
    if isinstance(informer, Source):
        return informer.id
    return informer._source_id if isinstance(informer, Event) else None


def _informer_name(informer: Any) -> str:
    if isinstance(informer, (Event, Source)):
        return informer.informer
    if not isinstance(informer, str):
        raise TypeError(f"store: {informer!r} is not an informer: pass its name, an event, or a source")
    return informer


def _sources_to_read(informer: Informer, clusters: str | None) -> Any:
    """The numbers of the sources that a call reads; none stands for all sources of the informer."""
    if clusters == "all":
        return []
    if clusters is not None:
        raise TypeError(f'store: clusters is {clusters!r}; write clusters="all", or leave it out')
    name = _informer_name(informer)
    about = _source_id(informer)
    if about is None:
        about = events.current_source
    if about is None:
        names = _clusters(events.sources_of(name))
        if len(names) <= 1:
            return []
        raise HostError(
            "invalid",
            f"informer {name!r} reads several clusters ({', '.join(names)}), and this call is about none of them: "
            'pass clusters="all", or a source instead of the name',
        )
    cluster = events.details_of(about).cluster
    # The only cluster.
    if cluster == "":
        return []
    here = [info.id for info in events.sources_of(name) if info.cluster == cluster]
    if here:
        return here
    # A pattern has its sources only after its cluster was asked for its kinds. So a retry can succeed.
    raise HostError(
        "not-ready",
        f"informer {name!r} has no source in cluster {cluster!r}, only in: "
        f'{", ".join(_clusters(events.sources_of(name)))}; to read these, pass clusters="all"',
    )


def _clusters(sources: Sequence[_host.SourceInfo]) -> Sequence[str]:
    return [*dict.fromkeys(info.cluster for info in sources)]
