"""Replaces Informant in unit tests of a plugin, under plain CPython. No component is built.

::

    import unittest
    from informant.testing import Driver, Failed

    class Restarted(unittest.TestCase):
        def test_pods_with_many_restarts_are_labeled(self):
            driver = Driver("handler.py", config={"max-restarts": 3})
            driver.put(pod("default", "a", restarts=4))
            self.assertEqual(driver.object("default/a")["metadata"]["labels"], {"restarts": "high"})

A ``Driver`` starts a plugin and calls it as Informant does. The test puts and deletes objects, and the plugin receives
the fields that its manifest requests. Deferred writes, ``kv``, metrics and Kubernetes Events take effect when a call
has succeeded. Retries, limits and the schedules of timers are not simulated. ``run_scenario`` runs a scenario file,
with retries.
"""

from __future__ import annotations

from ..dispatch import Failed
from .cluster import Write
from .driver import SETTLE_CALLS_MAX, Driver, HandlerCall
from .fake import FakeHost, LogLine, Read, RecordedEvent
from .scenario import ScenarioError, run_scenario

__all__ = [
    "SETTLE_CALLS_MAX",
    "Driver",
    "Failed",
    "FakeHost",
    "HandlerCall",
    "LogLine",
    "Read",
    "RecordedEvent",
    "ScenarioError",
    "Write",
    "run_scenario",
]
