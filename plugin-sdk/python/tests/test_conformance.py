"""The plugins of the conformance kit under the driver. Informant's tests run all behaviors, with the script runner."""

from __future__ import annotations

import unittest
from typing import Any

from support import PluginTest

from informant import HttpError
from informant.testing import Driver


def pod(name: str, action: str, text: str, **members: Any) -> dict[str, Any]:
    """A pod of the kit."""
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "annotations": {"do": action}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"text": text}, **members}


class Conformance(PluginTest):
    def run_kit(self, **config: str) -> Driver:
        return Driver("conformance.py", config=config)

    def logged(self, driver: Driver) -> list[str]:
        return [line.removeprefix("info: ") for line in driver.messages]

    def test_a_change_is_logged_as_its_payload_allows(self) -> None:
        for config, sees, old, text in (
            ({}, "metadata+spec", "-", "two"),
            ({"old": "yes"}, "metadata+spec", "one", "two"),
            ({"payload": "metadata"}, "metadata", "-", "-"),
            ({"payload": "none"}, "nothing", "-", "-"),
            ({"payload": "/spec/text", "old": "yes"}, "spec", "one", "two"),
        ):
            driver = self.run_kit(**config)
            driver.put(pod("a", "", "one"))
            driver.put(pod("a", "", "two"))
            driver.delete("default/a")
            first = text if text == "-" else "one"
            expected = [
                f"1 add default/a watch 0 old=- sees={sees} text={first}",
                f"2 update default/a watch 0 old={old} sees={sees} text={text}",
                f"3 delete default/a watch 0 old=- sees={sees} text={text}",
            ]
            self.assertEqual(self.logged(driver), expected, config)

    def test_a_long_text_is_logged_as_its_length(self) -> None:
        driver = self.run_kit()
        driver.put(pod("a", "", "ä" * 501))
        driver.put(pod("b", "", 'aä€😀 "%s" {}'))
        driver.delete("default/b", final_state_unknown=True)
        expected = [
            "1 add default/a watch 0 old=- sees=metadata+spec text=1002",
            '2 add default/b watch 0 old=- sees=metadata+spec text=aä€😀 "%s" {}',
            '3 vanish default/b watch 0 old=- sees=metadata+spec text=aä€😀 "%s" {}',
        ]
        self.assertEqual(self.logged(driver), expected)

    def test_the_end_of_a_list_is_logged_with_fields(self) -> None:
        driver = self.run_kit()
        driver.add_source("pods", "v1", "Pod", cluster="east")
        driver.synced()
        (line,) = driver.logs
        expected = ("synced pods east", {"reason": "initial", "attempt": "0"})
        self.assertEqual((line.message, dict(line.fields)), expected)

    def test_failures_are_of_the_kind_that_is_asked_for(self) -> None:
        for action, kind in (("retryable", "retryable"), ("retry-after", "retry-after"), ("permanent", "permanent")):
            driver = self.run_kit()
            failed = self.fails(driver.put, pod("a", action, "aä€😀"))
            self.assertEqual((failed.kind, "aä€😀" in failed.message), (kind, True))
            if action != "permanent":
                driver.put(pod("a", action, "aä€😀"), attempt=1)
            if action == "retry-after":
                self.assertEqual(failed.failure.after_ms, 50)

    def test_a_requeue_is_asked_for_once(self) -> None:
        driver = self.run_kit(old="yes")
        self.assertEqual(driver.put(pod("a", "requeue", "one")), 0.1)
        self.assertEqual((driver.run_requeues(), driver.requeues), (1, {}))
        last = "2 update default/a requeue-after 0 old=- sees=metadata+spec text=one"
        self.assertEqual(self.logged(driver)[-1], last)

    def test_reads_default_to_the_cluster_of_the_event(self) -> None:
        driver = self.run_kit()
        for cluster in ("east", "west"):
            driver.add_source("pods", "v1", "Pod", cluster=cluster)
        driver.add_index("pods", "namespace", lambda of: [of["metadata"]["namespace"]])
        driver.put(pod("peer", "", "in east"), cluster="east")
        driver.put(pod("other", "", "in west"), cluster="west")
        driver.put(pod("reader", "read", "one"), cluster="east")
        driver.put(pod("reader", "read", "two"), cluster="west")
        reads = [line for line in self.logged(driver) if line.startswith("found")]
        expected = [
            "found=in east listed=in east,one keys=2 everywhere=in east,one,in west",
            "found=- listed=in west,two keys=2 everywhere=in east,one,in west,two",
        ]
        self.assertEqual(reads, expected)

    def test_a_failed_call_remembers_and_measures_nothing(self) -> None:
        driver = self.run_kit()
        for action in ("remember", "measure"):
            self.fails(driver.put, pod("a", action, "fails"))
            driver.put(pod("a", action, "fails"), attempt=1)
            driver.put(pod("b", action, "one"))
        lines = [line for line in self.logged(driver) if line.startswith(("remembered", "undeclared"))]
        expected = [
            "remembered=1 new=true keys=seen/a",
            "remembered=1 new=true keys=seen/a",
            "remembered=2 new=true keys=seen/a,seen/b",
            *["undeclared=invalid"] * 3,
        ]
        self.assertEqual(lines, expected)
        seen = [driver.metric("seen", text="fails"), driver.metric("seen", text="one"), driver.metric("bytes")]
        self.assertEqual((seen, driver.metric("sizes")), ([1, 1, 3], [5, 3]))
        self.assertEqual((driver.metric("last", name="a"), driver.metric("last", name="b")), (None, 1))

    def test_requests_are_answered_or_denied(self) -> None:
        driver = self.run_kit()
        driver.serve_http(lambda request: (200, {}, b'{"echo":"' + request.body + b'"}'))
        driver.put(pod("a", "call", "aä€😀"))
        (request,) = driver.requests
        sent = (request.method, request.url, dict(request.headers)["content-type"], dict(request.headers)["x-id"])
        self.assertEqual(sent, ("POST", "http://a.svc/kit", "text/plain", "a"))
        self.assertEqual(self.logged(driver)[-1], 'answered=200 {"echo":"aä€😀"}')
        for code, failed in (("denied", "denied"), ("timeout", "other")):

            def refuse(_: Any, code: str = code) -> Any:
                raise HttpError(code, "refused")

            driver.serve_http(refuse)
            driver.put(pod("a", "call", "two"))
            self.assertEqual(self.logged(driver)[-1], f"failed={failed}")

    def test_writes_are_made_in_order_if_the_call_succeeds(self) -> None:
        for action, verbs in (
            ("patch", ["patch"]),
            ("defer-requeue", ["create", "update", "patch", "delete"]),
            ("defer-permanent", []),
        ):
            driver = self.run_kit()
            driver.add_source("maps", "v1", "ConfigMap")
            if action == "defer-permanent":
                self.fails(driver.put, pod("a", action, "one"))
            else:
                driver.put(pod("a", action, "one"))
            self.assertEqual([write.verb for write in driver.writes], verbs)
            last = "patched" if action == "patch" else "create=deferred update=deferred patch=deferred delete=deferred"
            self.assertEqual(self.logged(driver)[-1], last)

    def test_an_index_leaves_out_what_fails(self) -> None:
        driver = self.run_kit()
        self.assertEqual(driver.index(pod("a", "", "aä€😀")), {"text": ["aä€😀"]})
        self.assertIn("one", self.fails(driver.index, pod("a", "no-index", "one")).message)

    def test_the_next_version_receives_the_count(self) -> None:
        driver = self.run_kit()
        driver.put(pod("a", "", "one"))
        driver.swap()
        driver.put(pod("a", "", "two"))
        self.assertEqual([line.split()[0] for line in self.logged(driver)], ["1", "2"])


class Reconciler(PluginTest):
    def run_kit(self) -> Driver:
        driver = Driver("conformance_reconciler.py")
        driver.add_source("pods", "v1", "Pod")
        driver.add_source("maps", "v1", "ConfigMap")
        return driver

    def reconcile(self, driver: Driver, action: str, text: str) -> list[str]:
        driver.clear()
        driver.put(pod("a", action, text))
        driver.reconcile("default/a")
        return [line.removeprefix("info: ") for line in driver.messages]

    def test_children_are_written_and_pruned(self) -> None:
        driver = self.run_kit()
        lines = self.reconcile(driver, "children", "x,fields-y")
        expected = ["reconcile default/a watch 0 text=x,fields-y", "written=2 pruned=0 refused= skipped=false"]
        self.assertEqual(lines, expected)
        self.assertEqual(self.reconcile(driver, "children", "x")[1], "written=1 pruned=1 refused= skipped=false")

    def test_events_of_a_failed_call_are_not_recorded(self) -> None:
        driver = self.run_kit()
        self.reconcile(driver, "event", "one")
        self.assertEqual([event.note for event in driver.events], ["one"])
        self.fails(self.reconcile, driver, "event-permanent", "two")
        self.assertEqual(driver.events, [])

    def test_a_timer_fails_at_its_first_attempt(self) -> None:
        driver = self.run_kit()
        self.fails(driver.tick, "fails")
        driver.tick("fails", attempt=1)
        self.assertEqual([event.note for event in driver.events], ["fails has run, attempt 1"])


if __name__ == "__main__":
    unittest.main()
