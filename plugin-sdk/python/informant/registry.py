"""What a plugin registers when its top level runs: handlers, timers, indexes, state, needs, settings and metrics."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .errors import Refused

Function = Callable[..., Any]


#: The parts of an object that a handler can ask for besides single fields. Of several, the first one here counts.
PAYLOADS = ("whole", "metadata", "none")

EVENTS = ("add", "update", "delete")


class Handler:
    """A registered function."""

    __slots__ = ("function", "parameters", "reads_object", "where")

    def __init__(self, function: Function, what: str, parameters_max: int = 2) -> None:
        self.where = where_of(function)
        if not callable(function):
            raise Refused(f"{what}: {function!r} is not a function; write @{what}(...) above a function")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise Refused(f"{self.where} is async, but handlers are ordinary functions: Informant has no event loop")
        if inspect.isgeneratorfunction(function):
            raise Refused(f"{self.where} contains yield, but a handler returns")
        self.function = function
        self.parameters = _parameters(function, self.where, parameters_max)
        self.reads_object = self.parameters > 0 and _uses_first_parameter(function)


class Rule:
    """Which objects of one type a plugin receives, from what its handlers say. Handlers of a type share its rule."""

    __slots__ = ("api_version", "by", "changed_only", "fields", "kind", "namespaces", "old", "payloads", "selector")

    def __init__(self, api_version: str, kind: str) -> None:
        self.api_version = api_version
        self.kind = kind
        #: What the functions want instead of fields: words, or functions that return a word or fields.
        self.payloads: list[Any] = []
        self.fields: list[Any] = []
        #: Whether each function wants the previous state.
        self.old: list[Any] = []
        self.changed_only: bool | None = None
        self.namespaces: Any = None
        self.selector: Any = None
        #: The function that said it first, for messages.
        self.by: dict[str, str] = {}

    def want(self, where: str, payload: str | None, fields: Any) -> None:
        """Adds what one function wants to receive of an object."""
        if payload is not None and not callable(payload):
            check_payload(where, payload)
        if fields is not None:
            if payload is not None:
                raise Refused(f"{where}: pass either fields or payload")
            self.fields.append(fields)
        elif payload is not None:
            self.payloads.append(payload)

    def agree(self, where: str, option: str, value: Any) -> None:
        """Sets an option that all handlers of the type share."""
        if value is None:
            return
        before = getattr(self, option)
        if before is not None and before != value:
            name = "label_selector" if option == "selector" else option
            raise Refused(
                f"{where} and {self.by[option]} handle {self.kind} of {self.api_version} with different values of "
                f"{name}: Informant has one rule for each kind; say it once, or filter in the handler"
            )
        setattr(self, option, value)
        self.by.setdefault(option, where)


def check_payload(where: str, payload: Any) -> None:
    """Refuses what is no payload. ``where`` begins the message."""
    if payload not in PAYLOADS:
        raise Refused(f"{where}: payload is {payload!r}; write one of {', '.join(PAYLOADS)}, or use fields=[...]")


class Handlers:
    """The rule of one type, and the functions that handle its objects."""

    __slots__ = ("add", "delete", "rule", "update")

    def __init__(self, api_version: str, kind: str) -> None:
        self.rule = Rule(api_version, kind)
        self.add: list[Handler] = []
        self.update: list[Handler] = []
        self.delete: list[Handler] = []


class Indexer:
    """The rule of one type, and the functions that compute its index values, by the name of the index."""

    __slots__ = ("functions", "rule")

    def __init__(self, api_version: str, kind: str) -> None:
        self.rule = Rule(api_version, kind)
        self.functions: list[tuple[Any, Handler]] = []


class Reconciler:
    """What is reconciled, what leads to it, and the function that does it."""

    __slots__ = ("handler", "min_interval", "owns", "rule", "watches", "when")

    def __init__(
        self, rule: Rule, handler: Handler, when: list[str], owns: list[Any], watches: list[Any], min_interval: Any
    ) -> None:
        self.rule = rule
        self.handler = handler
        self.when = when
        self.owns = owns
        self.watches = watches
        self.min_interval = min_interval


class Timer:
    """When a function runs, and the function. An option may be a function that returns it."""

    __slots__ = ("handler", "options")

    def __init__(self, handler: Handler, options: dict[str, Any]) -> None:
        self.handler = handler
        #: As the manifest names them.
        self.options = options


class Registry:
    """Everything that one plugin has registered."""

    def __init__(self, name: str = "plugin") -> None:
        self.name = name
        self.version = "0"
        self.options: dict[str, Any] = {}
        self.handlers: dict[tuple[str, str], Handlers] = {}
        self.indexers: dict[tuple[str, str], Indexer] = {}
        self.reconciler: Reconciler | None = None
        self.timers: dict[str, Timer] = {}
        self.synced: list[Handler] = []
        self.startup: list[Handler] = []
        self.needs: list[dict[str, Any]] = []
        self.metrics: list[dict[str, Any]] = []
        self.states: dict[str, Any] = {}
        self.settings: list[Any] = []
        #: The context of `describe` or `init`; ``None`` before.
        self.context: Mapping[str, Any] | None = None

    def handlers_of(self, api_version: str, kind: str) -> Handlers:
        """The handlers of a type, which are created if there are none."""
        return self.handlers.setdefault((api_version, kind), Handlers(api_version, kind))

    def indexer_of(self, api_version: str, kind: str) -> Indexer:
        """The index functions of a type, which are created if there are none."""
        return self.indexers.setdefault((api_version, kind), Indexer(api_version, kind))

    def is_empty(self) -> bool:
        """Whether Informant would never call a function of the plugin."""
        return not (self.handlers or self.reconciler or self.timers or self.indexers or self.synced)


#: Where decorators register.
active = Registry()


def use(registry: Registry) -> Registry:
    """Makes decorators register here. Returns the previous registry."""
    global active
    previous, active = active, registry
    return previous


def where_of(function: Any) -> str:
    """``name (handler.py:3)``, for messages."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    name = getattr(function, "__name__", repr(function))
    if code is None:
        return str(name)
    return f"{name} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"


def check_type(what: str, api_version: Any, kind: Any) -> None:
    """Checks the type of a decorator: ``"v1", "Pod"``."""
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        raise Refused(f'@{what} needs the type of the objects: @{what}("v1", "Pod"), or "*" for any')
    if kind != "*" and kind[:1].islower():
        raise Refused(f'@{what}("{api_version}", "{kind}"): write the kind, not the resource, as in "Pod"')


def check_timer(where: str, options: Mapping[str, Any]) -> None:
    """Refuses options that are no schedule. Those that are functions are checked when they have returned."""
    cron, every, missed = options["cron"], options["every"], options["missed"]
    if cron is None and every is None:
        raise Refused(f'{where} has neither cron nor every: write cron="0 8 * * 1-5" or every="10m"')
    if cron is not None and every is not None:
        raise Refused(f"{where} has both cron and every: keep one of them")
    if every is not None and options["zone"] is not None:
        raise Refused(f"{where} has a zone, which belongs to cron: remove it")
    for member, form in (("cron", "0 8 * * 1-5"), ("zone", "Europe/Berlin"), ("every", "10s"), ("jitter", "1m 30s")):
        value = options[member]
        if value is not None and not isinstance(value, str) and not callable(value):
            raise Refused(f'{where}: {member} is {value!r}; write a text, as in {member}="{form}"')
    if isinstance(cron, str) and len(cron.split()) != 5:
        fields = "minute, hour, day of the month, month, day of the week"
        raise Refused(f"{where}: cron is {cron!r}; write five fields ({fields})")
    if missed not in ("once", "skip"):
        raise Refused(f'{where}: missed is {missed!r}; write "once" or "skip"')


def resolve(value: Any) -> Any:
    """The value of an option that may be a function of the config."""
    return value() if callable(value) else value


def _parameters(function: Function, where: str, most: int) -> int:
    """How many positional arguments the function takes, at most ``most``."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return most
    taken = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return most
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            if taken == most and parameter.default is parameter.empty:
                raise Refused(f"{where} takes more than {most} arguments: {signature}")
            taken += taken < most
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise Refused(f"{where} requires the keyword argument {parameter.name}, which Informant does not pass")
    return taken


#: Functions that read local variables by their names.
_BY_NAME = frozenset({"locals", "vars", "eval", "exec", "dir"})


def _uses_first_parameter(function: Function) -> bool:
    """Whether the function reads its first argument. One that it never reads is not parsed."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount == 0 or hasattr(function, "__wrapped__"):
        return True
    if inspect.ismethod(function):
        return True
    name = code.co_varnames[0]
    if name in code.co_cellvars or _BY_NAME.intersection(code.co_names):
        return True
    import dis

    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("LOAD_", "STORE_", "DELETE_")):
            names = instruction.argval
            if name == names or (isinstance(names, tuple) and name in names):
                return True
    return False
