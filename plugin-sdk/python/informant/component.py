"""The exports of a component.

The app of componentize-py is a module of yours, which imports them and your handlers::

    # app.py
    from informant.component import *
    import handlers

The top level of your modules runs when the component is built. What needs the plugin's config belongs into
``@on.startup`` or into handlers.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
from typing import Any, NoReturn

from . import blocked, events, failure, logs
from . import host as _host
from . import registry as _registry
from .bindings import Bindings, Err, types
from .dispatch import Dispatcher, Failed
from .failure import Failure

__all__ = ["EventHandler", "IndexFuncs", "Lifecycle", "Reconciler", "State", "SyncHandler", "TimerHandler"]

_dispatcher: Dispatcher | None = None


def load(context: dict[str, Any]) -> Dispatcher:
    """The plugin for this context. The script runner replaces this function."""
    return Dispatcher(_registry.active)


#: What ``load`` does, which the script runner sets.
loader = load


def _prepare(context: bytes) -> dict[str, Any]:
    """Prepares a new instance."""
    parsed: dict[str, Any] = json.loads(context)
    _host.use(Bindings())
    events.forget_sources()
    # `describe` logs, too, but its context has no level.
    logs.install(parsed.get("logLevel") if "role" in parsed else "trace")
    # The component is a snapshot, in which every instance would start with the same numbers.
    random.seed()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return parsed


def _refuse(failure: Failure) -> NoReturn:
    if failure.kind == "permanent":
        raise Err(types.Failure_Permanent(failure.message))
    if failure.kind == "retry-after":
        raise Err(types.Failure_RetryAfter(types.RetryLater(failure.message, failure.after_ms)))
    raise Err(types.Failure_Retryable(failure.message))


def _instance() -> Dispatcher:
    if _dispatcher is None:
        _refuse(Failure("retryable", "the plugin was called before init"))
    return _dispatcher


class Lifecycle:
    """The manifest, and the start of an instance."""

    def describe(self, context: bytes) -> bytes:
        """The manifest, as JSON."""
        parsed = _prepare(context)
        try:
            return json.dumps(loader(parsed).describe(parsed), ensure_ascii=False).encode()
        except Failed as failed:
            raise Err(failed.failure.message) from None

    def init(self, context: bytes) -> None:
        """Starts an instance."""
        global _dispatcher
        parsed = _prepare(context)
        try:
            _dispatcher = loader(parsed)
            _dispatcher.init(parsed)
        except Failed as failed:
            _refuse(failed.failure)
        # The collector does not visit what is there from now on.
        gc.freeze()


class EventHandler:
    """Handles changes of objects."""

    def on_add(self, about: Any, call: Any, object: bytes) -> int | None:
        """An object is new, or shown again."""
        try:
            return _instance().on_add(about, call, object)
        except Failed as failed:
            _refuse(failed.failure)

    def on_update(self, about: Any, call: Any, old: bytes | None, object: bytes) -> int | None:
        """An object has changed, or is shown again."""
        try:
            return _instance().on_update(about, call, old, object)
        except Failed as failed:
            _refuse(failed.failure)

    def on_delete(self, about: Any, call: Any, last: bytes | None, final_state_unknown: bool) -> int | None:
        """An object is gone."""
        try:
            return _instance().on_delete(about, call, last, final_state_unknown)
        except Failed as failed:
            _refuse(failed.failure)


class Reconciler:
    """Reconciles objects."""

    def reconcile(self, about: Any, request: Any, object: bytes | None) -> int | None:
        """An object, or one that leads to it, has changed."""
        try:
            return _instance().reconcile(about, request, object)
        except Failed as failed:
            _refuse(failed.failure)


class TimerHandler:
    """Is called on a schedule."""

    def on_timer(self, tick: Any) -> None:
        """A run of a timer is due."""
        try:
            _instance().on_timer(tick)
        except Failed as failed:
            _refuse(failed.failure)


class SyncHandler:
    """Handles the end of initial lists and replays."""

    def on_synced(self, source: int, call: Any) -> None:
        """Every object of the source was attempted."""
        try:
            _instance().on_synced(source, call)
        except Failed as failed:
            _refuse(failed.failure)


class IndexFuncs:
    """Computes index values."""

    def index(self, about: Any, object: bytes) -> list[list[str]]:
        """The values of an object for each index."""
        try:
            return _instance().index(about, object)
        except Failed as failed:
            raise Err(failed.failure.message) from None


class State:
    """Hands over the state."""

    def save(self) -> bytes:
        """The state for the next version."""
        try:
            return _instance().save()
        except Failed as failed:
            _refuse(failed.failure)

    def restore(self, state: bytes) -> None:
        """Receives the state of the previous version."""
        try:
            _instance().restore(state)
        except Failed as failed:
            _refuse(failed.failure)


def _is_of_app(globals: dict[str, Any]) -> bool:
    """Whether a module is in the folder of the app, as opposed to the standard library and installed packages."""
    file = globals.get("__file__")
    return bool(_APP) and isinstance(file, str) and file.startswith(_APP) and "site-packages" not in file


def _app_folder() -> str:
    """The folder of the module that imports this one."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_globals.get("__file__")
        name = str(frame.f_globals.get("__name__", ""))
        if file and not name.startswith(("informant.", "importlib")) and not frame.f_code.co_filename.startswith("<"):
            return f"{os.path.dirname(file)}{os.sep}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


_APP = _app_folder()
blocked.install(_is_of_app)
if _APP:
    failure.use_own(lambda file: file.startswith(_APP))
