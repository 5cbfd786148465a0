"""Metrics of the plugin's own. Informant exports the metric NAME as ``informant_plugin_custom_NAME``.

Declare them at the top level, and change them in handlers::

    restarts = metrics.counter("restarts", "Restarts of containers.", labels=["namespace"])

    restarts.add(namespace=event.namespace)

Changes take effect when the handler has succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import host as _host
from . import registry as _registry
from .errors import Refused

#: The value of a series and its labels: ``(3, {"node": "a"})``.
Sample = tuple[int | float, Mapping[str, Any]]

__all__ = ["Counter", "Gauge", "Histogram", "counter", "gauge", "histogram"]


class _Metric:
    """A declared metric."""

    def __init__(self, name: str, labels: Sequence[str]) -> None:
        self.name = name
        self.labels = tuple(labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Counter(_Metric):
    """A number that only rises. Informant adds the suffix ``_total``."""

    def add(self, amount: float = 1, /, **labels: Any) -> None:
        """Adds to the counter."""
        _host.active.metrics_add(self.name, _number(self, amount), _pairs(labels))


class Gauge(_Metric):
    """A number that rises and falls."""

    def set(self, value: float, /, **labels: Any) -> None:
        """Sets the gauge."""
        _host.active.metrics_set(self.name, _number(self, value), _pairs(labels))

    def add(self, amount: float = 1, /, **labels: Any) -> None:
        """Adds to the gauge; a negative amount subtracts."""
        _host.active.metrics_add(self.name, _number(self, amount), _pairs(labels))

    def replace(self, samples: Iterable[Sample]) -> None:
        """Replaces all series of the gauge: those that ``samples`` lacks end. ``[(3, {"node": "a"}), …]``."""
        rows = [(_number(self, value), _pairs(labels)) for value, labels in samples]
        _host.active.metrics_replace(self.name, rows)


class Histogram(_Metric):
    """A distribution of values."""

    def observe(self, value: float, /, **labels: Any) -> None:
        """Counts a value."""
        _host.active.metrics_observe(self.name, _number(self, value), _pairs(labels))


def counter(name: str, help: str | None = None, *, labels: Sequence[str] = ()) -> Counter:
    """Declares a counter."""
    _declare("counter", name, help, labels, None)
    return Counter(name, labels)


def gauge(name: str, help: str | None = None, *, labels: Sequence[str] = ()) -> Gauge:
    """Declares a gauge."""
    _declare("gauge", name, help, labels, None)
    return Gauge(name, labels)


def histogram(
    name: str, help: str | None = None, *, labels: Sequence[str] = (), buckets: Sequence[float] | None = None
) -> Histogram:
    """Declares a histogram. Without ``buckets``, they are those for seconds: 0.005 to 10."""
    _declare("histogram", name, help, labels, buckets)
    return Histogram(name, labels)


def _declare(type: str, name: str, help: str | None, labels: Sequence[str], buckets: Sequence[float] | None) -> None:
    if isinstance(labels, str):
        raise Refused(f"metrics: the labels of {name} are {labels!r}; pass a list: labels=[{labels!r}]")
    if any(metric["name"] == name for metric in _registry.active.metrics):
        raise Refused(f"metrics: {name} is declared twice")
    help = help or f"{name.replace('_', ' ').capitalize()}."
    metric: dict[str, Any] = {"name": name, "type": type, "help": help}
    if labels:
        metric["labels"] = [*labels]
    if buckets is not None:
        metric["buckets"] = [*buckets]
    _registry.active.metrics.append(metric)


def _number(metric: _Metric, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"metrics: the value of {metric.name} is {value!r}, which is not a number")
    return float(value)


def _pairs(labels: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in labels.items()]
