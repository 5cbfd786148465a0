"""The calls of a scenario: retries, dead letters and a clock that only ``wait`` moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from ...dispatch import Failed
from ..driver import Driver
from .nodes import Node

#: Seconds; as in Informant, without what it adds at random.
BACK_OFF_FIRST = 1.0
BACK_OFF_MAX = 300.0
REQUEUE_MIN = 0.1

#: The most events of the plugin's own writes after one call.
EVENTS_MAX = 1_000


class Known(Enum):
    """What the plugin knows of an object before a call."""

    #: It has accepted the state before, or received none.
    EXACTLY = 1
    #: As before, but a call has failed since. So it is called even if nothing that it receives has changed.
    MAYBE = 2
    #: Somebody asked for the call: an update without an old state.
    ASKED = 3


class ObjectCall(NamedTuple):
    """Delivers what an object is when the call is made."""

    reason: str
    known: Known
    before: Any = None


class DeletedCall(NamedTuple):
    """Delivers the end of an object, whose last state this is."""

    reason: str
    last: Any
    final_state_unknown: bool = False


class SyncedCall(NamedTuple):
    """Delivers the end of a list."""


class TimerCall(NamedTuple):
    """Runs a timer."""

    timer: str
    scheduled: datetime
    #: How many earlier runs it stands for.
    missed: int = 0


Call = ObjectCall | DeletedCall | SyncedCall | TimerCall


@dataclass
class LaterCall:
    """A call that is due later: a retry, or one that the plugin asked for."""

    key: Any
    due: float
    call: Call
    attempt: int
    #: Of a retry, those that lengthen the back-off: not the waits that the plugin asked for.
    failures: int | None


class DeadLetter(NamedTuple):
    message: str
    call: Call


class Calls:
    """Calls the plugin for what happens, as Informant does."""

    def __init__(self, driver: Driver, root: Node) -> None:
        self._driver = driver
        self._root = root
        #: Seconds since the steps began.
        self.now = 0.0
        self._later: dict[Any, LaterCall] = {}
        self.dead_letters: dict[Any, DeadLetter] = {}

    def event(self, key: Any, before: Any, reason: str) -> None:
        """Delivers what an object is now. While a retry is due, that delivers it."""
        if before is not None and not self._driver._selects(before):
            before = None
        now, retry = self._received(key), self._retry(key)
        pending = None if retry is None else retry.call
        if isinstance(pending, DeletedCall) or (before is None and now is None):
            # What follows is delivered after the end of the object before.
            return
        if now is None:
            call: Call = DeletedCall(reason, before)
        elif isinstance(pending, ObjectCall):
            call = pending._replace(reason=reason)
        else:
            call = ObjectCall(reason, Known.MAYBE if key in self.dead_letters else Known.EXACTLY, before)
        if retry is None:
            self.make(key, call)
        else:
            retry.attempt, retry.call = 0, call

    def _received(self, key: Any) -> Any:
        """The object of a key, if the plugin receives it."""
        object = self._driver.host.cluster.objects.get(key)
        return object if object is not None and self._driver._selects(object) else None

    def _retry(self, key: Any) -> LaterCall | None:
        later = self._later.get(key)
        return None if later is None or later.failures is None else later

    def ask(self, key: Any, call: Call) -> None:
        """Makes a call that somebody asks for, unless a retry is due."""
        if self._retry(key) is None:
            self.make(key, call)
        self.settle()

    def run_timer(self, call: TimerCall) -> None:
        """Runs a timer. While a retry of it is due, that stands for the run, too."""
        key = ("timer", call.timer)
        retry = self._retry(key)
        if retry is not None and isinstance(retry.call, TimerCall):
            retry.attempt, retry.call = 0, call._replace(missed=retry.call.missed + 1)
        else:
            self.make(key, call)
        self.settle()

    def settle(self) -> None:
        """Delivers the events of the plugin's own writes."""
        changed = self._driver.host.cluster.changed
        events = 0
        while changed:
            events += 1
            if events > EVENTS_MAX:
                self._root.fail(f"the plugin still writes after {EVENTS_MAX} events: compare before writing")
            self.event(*changed.pop(0), "watch")

    def make(self, key: Any, call: Call, attempt: int = 0, failures: int = 0) -> None:
        """Makes a call, and keeps what follows from it."""
        calls, failed = len(self._driver.calls), None
        try:
            self._call(key, call, attempt)
        except Failed as error:
            failed = error
        # An event that the plugin is not called for cancels nothing.
        if len(self._driver.calls) == calls:
            return
        self._later.pop(key, None)
        if failed is None or failed.kind == "permanent":
            self._end(key, call, failed)
            return
        if failed.kind == "retry-after":
            after = failed.failure.after_ms / 1000
        else:
            after, failures = min(BACK_OFF_FIRST * 2**failures, BACK_OFF_MAX), failures + 1
        if isinstance(call, ObjectCall) and call.known is Known.EXACTLY:
            call = call._replace(known=Known.MAYBE)
        self._later[key] = LaterCall(key, self.now + after, call, attempt + 1, failures)

    def _end(self, key: Any, call: Call, failed: Failed | None) -> None:
        """A call has succeeded, or is not retried."""
        self.dead_letters.pop(key, None)
        if failed is None:
            self._keep_requeue(key)
        # A dead letter is about an object.
        elif isinstance(call, (ObjectCall, DeletedCall)):
            self.dead_letters[key] = DeadLetter(failed.message, call)
        # It was created again while the delete was retried.
        if isinstance(call, DeletedCall) and self._received(key) is not None:
            self.event(key, None, "watch")

    def _call(self, key: Any, call: Call, attempt: int) -> None:
        driver, now = self._driver, self._received(key)
        if isinstance(call, SyncedCall):
            driver._synced(key[0], attempt)
        elif isinstance(call, TimerCall):
            # A swap may have removed it while a retry was due.
            if call.timer in driver._timers:
                driver.tick(call.timer, scheduled=call.scheduled, missed=call.missed, attempt=attempt)
        elif isinstance(call, DeletedCall):
            driver._call_delete(call.reason, attempt, key, call.last, call.final_state_unknown)
        elif now is not None and call.known is Known.EXACTLY:
            driver._deliver(key, call.before, now, call.reason, attempt)
        elif now is not None:
            is_new = call.known is Known.MAYBE and call.before is None
            driver._upsert(call.reason, attempt, key, is_new, call.before, now)

    def _keep_requeue(self, key: Any) -> None:
        """Keeps the call that the plugin has asked for."""
        requeue = self._driver._requeues.get(key)
        if requeue is None:
            return
        call: Call = ObjectCall("requeue-after", Known.ASKED)
        if requeue.deleted is not None:
            call = DeletedCall("requeue-after", *requeue.deleted)
        self._later[key] = LaterCall(key, self.now + max(requeue.seconds, REQUEUE_MIN), call, 0, None)

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = sorted((later for later in self._later.values() if later.due <= end), key=lambda later: later.due)
            if not due:
                break
            later = due[0]
            self.now = max(self.now, later.due)
            del self._later[later.key]
            self.make(later.key, later.call, later.attempt, later.failures or 0)
            self.settle()
        self.now = end

    def redeliver(self, key: Any) -> None:
        # As if for the first time.
        call: Call = ObjectCall("requeue", Known.MAYBE)
        letter = self.dead_letters.get(key)
        if letter is not None and isinstance(letter.call, DeletedCall) and self._received(key) is None:
            call = letter.call._replace(reason="requeue")
        self.ask(key, call)
