from __future__ import annotations

import time
import unittest
from email.utils import formatdate
from typing import Any

from support import PluginTest, pod

from informant import http
from informant.host import HttpAnswer, HttpRequest
from informant.testing import Driver

CALLS = """
from informant import HttpError, http, log, on

@on.add("v1", "Pod")
def f(pod, event):
    CALL
"""


class Http(PluginTest):
    def call(self, call: str, service: Any = None) -> Driver:
        """The driver after a call of a handler."""
        driver = self.driver = self.start(CALLS.replace("CALL", call))
        if service is not None:
            driver.serve_http(service)
        driver.put(pod(uid="u"))
        return driver

    def test_a_request_has_method_headers_and_body(self) -> None:
        driver = self.call(
            """
    headers = {"Idempotency-Key": event.id}
    answer = http.post("https://Hooks.example.com/a b?x=ü#top", json={"text": str(event)}, headers=headers)
    log.info("%s %s %s", answer.status, answer.ok, answer.json())
    """.strip(),
            lambda request: (201, {"Content-Type": "application/json"}, {"id": 7}),
        )
        self.assertEqual(driver.messages, ["info: 201 True {'id': 7}"])
        (request,) = driver.requests
        self.assertEqual((request.method, request.url), ("POST", "https://hooks.example.com/a%20b?x=%C3%BC"))
        self.assertEqual(request.headers, [("idempotency-key", "u/1"), ("content-type", "application/json")])
        self.assertEqual(request.body, b'{"text": "web/a"}')

    def test_redirects_are_followed_without_credentials_elsewhere(self) -> None:
        answers = {
            "/a": (302, {"location": "b?c"}, ""),
            "/b?c": (307, {"location": "http://other.example/d"}, ""),
            "/d": (200, {}, "done"),
        }
        driver = self.call(
            'log.info("%s", http.post("http://one.example/a", body="x", headers={"authorization": "secret"}).text)',
            lambda request: answers[request.path],
        )
        self.assertEqual(driver.messages, ["info: done"])
        sent = [(request.method, request.url, request.body, request.headers) for request in driver.requests]
        text = ("content-type", "text/plain;charset=UTF-8")
        self.assertEqual(
            sent,
            [
                ("POST", "http://one.example/a", b"x", [("authorization", "secret"), text]),
                ("GET", "http://one.example/b?c", b"", [("authorization", "secret")]),
                ("GET", "http://other.example/d", b"", []),
            ],
        )

    def test_redirects_end(self) -> None:
        driver = self.call(
            'log.info("%d", http.get("http://a.example/", redirects=0).status)', lambda _: (302, {"location": "/"}, "")
        )
        self.assertEqual(driver.messages, ["info: 302"])
        failed = self.fails(self.call, 'http.get("http://a.example/")', lambda _: (302, {"location": "/"}, ""))
        self.assertIn("HttpError: GET http://a.example: more than 5 redirects", failed.message)

    def test_ensure_ok_says_what_follows(self) -> None:
        for status, headers, kind, after in (
            (429, {"Retry-After": "2"}, "retry-after", 2000),
            (503, {}, "retry-after", 30_000),
            (503, {"retry-after": "99999"}, "retry-after", 3_600_000),
            (500, {}, "retryable", 0),
            (408, {}, "retryable", 0),
            (404, {}, "permanent", 0),
        ):
            with self.subTest(status):
                answer = (status, headers, "why")
                failed = self.fails(
                    self.call, 'http.get("http://a.example/x").ensure_ok()', lambda _, answer=answer: answer
                )
                self.assertEqual((failed.kind, failed.failure.after_ms), (kind, after))
                self.assertIn(f"http://a.example answered {status}: why", failed.message)

    def test_retry_after_may_be_a_date(self) -> None:
        request = HttpRequest("GET", "http", "a", "/", [], b"", None)

        def waits(text: str) -> float | None:
            return http.Response(request, HttpAnswer(503, [("retry-after", text)], b"")).retry_after

        self.assertAlmostEqual(waits(formatdate(time.time() + 60, usegmt=True)) or 0, 60, delta=2)
        self.assertEqual(waits("Thu, 01 Jan 1970 00:00:00 GMT"), 0)
        self.assertIsNone(waits("soon"))

    def test_requests_without_a_grant_are_denied(self) -> None:
        failed = self.fails(self.call, 'http.get("http://a.example/x")')
        self.assertEqual(failed.kind, "permanent")
        self.assertIn("GET http://a.example: not granted (allow.http)", failed.message)

    def test_wrong_arguments_are_errors(self) -> None:
        for call, message in (
            ('http.get("a.example")', "is not a URL that begins with http://"),
            ('http.get("http://a", body="x")', "a GET request has no body"),
            ('http.post("http://a", body="x", json={})', "pass either body or json"),
            ('http.post("http://a", body={})', "for JSON, pass json=..."),
        ):
            with self.subTest(call):
                self.assertIn(message, self.fails(self.call, call, lambda _: 200).message)

    def test_headers_are_compared_without_case(self) -> None:
        headers = http.Headers([("Set-Cookie", "a"), ("set-cookie", "b")])
        self.assertEqual((headers["SET-COOKIE"], headers.get("none"), len(headers)), ("a, b", None, 1))

    def test_a_body_that_is_not_json_is_an_error(self) -> None:
        failed = self.fails(self.call, 'http.get("http://a.example/x").json()', lambda _: (200, {}, "<html>"))
        self.assertIn("http://a.example answered 200 with a body that is not JSON", failed.message)


if __name__ == "__main__":
    unittest.main()
