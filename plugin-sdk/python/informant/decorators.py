"""What plugins register with: ``on``, ``reconcile``, ``timer``, ``index``, ``state``, ``needs`` and ``plugin``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from . import registry as _registry
from .errors import Refused, delay_ms
from .objects import Fields
from .registry import Handler, check_type

F = TypeVar("F", bound=Callable[..., Any])

#: A text, or a function that returns it once the plugin's config is known.
Text = str | Callable[[], str]

#: Texts, a single one, or a function that returns them once the plugin's config is known.
Texts = str | Iterable[str] | Callable[[], Iterable[str]]

#: How much of an object a handler receives, instead of single fields. A function that returns it once the plugin's
#: config is known may also return fields.
Payload = Literal["whole", "metadata", "none"] | Callable[[], str | Iterable[str]]

#: Yes or no, or a function that returns it once the plugin's config is known.
Flag = bool | Callable[[], bool]


class On:
    """Decorators for handlers.

    A handler is called with the object and the event, or with as many of the two as it has parameters. It may return
    a delay: then it is called again for the object after that time.
    """

    def add(
        self,
        api_version: str,
        kind: str,
        *,
        fields: Texts | None = None,
        payload: Payload | None = None,
        old: Flag = False,
        changed_only: bool | None = None,
        namespaces: Texts | None = None,
        label_selector: Text | None = None,
    ) -> Callable[[F], F]:
        """Calls the function for each object of the first list, each new object, and each object of a replay."""
        options = (fields, payload, old, changed_only, namespaces, label_selector)
        return _register("on.add", ("add",), api_version, kind, *options)

    def update(
        self,
        api_version: str,
        kind: str,
        *,
        fields: Texts | None = None,
        payload: Payload | None = None,
        old: Flag = False,
        changed_only: bool | None = None,
        namespaces: Texts | None = None,
        label_selector: Text | None = None,
    ) -> Callable[[F], F]:
        """Calls the function for each change, and for each object of a resync."""
        options = (fields, payload, old, changed_only, namespaces, label_selector)
        return _register("on.update", ("update",), api_version, kind, *options)

    def upsert(
        self,
        api_version: str,
        kind: str,
        *,
        fields: Texts | None = None,
        payload: Payload | None = None,
        old: Flag = False,
        changed_only: bool | None = None,
        namespaces: Texts | None = None,
        label_selector: Text | None = None,
    ) -> Callable[[F], F]:
        """Calls the function for adds and updates alike: the object now has this state."""
        options = (fields, payload, old, changed_only, namespaces, label_selector)
        return _register("on.upsert", ("add", "update"), api_version, kind, *options)

    def delete(
        self,
        api_version: str,
        kind: str,
        *,
        fields: Texts | None = None,
        payload: Payload | None = None,
        old: Flag = False,
        changed_only: bool | None = None,
        namespaces: Texts | None = None,
        label_selector: Text | None = None,
    ) -> Callable[[F], F]:
        """Calls the function when an object is gone, with its last state, or ``None`` if the cache knew none."""
        options = (fields, payload, old, changed_only, namespaces, label_selector)
        return _register("on.delete", ("delete",), api_version, kind, *options)

    def synced(self, function: F) -> F:
        """Calls the function with a source, once every object of its first list or of a replay was attempted."""
        _registry.active.synced.append(Handler(function, "on.synced"))
        return function

    def startup(self, function: F) -> F:
        """Calls the function in each new instance, before any other call. It may use ``kv`` and the log only."""
        _registry.active.startup.append(Handler(function, "on.startup", parameters_max=0))
        return function


def _register(
    what: str,
    events: tuple[str, ...],
    api_version: str,
    kind: str,
    fields: Texts | None,
    payload: Payload | None,
    old: Flag,
    changed_only: bool | None,
    namespaces: Texts | None,
    label_selector: Text | None,
) -> Callable[[F], F]:
    check_type(what, api_version, kind)

    def register(function: F) -> F:
        handler = Handler(function, what)
        handlers = _registry.active.handlers_of(api_version, kind)
        rule = handlers.rule
        rule.want(handler.where, payload, fields)
        rule.old.append(old)
        rule.agree(handler.where, "changed_only", changed_only)
        rule.agree(handler.where, "namespaces", namespaces)
        rule.agree(handler.where, "selector", label_selector)
        for event in events:
            getattr(handlers, event).append(handler)
        return function

    return register


on = On()


def index(
    name: Text, api_version: str, kind: str, *, fields: Texts | None = None, payload: Payload | None = None
) -> Callable[[F], F]:
    """Computes the values of an index: a string, number or boolean, a list of them, or ``None``.

    The result must depend only on the object. Several functions may compute one index, for different kinds.
    """
    check_type("index", api_version, kind)
    if not isinstance(name, str) and not callable(name):
        raise Refused('@index needs the name of the index first: @index("image", "v1", "Pod")')

    def register(function: F) -> F:
        handler = Handler(function, "index")
        indexer = _registry.active.indexer_of(api_version, kind)
        indexer.rule.want(handler.where, payload, fields)
        if any(other == name for other, _ in indexer.functions):
            raise Refused(f"{handler.where}: index {name!r} of {kind} has another function already")
        indexer.functions.append((name, handler))
        return function

    return register


class Related:
    """A kind whose objects lead to those that are reconciled."""

    __slots__ = ("document",)

    def __init__(self, document: dict[str, Any]) -> None:
        #: As the manifest has it.
        self.document = document


def related(
    api_version: str,
    kind: str,
    *,
    when: str | Iterable[str] | None = None,
    by: str | None = None,
    by_label: str | None = None,
    by_annotation: str | None = None,
    by_index: str | None = None,
) -> Related:
    """A kind for ``owns`` or ``watches`` of ``reconcile``.

    ``when``: what has to change: ``generation``, ``labels`` or JSON pointers. ``by``: ``owner`` (the controller),
    ``any-owner`` or ``namespace``. ``by_label``, ``by_annotation``: the name of one that has the name of the object.
    ``by_index``: the name of an index of the plugin that has the objects under the key of this one.
    """
    check_type("related", api_version, kind)
    named = {"label": by_label, "annotation": by_annotation, "index": by_index}
    given: list[Any] = [{member: name} for member, name in named.items() if name is not None]
    if by is not None:
        words = {"owner": "owner", "any-owner": "anyOwner", "namespace": "namespace"}
        if by not in words:
            raise Refused(f"related({kind}): by is {by!r}; write one of {', '.join(words)}")
        given.append(words[by])
    if len(given) > 1:
        raise Refused(f"related({kind}): an object leads there in one way; pass one of by, by_label and so on")
    document: dict[str, Any] = {"apiVersion": api_version, "kind": kind}
    if when is not None:
        document["when"] = listed(when)
    if given:
        document["by"] = given[0]
    return Related(document)


def reconcile(
    api_version: str,
    kind: str,
    *,
    owns: Iterable[Related] = (),
    watches: Iterable[Related] = (),
    when: str | Iterable[str] | None = None,
    fields: Texts | None = None,
    payload: Payload | None = None,
    namespaces: Texts | None = None,
    label_selector: Text | None = None,
    min_interval: Text | None = None,
) -> Callable[[F], F]:
    """Calls the function for one object at a time, when that, or one that leads to it, has changed; and after a start.

    It receives the object, or ``None`` if it is gone, and the request. ``owns``: kinds that the plugin makes for the
    objects. ``watches``: other kinds that lead to them. ``when``: what has to change in an object: ``generation``,
    ``labels`` or JSON pointers. That it is being deleted, and its finalizers, always count. ``generation`` stands for
    any change of an object that has none. ``min_interval``: the shortest time from the end of one call for an object to
    the start of the next, ``10s``, unless the plugin's section sets another.
    """
    check_type("reconcile", api_version, kind)

    def register(function: F) -> F:
        handler = Handler(function, "reconcile")
        registry = _registry.active
        if registry.reconciler is not None:
            raise Refused(f"{handler.where}: {registry.reconciler.handler.where} reconciles already; a plugin has one")
        rule = _registry.Rule(api_version, kind)
        rule.want(handler.where, payload, fields)
        rule.agree(handler.where, "namespaces", namespaces)
        rule.agree(handler.where, "selector", label_selector)
        parts = [] if when is None else listed(when)
        kinds = [_related(handler.where, group) for group in (owns, watches)]
        registry.reconciler = _registry.Reconciler(rule, handler, parts, *kinds, min_interval)
        return function

    return register


def _related(where: str, group: Any) -> list[Related]:
    kinds = [group] if isinstance(group, Related) else list(group)
    wrong = next((kind for kind in kinds if not isinstance(kind, Related)), None)
    if wrong is not None:
        raise Refused(f'{where}: {wrong!r} is no kind; write related("apps/v1", "Deployment")')
    return kinds


def timer(
    name: str,
    *,
    cron: Text | None = None,
    zone: Text | None = None,
    every: Text | None = None,
    missed: Literal["once", "skip"] = "once",
    jitter: Text | None = None,
    at_start: Flag = False,
) -> Callable[[F], F]:
    """Calls the function on a schedule, with the tick: at the times of ``cron``, or each time ``every`` has passed.

    ``cron``: five fields, in the time zone ``zone``, which is UTC by default. ``missed``: whether one run makes up for
    those that were missed while Informant was down, or none (``skip``). ``jitter``: each run is up to this time later,
    by chance. ``at_start``: run once at the start, too. Durations are texts: ``10s``, ``1h 30m``.
    """
    if not isinstance(name, str) or not name:
        raise Refused('@timer needs a name and a schedule: @timer("poll", every="10s")')
    options = {"cron": cron, "every": every, "zone": zone, "missed": missed, "jitter": jitter, "atStart": at_start}
    _registry.check_timer(f"@timer({name!r})", options)

    def register(function: F) -> F:
        handler = Handler(function, "timer", parameters_max=1)
        timers = _registry.active.timers
        if name in timers:
            raise Refused(
                f"{handler.where} and {timers[name].handler.where} have a timer of the same name, {name!r}: rename one"
            )
        timers[name] = _registry.Timer(handler, options)
        return function

    return register


class State(Fields):
    """What the plugin hands over to its next version: a dict whose members can be read and set as attributes."""

    __slots__ = ()


def state(
    initial: dict[str, Any], *, name: str = "state", migrate: Callable[[dict[str, Any]], dict[str, Any]] | None = None
) -> Any:
    """Declares state that the next version of the plugin receives when it takes over. It must be JSON.

    Members that the next version does not declare are dropped, and those that it adds keep their initial value.
    ``migrate`` receives what another version saved and returns what this one expects.
    """
    if not isinstance(initial, dict):
        raise Refused(f'state({initial!r}): pass a dict of names and initial values: state({{"seen": {{}}}})')
    if name in _registry.active.states:
        raise Refused(f"state is declared twice with the name {name!r}; declare it once, or pass another name")
    declared = State(copy.deepcopy(initial))
    _registry.active.states[name] = (declared, migrate)
    return declared


def needs(
    *verbs: str,
    resource: str,
    namespaces: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
    subresources: Iterable[str] | None = None,
) -> None:
    """States a grant without which the plugin must not be loaded: ``needs("patch", resource="v1/pods")``."""
    if not verbs:
        raise Refused('needs: name the verbs first: needs("get", "patch", resource="v1/pods")')
    if not all(isinstance(verb, str) for verb in verbs):
        raise Refused('needs: each verb is an argument of its own: needs("get", "patch", resource="v1/pods")')
    kube: dict[str, Any] = {"verbs": list(verbs), "resource": resource}
    given = {"namespaces": namespaces, "names": names, "subresources": subresources}
    kube.update({member: listed(value) for member, value in given.items() if value is not None})
    _registry.active.needs.append({"kube": kube})


def needs_events() -> None:
    """States that the plugin must not be loaded without ``allow.events = true``: it records Kubernetes Events."""
    if {"events": {}} not in _registry.active.needs:
        _registry.active.needs.append({"events": {}})


def plugin(
    name: str | None = None, *, version: str | None = None, parallel: bool = False, writes: str = "done"
) -> None:
    """Says what the plugin is called, and how Informant runs it. Without it, the name is that of the file.

    ``parallel``: several instances may handle the events. ``writes="seen"``: an event counts as handled when the cache
    has seen its deferred writes.
    """
    registry = _registry.active
    registry.name = name or registry.name
    registry.version = version or registry.version
    registry.options = {}
    if parallel:
        registry.options["parallel"] = True
    if writes != "done":
        registry.options["writes"] = writes


class Again:
    """What a handler returns to be called again for its object."""

    __slots__ = ("milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Again) and other.milliseconds == self.milliseconds

    def __repr__(self) -> str:
        return f"again(seconds={self.milliseconds / 1000:g})"


def again(*, seconds: float = 0, minutes: float = 0, hours: float = 0) -> Again:
    """Return this from a handler: done, and call me for this object again after that time."""
    milliseconds = delay_ms(seconds + 60 * minutes + 3600 * hours)
    if milliseconds is None:
        raise TypeError("again: pass numbers, as in again(seconds=2)")
    return Again(milliseconds)


def listed(value: Any) -> list[Any]:
    """A list of an option, for which a single text is accepted."""
    return [value] if isinstance(value, str) else list(value)
