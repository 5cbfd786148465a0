from __future__ import annotations

import unittest

from support import PluginTest, pod

from informant import HostError, HttpError, KubeError, Permanent, RetryAfter
from informant.errors import consequence, delay_ms


class Failures(PluginTest):
    def test_an_exception_is_retryable_and_says_where(self) -> None:
        driver = self.start(
            """
            from informant import on

            def handle(pod):
                return {}["app"]

            @on.add("v1", "Pod")
            def restarted(pod):
                handle(pod)
            """
        )
        failed = self.fails(driver.put, pod())
        self.assertEqual(failed.kind, "retryable")
        self.assertEqual(failed.message, "handler.py:4: KeyError: 'app' (in handle < restarted)")
        self.assertIsInstance(failed.__cause__, KeyError)

    def test_the_traceback_begins_with_the_plugin(self) -> None:
        driver = self.start("from informant import on\n@on.add('v1', 'Pod')\ndef f(pod): 1 / 0\n")
        self.fails(driver.put, pod())
        line = driver.logs[-1]
        self.assertEqual(
            (line.level, line.message), ("debug", "web/a: handler.py:3: ZeroDivisionError: division by zero")
        )
        trace = line.fields["traceback"]
        self.assertNotIn("dispatch", trace)
        self.assertIn("def f(pod): 1 / 0", trace)

    def test_the_instance_keeps_its_memory(self) -> None:
        driver = self.start(
            """
            from informant import log, on
            calls = []

            @on.upsert("v1", "Pod")
            def f(pod):
                calls.append(pod.name)
                if len(calls) == 1:
                    raise ValueError
                log.info("%s", calls)
            """
        )
        self.assertEqual(self.fails(driver.put, pod()).message, "handler.py:8: ValueError")
        driver.put(pod(), attempt=1)
        self.assertEqual(driver.messages, ["info: ['a', 'a']"])

    def test_retry_after_and_permanent_say_what_follows(self) -> None:
        driver = self.start(
            """
            from informant import Permanent, RetryAfter, on

            @on.add("v1", "Pod")
            def f(pod):
                raise RetryAfter(2, "busy") if pod.name == "a" else Permanent("gave up")
            """
        )
        failed = self.fails(driver.put, pod("a"))
        self.assertEqual((failed.kind, failed.failure.after_ms), ("retry-after", 2000))
        self.assertEqual(failed.message, "handler.py:5: RetryAfter: busy")
        failed = self.fails(driver.put, pod("b"))
        self.assertEqual((failed.kind, failed.message), ("permanent", "handler.py:5: Permanent: gave up"))

    def test_errors_of_calls_that_would_fail_again_are_permanent(self) -> None:
        for error, expected in (
            (HostError("denied", ""), "permanent"),
            (HostError("not-here", ""), "permanent"),
            (HostError("not-ready", ""), None),
            (HostError("exhausted", ""), None),
            (KubeError("invalid", ""), "permanent"),
            (KubeError("conflict", ""), None),
            (KubeError("too-many-requests", "", 429, "TooManyRequests", 1500), 1500),
            (HttpError("denied", ""), "permanent"),
            (HttpError("timeout", ""), None),
            (Permanent(""), "permanent"),
            (RetryAfter(0), 0),
            (KeyError(""), None),
        ):
            with self.subTest(error):
                self.assertEqual(consequence(error), expected)

    def test_delays_are_what_the_contract_can_express(self) -> None:
        for duration, expected in ((1, 1000), (0.0004, 0), (-1, 0), (1e12, 2**32 - 1), (True, None), ("1", None)):
            self.assertEqual(delay_ms(duration), expected)
        self.assertIsNone(delay_ms(float("nan")))
        with self.assertRaisesRegex(TypeError, "'soon' is not a number of seconds"):
            RetryAfter("soon")  # type: ignore[arg-type]

    def test_a_failed_call_has_changed_nothing(self) -> None:
        driver = self.start(
            """
            from informant import kube, kv, metrics, on
            count = metrics.counter("count")

            @on.upsert("v1", "Pod")
            def f(pod, event):
                kv.set("a", 1)
                count.add()
                kube.patch(event, labels={"a": "b"})
                if event.attempt == 0:
                    raise ValueError
            """
        )
        self.fails(driver.put, pod())
        self.assertEqual((dict(driver.kv), driver.metric("count"), driver.writes), ({}, None, []))
        driver.put(pod(), attempt=1)
        self.assertEqual((dict(driver.kv), driver.metric("count"), len(driver.writes)), ({"a": 1}, 1, 1))


class Scripts(PluginTest):
    def test_a_syntax_error_has_line_and_column(self) -> None:
        message = self.refused("x = 1\nprint((1\n")
        self.assertEqual(message, "handler.py:2:7: SyntaxError: '(' was never closed")
        self.assertIn("handler.py:2:1: IndentationError", self.refused("if x:\ny\n"))
        self.assertIn("SyntaxError: ", self.refused("a\0b"))

    def test_an_exception_at_the_top_level_has_its_line(self) -> None:
        message = self.refused("def f():\n    return undefined\n\nf()\n")
        self.assertEqual(message, "handler.py:2: NameError: name 'undefined' is not defined")

    def test_the_end_of_the_program_is_a_failure(self) -> None:
        text = "import sys\nfrom informant import on\n@on.add('v1', 'Pod')\ndef f(pod): sys.exit(3)\n"
        self.assertEqual(self.fails(self.start(text).put, pod()).message, "handler.py:4: SystemExit: 3")
        self.assertEqual(self.refused("import sys\nsys.exit()\n"), "handler.py:2: SystemExit")

    def test_modules_that_cannot_work_are_refused_with_reason(self) -> None:
        for statement, message in (
            ("import asyncio", "asyncio does not work in Informant: there is no event loop"),
            ("import threading", "threading does not work in Informant: there are no threads"),
            ("from concurrent.futures import ThreadPoolExecutor", "concurrent.futures does not work"),
            ("import socket as s", "send requests with informant.http"),
            ("import subprocess", "there are no processes"),
            ("import ctypes", "there is no native code"),
            ("import multiprocessing.pool", "there are no processes: let Informant run several instances"),
            ("from urllib import request", "urllib.request does not work in Informant"),
            ("import http.client", "send requests with informant.http"),
        ):
            with self.subTest(statement):
                self.assertTrue(self.refused(f"\n{statement}\n").startswith("handler.py:1: ImportError: "))
                self.assertIn(message, self.refused(statement))

    def test_other_modules_may_import_them(self) -> None:
        self.start("import logging, urllib.parse, queue\nfrom informant import on\n@on.synced\ndef f(): pass\n")

    def test_a_missing_package_names_the_remedy(self) -> None:
        message = self.refused("import requests_of_none\n")
        self.assertIn("handler.py:1: imports requests_of_none, but a script can import the standard library", message)
        self.assertIn("build a component: informant plugin build", message)

    def test_modules_beside_the_handler_are_imported_anew(self) -> None:
        self.write("from informant import on\n@on.add('v1', 'Pod')\ndef f(pod): pass\n", "rules_of_test.py")
        for _ in range(2):
            driver = self.start("import rules_of_test\n")
            self.assertEqual(len(driver.registry.handlers), 1)


if __name__ == "__main__":
    unittest.main()
