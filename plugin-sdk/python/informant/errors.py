"""Errors that handlers raise and catch, and what Informant does about each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

#: The longest delay that the contract can express: about 49 days.
DELAY_MS_MAX = 2**32 - 1

#: Seconds, or a timedelta.
Duration = int | float | timedelta


def delay_ms(duration: Any) -> int | None:
    """The delay in milliseconds that the contract can express; ``None`` if ``duration`` is not a duration.

    A time in the past is 0, and a longer one than the contract allows is its maximum.
    """
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, (int, float)) or duration != duration:
        return None
    return int(min(max(duration * 1000, 0), DELAY_MS_MAX) + 0.5)


class Permanent(Exception):
    """The event becomes a dead letter: Informant does not retry it."""


class RetryAfter(Exception):
    """Retry after this time. Informant does not count it as a failed attempt."""

    def __init__(self, seconds: Duration, message: str = "not yet") -> None:
        milliseconds = delay_ms(seconds)
        if milliseconds is None:
            raise TypeError(f"RetryAfter: {seconds!r} is not a number of seconds or a timedelta")
        super().__init__(message)
        self.milliseconds = milliseconds


class Refused(Exception):
    """The plugin cannot be used as it is written or configured. Its message says what to change."""


class HostError(Exception):
    """A call to Informant failed. ``code`` is a name of the contract, such as ``not-ready``."""

    #: Codes of calls that would fail again.
    _permanent = frozenset({"denied", "not-here", "unknown-informer", "unknown-index", "unsupported", "invalid"})

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_permanent(self) -> bool:
        """Whether the same call would fail again until the plugin or config.toml changes."""
        return self.code in self._permanent


class KubeError(HostError):
    """A call to the Kubernetes API failed.

    ``status`` is the HTTP status, 0 without a response; ``reason`` is that of the API server's Status, such as
    ``AlreadyExists``; ``retry_after_ms`` is the delay that the API server asks for, 0 if it does not ask.
    """

    _permanent = frozenset({"denied", "not-here", "invalid", "too-large", "unsupported"})

    def __init__(self, code: str, message: str, status: int = 0, reason: str = "", retry_after_ms: int = 0) -> None:
        super().__init__(code, message)
        self.status = status
        self.reason = reason
        self.retry_after_ms = retry_after_ms

    @property
    def may_be_done(self) -> bool:
        """Whether a write may have happened although no response arrived."""
        return self.code in ("timeout", "unavailable")


class HttpError(HostError):
    """An HTTP request failed. ``status`` is set if ``ensure_ok`` raised the error, otherwise it is 0."""

    _permanent = frozenset({"denied", "invalid", "request-too-large", "response-too-large"})

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        super().__init__(code, message)
        self.status = status


def consequence(error: BaseException) -> str | int | None:
    """What follows from an exception: ``"permanent"``, the milliseconds before the retry, or the usual back-off."""
    if isinstance(error, (Permanent, Refused)):
        return "permanent"
    if isinstance(error, RetryAfter):
        return error.milliseconds
    if isinstance(error, HostError):
        if error.is_permanent:
            return "permanent"
        return getattr(error, "retry_after_ms", 0) or None
    return None


def nearest(name: str, known: list[str]) -> str | None:
    """The one of the known names that ``name`` may be a typo of."""
    from difflib import get_close_matches

    by_key = {other.lower().replace("_", "-"): other for other in known}
    found = get_close_matches(name.lower().replace("_", "-"), list(by_key), n=1, cutoff=0.6)
    return by_key[found[0]] if found else None


def did_you_mean(name: str, known: list[str]) -> str:
    """The end of a message about an unknown name."""
    meant = nearest(name, known)
    if meant is not None:
        return f"; did you mean {meant}?"
    return f"; known are {', '.join(sorted(known))}" if known else "; none is known"
