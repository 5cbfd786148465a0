"""Calls the functions of a plugin as the contract says. The components, scripts and tests share it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from . import events, logs
from . import host as _host
from . import registry as _registry
from .context import load_settings
from .decorators import Again
from .errors import Permanent, Refused, delay_ms, did_you_mean
from .events import Event, Request, Source, Tick
from .failure import Failure, failure_of, traceback_of
from .manifest import index_names, manifest_of
from .objects import Object, parse_object
from .registry import Handler, Handlers, Registry

#: The member of the saved state that says how it is written.
STATE_FORMAT = 1


class Failed(Exception):
    """A call of the plugin failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @property
    def kind(self) -> str:
        """``retryable``, ``retry-after`` or ``permanent``."""
        return self.failure.kind

    @property
    def message(self) -> str:
        """Why it failed, with file and line."""
        return self.failure.message


class Dispatcher:
    """One instance of a plugin, whose functions are in ``registry``."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.index_names: list[str] = []
        #: By source; the rule of an object's type is constant for a source.
        self._handlers: dict[int, Handlers | None] = {}
        kinds = list(registry.handlers.values())
        self._only = kinds[0] if len(kinds) == 1 else None

    # --- lifecycle ---

    def describe(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest.

        Raises: ``Failed``
        """
        with _Reporting(self.registry, "", None):
            self._begin(context)
            return manifest_of(self.registry)

    def init(self, context: Mapping[str, Any]) -> None:
        """Prepares this instance.

        Raises: ``Failed``
        """
        with _Reporting(self.registry, "", None):
            self._begin(context)
            self.index_names = index_names(self.registry)
            for handler in self.registry.startup:
                handler.function()

    def _begin(self, context: Mapping[str, Any]) -> None:
        self.registry.context = context
        load_settings(self.registry)

    # --- events ---

    def on_add(self, about: Any, call: Any, document: bytes) -> int | None:
        """Returns the milliseconds after which the plugin wants to be called again for the object."""
        return self._on_event("add", about, call, document)

    def on_update(self, about: Any, call: Any, old: bytes | None, document: bytes) -> int | None:
        """Returns the milliseconds after which the plugin wants to be called again for the object."""
        return self._on_event("update", about, call, document, old)

    def on_delete(self, about: Any, call: Any, last: bytes | None, final_state_unknown: bool) -> int | None:
        """Returns the milliseconds after which the plugin wants to be called again for the object."""
        return self._on_event("delete", about, call, last, None, final_state_unknown)

    def _on_event(
        self,
        type: str,
        about: Any,
        call: Any,
        document: bytes | None,
        old: bytes | None = None,
        final_state_unknown: bool = False,
    ) -> int | None:
        event = Event(type, about, call, old, final_state_unknown)
        with _Reporting(self.registry, event, about.source):
            handlers = self._handlers_of(about.source)
            if handlers is None:
                return None
            functions: list[Handler] = getattr(handlers, type)
            if not functions and type == "update" and event.reason in _ASKED_FOR:
                # Nothing changed, the call was asked for: a plugin that handles adds only does so again.
                functions = handlers.add
            soonest: int | None = None
            object: Object | None = None
            for handler in functions:
                if object is None and document and handler.reads_object:
                    object = parse_object(document, about)
                returned = handler.function(*(object, event)[: handler.parameters])
                if returned is not None:
                    asked = _requeue_ms(handler, returned)
                    soonest = asked if soonest is None else min(soonest, asked)
            return soonest

    def reconcile(self, about: Any, call: Any, document: bytes | None) -> int | None:
        """Returns the milliseconds after which the plugin wants to be called again for the object."""
        request = Request(about, call)
        with _Reporting(self.registry, request, about.source):
            reconciler = self.registry.reconciler
            if reconciler is None:
                return None
            handler = reconciler.handler
            object = parse_object(document, about) if document and handler.reads_object else None
            returned = handler.function(*(object, request)[: handler.parameters])
            return None if returned is None else _requeue_ms(handler, returned)

    def on_timer(self, tick: Any) -> None:
        """A run of a timer is due."""
        run = Tick(tick)
        with _Reporting(self.registry, f"timer {run}", None):
            timer = self.registry.timers.get(run.name)
            if timer is None:
                # The section of the plugin in config.toml may name other timers than the manifest.
                known = did_you_mean(run.name, list(self.registry.timers))
                raise Permanent(f"no function has the timer {run.name!r}{known}")
            handler = timer.handler
            returned = handler.function(*(run,)[: handler.parameters])
            if returned is not None:
                raise TypeError(
                    f"{handler.where} returned {_shown(returned)}, but it is about no object: return nothing; the "
                    "schedule says when it runs again"
                )

    def _handlers_of(self, source: int) -> Handlers | None:
        # With one rule, the host delivers objects of its type only.
        if self._only is not None:
            return self._only
        if source not in self._handlers:
            info = events.details_of(source)
            self._handlers[source] = _most_specific(self.registry.handlers, info.api_version, info.kind)
        return self._handlers[source]

    def on_synced(self, source: int, call: Any) -> None:
        """Every object of the source was attempted."""
        with _Reporting(self.registry, f"source {source}", source):
            for handler in self.registry.synced:
                returned = handler.function(*(Source(source), events.Call(call))[: handler.parameters])
                if returned is not None:
                    raise TypeError(
                        f"{handler.where} returned {_shown(returned)}, but it is about no object: return a delay from "
                        "on.add, on.update, on.upsert or on.delete"
                    )

    # --- indexes ---

    def index(self, about: Any, document: bytes) -> list[list[str]]:
        """The values of one object for each index, in the order of the manifest."""
        event = Event("index", about, None)
        with _Reporting(self.registry, event, None):
            object = parse_object(document, about)
            kind = (str(object.get("apiVersion", "")), str(object.get("kind", "")))
            indexer = _most_specific(self.registry.indexers, *kind)
            found: dict[str, list[str]] = {}
            for name, handler in indexer.functions if indexer is not None else ():
                name = _registry.resolve(name)
                values = handler.function(*(object, event)[: handler.parameters])
                found[name] = _index_values(handler, name, values)
            return [found.get(name, []) for name in self.index_names]

    # --- state ---

    def save(self) -> bytes:
        """The state for the next version."""
        with _Reporting(self.registry, "state", None):
            states = {name: declared for name, (declared, _) in self.registry.states.items()}
            for name, declared in states.items():
                _check_json(declared, name)
            return json.dumps({"format": STATE_FORMAT, "states": states}, separators=(",", ":")).encode()

    def restore(self, document: bytes) -> None:
        """Receives the state of the previous version."""
        with _Reporting(self.registry, "state", None):
            parsed = json.loads(document)
            saved = parsed.get("states") if isinstance(parsed, dict) else None
            if not isinstance(saved, dict) or parsed.get("format") != STATE_FORMAT:
                raise ValueError("the state of the previous version was not saved by this SDK")
            for name, (declared, migrate) in self.registry.states.items():
                if name not in saved:
                    continue
                content = migrate(saved[name]) if migrate is not None else saved[name]
                if not isinstance(content, dict):
                    raise TypeError(f"the state {name!r} is {_shown(content)}, which is not a dict")
                dropped = [member for member in content if member not in declared]
                if dropped:
                    logs.log.debug("dropped state that this version does not declare", extra={"members": dropped})
                declared.update((member, value) for member, value in content.items() if member in declared)


#: Reasons of calls that somebody asked for.
_ASKED_FOR = ("trigger", "requeue-after")


class _Reporting:
    """The frame of a call: an exception becomes ``Failed``, and the instance keeps running."""

    __slots__ = ("about", "before", "registry")

    def __init__(self, registry: Registry, about: Any, source: int | None) -> None:
        self.registry = registry
        self.about = about
        events.begin_call(source)

    def __enter__(self) -> None:
        self.before = _registry.use(self.registry)

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        _registry.use(self.before)
        if error is None:
            return
        failure = failure_of(error)
        # Informant logs failures: the first, and then summaries.
        if logs.log.isEnabledFor(10) and not isinstance(error, Refused):
            about = f"{self.about}: " if self.about else ""
            _host.active.log(_host.DEBUG, f"{about}{failure.message}", [("traceback", traceback_of(error))])
        raise Failed(failure) from error


def _most_specific(rules: dict[tuple[str, str], Any], api_version: str, kind: str) -> Any:
    """The rule that names more of the type: both members, then apiVersion alone, then kind alone, then neither."""
    for key in ((api_version, kind), (api_version, "*"), ("*", kind), ("*", "*")):
        if key in rules:
            return rules[key]
    return None


def _requeue_ms(handler: Handler, returned: Any) -> int:
    milliseconds = returned.milliseconds if isinstance(returned, Again) else delay_ms(returned)
    if milliseconds is None:
        raise TypeError(
            f"{handler.where} returned {_shown(returned)}; return nothing or, to be called again for the object in a "
            "minute, again(minutes=1), 60 or a timedelta"
        )
    return int(milliseconds)


def _index_values(handler: Handler, name: str, values: Any) -> list[str]:
    if values is None:
        return []
    if isinstance(values, (str, int, float)):
        values = [values]
    if not isinstance(values, Iterable) or isinstance(values, (bytes, Mapping)):
        raise TypeError(f"{handler.where} returned {_shown(values)} for index {name!r}; {_INDEX_HINT}")
    texts = []
    for value in values:
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, (int, float)):
            value = repr(value)
        elif value is None:
            continue
        elif not isinstance(value, str):
            raise TypeError(f"{handler.where} returned {_shown(value)} as a value of index {name!r}; {_INDEX_HINT}")
        texts.append(value)
    return list(dict.fromkeys(texts))


_INDEX_HINT = "a value is a string, a number or a boolean; return one, a list of them, or None"


def _check_json(value: Any, path: str) -> None:
    """Refuses what JSON cannot represent, or would change: keys that are no text, sets, objects."""
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}, but keys of JSON are texts: use str(key)")
            _check_json(member, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for position, element in enumerate(value):
            _check_json(element, f"{path}[{position}]")
    elif value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(f"{path} is {_shown(value)}, which JSON cannot represent; use dict, list, str or numbers")
    elif isinstance(value, float) and value - value != 0:
        raise TypeError(f"{path} is {value}, which JSON cannot represent")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
