"""Events, sources and ticks: what a call is about."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from . import host as _host
from .objects import Object, parse_object

#: The source that the current call is about, or whose object it is about. ``None`` in a call about neither.
current_source: int | None = None

#: The details of a source are constant, except its state. They are requested once, and only if they are read.
_details: dict[int, _host.SourceInfo] = {}

#: The sources of each informer, as the current call has read them.
_sources_in_call: dict[str, list[_host.SourceInfo]] = {}


def begin_call(source: int | None) -> None:
    """Starts a call about a source, an object of it, or neither."""
    global current_source
    current_source = source
    if _sources_in_call:
        _sources_in_call.clear()


def forget_sources() -> None:
    """Forgets what is known of sources: their IDs belong to one process of Informant."""
    _details.clear()
    begin_call(None)


def details_of(source: int) -> _host.SourceInfo:
    """What is known of a source."""
    info = _details.get(source)
    if info is None:
        info = _details[source] = _host.active.source(source)
    return info


def sources_of(informer: str) -> list[_host.SourceInfo]:
    """The sources of an informer, read once for each call."""
    sources = _sources_in_call.get(informer)
    if sources is None:
        sources = _sources_in_call[informer] = _host.active.sources(informer)
    return sources


class _OfSource:
    """Members that an event and a source have in common."""

    __slots__ = ()

    _source_id: int

    @property
    def informer(self) -> str:
        """The name of the informer in the plugin's section."""
        return details_of(self._source_id).informer

    @property
    def cluster(self) -> str:
        """The name of the cluster; empty for the only one."""
        return details_of(self._source_id).cluster

    @property
    def api_version(self) -> str:
        """Such as ``apps/v1``."""
        return details_of(self._source_id).api_version

    @property
    def kind(self) -> str:
        """Such as ``Deployment``."""
        return details_of(self._source_id).kind

    @property
    def resource(self) -> str:
        """Such as ``apps/v1/deployments``."""
        return details_of(self._source_id).resource


class Source(_OfSource):
    """A source: the objects of one resource in one cluster, of which an informer may have several."""

    __slots__ = ("_source_id", "id")

    def __init__(self, id: int) -> None:
        self.id = self._source_id = id

    @property
    def state(self) -> str:
        """``live``, ``stale``, ``syncing`` and so on, as it is now."""
        return _host.active.source(self.id).state

    @property
    def namespace(self) -> str | None:
        """The only namespace that is read; ``None`` if there are others, or none."""
        return details_of(self.id).namespace

    @property
    def namespaced(self) -> bool:
        """Whether the objects of the resource have namespaces."""
        return details_of(self.id).namespaced

    @property
    def partial(self) -> bool:
        """Whether the source may lack objects that exist, because a selector or a shard leaves some out."""
        return details_of(self.id).partial

    @property
    def version(self) -> str:
        """The resource version up to which the cache is complete."""
        return _host.active.version(self.id)[0]

    @property
    def is_synced(self) -> bool:
        """Whether the cache contains the initial list."""
        return _host.active.version(self.id)[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return f"source {self.id}"

    def __repr__(self) -> str:
        return f"Source({self.id})"


class Call:
    """Why a call is made, and which attempt it is."""

    __slots__ = ("_call",)

    def __init__(self, call: Any) -> None:
        self._call = call

    @property
    def reason(self) -> str:
        """``initial``, ``watch``, ``relist``, ``resync`` and so on."""
        return _host.REASONS[self._call.reason.value]

    @property
    def attempt(self) -> int:
        """0 for the first attempt; each retry adds 1."""
        return int(self._call.attempt)


class Event(_OfSource):
    """The object that a call is about, and why the call is made. As text it is ``namespace/name``."""

    __slots__ = ("_about", "_call", "_document", "_old", "final_state_unknown", "type")

    #: ``add``, ``update`` or ``delete``; in an index function ``index``, in a reconciler ``reconcile``.
    type: str
    #: Deletes only: whether the object was deleted while no watch was open, so that it may have changed before.
    final_state_unknown: bool

    def __init__(
        self, type: str, about: Any, call: Any, old: bytes | None = None, final_state_unknown: bool = False
    ) -> None:
        self.type = type
        self._about = about
        self._call = call
        self._document = old
        self._old: Object | None = None
        self.final_state_unknown = final_state_unknown

    @property
    def _source_id(self) -> int:  # type: ignore[override]
        return int(self._about.source)

    @property
    def source(self) -> Source:
        """The source of the object."""
        return Source(self._about.source)

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty for cluster-scoped objects."""
        return str(self._about.namespace)

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self._about.name)

    @property
    def uid(self) -> str:
        """The uid of the object; empty if it is not known."""
        return str(self._about.uid)

    @property
    def resource_version(self) -> str:
        """The resource version of the object. Compare it only for equality."""
        return str(self._about.resource_version)

    @property
    def key(self) -> str:
        """``namespace/name``, or ``name`` for cluster-scoped objects."""
        return str(self)

    @property
    def id(self) -> str:
        """The same in each attempt to handle this state of the object: an idempotency key for other services."""
        return f"{self._about.uid}/{self._about.resource_version}"

    @property
    def reason(self) -> str:
        """``initial``, ``watch``, ``relist``, ``resync``, ``replay``, ``requeue``, ``requeue-after`` and so on."""
        return _host.REASONS[self._call.reason.value] if self._call is not None else "other"

    @property
    def attempt(self) -> int:
        """0 for the first attempt; each retry adds 1."""
        return int(self._call.attempt) if self._call is not None else 0

    @property
    def old(self) -> Object | None:
        """Updates only: the previous state, if a handler of the kind asks for it (``old=True``) and it is known."""
        if self._document:
            self._old = parse_object(self._document, self._about)
            self._document = None
        return self._old

    def __str__(self) -> str:
        about = self._about
        return f"{about.namespace}/{about.name}" if about.namespace else str(about.name)

    def __repr__(self) -> str:
        return f"Event({self.type} {self})"


class Request(Event):
    """The object that is to be reconciled, and why. As text it is ``namespace/name``."""

    __slots__ = ()

    def __init__(self, about: Any, call: Any) -> None:
        super().__init__("reconcile", about, call)

    @property
    def cache_is_behind(self) -> bool:
        """
        Whether the cache may lack writes of earlier calls for this object, or a watch is down: do not conclude that
        something is absent.
        """
        return bool(self._call.cache_is_behind)


class Tick:
    """A run of a timer. As text it is the name of the timer."""

    __slots__ = ("_tick",)

    def __init__(self, tick: Any) -> None:
        self._tick = tick

    @property
    def name(self) -> str:
        """The name of the timer."""
        return str(self._tick.name)

    @property
    def scheduled(self) -> datetime:
        """When the run was due, in UTC."""
        # Before Python 3.11, it does not read the letter.
        return datetime.fromisoformat(self._tick.scheduled.replace("Z", "+00:00"))

    @property
    def missed(self) -> int:
        """How many earlier runs were missed since the last one: this run stands for them."""
        return int(self._tick.missed)

    @property
    def attempt(self) -> int:
        """0 for the first attempt; each retry adds 1."""
        return int(self._tick.attempt)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Tick({self.name} {self._tick.scheduled})"
