from __future__ import annotations

import re
import unittest
from typing import Any

from support import PluginTest, pod

from informant.testing import Driver

READY = {"type": "Ready", "status": "True", "reason": "Ok"}
EARLIER = "2025-01-01T00:00:00Z"
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def site(status: Any = None, **metadata: Any) -> dict[str, Any]:
    """The object that is reconciled."""
    object: dict[str, Any] = pod(uid="u")
    object["metadata"].update(metadata)
    return object if status is None else {**object, "status": status}


class Status(PluginTest):
    def reconciler(self, call: str, options: str = "") -> Driver:
        """A driver of a reconciler that makes this call."""
        head = "from informant import kube, reconcile, store\n"
        return self.start(f"{head}\n@reconcile('v1', 'Pod'{options})\ndef f(pod, request):\n    {call}\n")

    def written(self, object: dict[str, Any], status: Any, options: str = "") -> Any:
        """The document that is written for an object, or ``None``."""
        driver = self.reconciler(f"kube.set_status(request, pod, {status!r})", options)
        driver.add(object)
        driver.reconcile("web/a")
        if not driver.writes:
            return None
        (write,) = driver.writes
        self.assertEqual((write.verb, write.resource, write.object), ("patch", "v1/pods/status", "web/a"))
        return write.document

    def test_a_status_is_written_with_the_resource_version(self) -> None:
        document = self.written(site(resourceVersion="7"), {"ready": 3})
        self.assertEqual(document, {"metadata": {"resourceVersion": "7"}, "status": {"ready": 3}})

    def test_a_status_that_is_there_is_not_written(self) -> None:
        present = {"ready": 3, "theirs": 1, "ports": [1], "nested": {"a": 1, "theirs": 2}}
        for status in (
            {"ready": 3},
            {},
            {"ports": (1,)},
            {"nested": {"a": 1}},
            {"none": None},
            {"conditions": []},
            {"conditions": None},
            {"empty": {"a": None}},
        ):
            with self.subTest(status):
                self.assertIsNone(self.written(site(present), status))
        for status in ({"ready": 4}, {"theirs": None}, {"ports": []}, {"nested": {"a": 2}}):
            with self.subTest(status):
                document = self.written(site(present), status)
                self.assertEqual(document["status"], status)

    def test_conditions_become_part_of_those_of_the_object(self) -> None:
        theirs = {"type": "Theirs", "status": "False", "reason": "X", "message": "", "lastTransitionTime": EARLIER}
        document = self.written(site({"conditions": [theirs]}), {"conditions": [READY]})
        first, second = document["status"]["conditions"]
        self.assertEqual(first, theirs)
        self.assertRegex(second.pop("lastTransitionTime"), TIME)
        self.assertEqual(second, {**READY, "message": ""})

    def test_the_transition_time_changes_with_the_status_only(self) -> None:
        present = {**READY, "message": "", "lastTransitionTime": EARLIER}
        self.assertIsNone(self.written(site({"conditions": [present]}), {"conditions": [READY]}))
        for condition, is_kept in (
            ({**READY, "reason": "Other"}, True),
            ({**READY, "message": "why"}, True),
            ({**READY, "status": "Unknown"}, False),
        ):
            with self.subTest(condition):
                document = self.written(site({"conditions": [present]}), {"conditions": [condition]})
                (found,) = document["status"]["conditions"]
                self.assertEqual(found["lastTransitionTime"] == EARLIER, is_kept)

    def test_the_generation_is_observed(self) -> None:
        document = self.written(site(generation=4), {"conditions": [READY]})
        (condition,) = document["status"].pop("conditions")
        self.assertEqual((document["status"], condition["observedGeneration"]), ({"observedGeneration": 4}, 4))
        self.assertEqual(self.written(site(generation=4), {})["status"], {"observedGeneration": 4})
        self.assertIsNone(self.written(site({"observedGeneration": 4}, generation=4), {}))

    def test_a_change_since_is_a_conflict(self) -> None:
        driver = self.reconciler(
            "kube.now.patch(request, labels={'a': 'b'}); kube.set_status(request, pod, {'ready': 1})"
        )
        driver.add(site())
        failed = self.fails(driver.reconcile, "web/a")
        self.assertEqual((failed.kind, "has been modified" in failed.message), ("retryable", True))
        self.assertEqual([write.resource for write in driver.writes], ["v1/pods"])

    def test_an_object_without_its_status_is_refused(self) -> None:
        for options in (", fields=['/status/ready', '/metadata']", ", payload='metadata'", ", fields='/status'"):
            with self.subTest(options):
                failed = self.fails(self.written, site(), {"ready": 1}, options)
                self.assertRegex(failed.message, "the reconciler receives objects without /.*: add it to fields")
        for options in (", fields=['/status', '/metadata']", ", fields=['/status/*', '/metadata/generation']"):
            with self.subTest(options):
                document = self.written(site(resourceVersion="7"), {"ready": 1}, options)
                self.assertEqual(document["metadata"], {"resourceVersion": "7"})
        driver = self.reconciler("kube.set_status(request, kube.now.get(request), {'ready': 1})", ", fields='/spec'")
        driver.add(site())
        driver.reconcile("web/a")
        self.assertEqual(driver.object("web/a")["status"], {"ready": 1})

    def test_wrong_arguments_are_errors(self) -> None:
        for call, message in (
            ("set_status(pod, pod, {})", "kube.set_status: Object is not the request that the reconciler is called"),
            ("set_status(request, None, {})", "kube.set_status: None is not an object"),
            (
                "set_status(request, {'metadata': {'uid': 'x'}}, {})",
                "kube.set_status: the object is not the one that the request is about, web/a",
            ),
            (
                "set_status(request, pod, {'conditions': [{'type': 'Ready', 'status': 'True'}]})",
                "a condition has type, status and reason, but one is {'type': 'Ready', 'status': 'True'}",
            ),
            (
                "set_status(request, pod, {'conditions': [{'type': 'Ready', 'status': True, 'reason': 'Ok'}]})",
                'status of the condition Ready is True; write "True", "False" or "Unknown"',
            ),
        ):
            with self.subTest(call):
                driver = self.reconciler(f"kube.{call}")
                driver.add(site())
                self.assertIn(message, self.fails(driver.reconcile, "web/a").message)


class Finalizers(PluginTest):
    OWN = "informant.dev/test"

    def reconciler(self, cleanup: str = "None", options: str = "") -> Driver:
        """A driver of a reconciler that cleans up by this expression."""
        return self.start(
            f"""
            from informant import RetryAfter, again, kube, kv, log, reconcile

            def cleanup():
                log.info("cleanup")
                kv.set("cleaned", True)
                return {cleanup}

            @reconcile("v1", "Pod"{options})
            def f(pod, request):
                log.info("%s", kube.finalize(request, pod, cleanup))
            """
        )

    def reconciled(self, object: dict[str, Any], **options: str) -> Driver:
        driver = self.reconciler(**options)
        driver.add(object)
        driver.reconcile("web/a")
        return driver

    def test_the_finalizer_is_there_before_anything_else(self) -> None:
        driver = self.reconciled(site(finalizers=["their/own"], resourceVersion="7"))
        (write,) = driver.writes
        metadata = {"resourceVersion": "7", "finalizers": ["their/own", self.OWN]}
        self.assertEqual((write.verb, write.resource, write.document), ("patch", "v1/pods", {"metadata": metadata}))
        driver.reconcile("web/a")
        self.assertEqual((driver.messages, len(driver.writes)), (["info: False", "info: True"], 1))

    def test_a_deleted_object_is_cleaned_up_and_released(self) -> None:
        driver = self.reconciled(site(finalizers=[self.OWN, "their/own"], deletionTimestamp=EARLIER))
        self.assertEqual(driver.messages, ["info: cleanup", "info: False"])
        self.assertEqual(driver.object("web/a")["metadata"]["finalizers"], ["their/own"])
        driver.clear()
        driver.reconcile("web/a")
        self.assertEqual((driver.messages, driver.writes), (["info: False"], []))

    def test_the_last_finalizer_ends_the_object(self) -> None:
        driver = self.reconciled(site(finalizers=[self.OWN], deletionTimestamp=EARLIER))
        self.assertIsNone(driver.object("web/a"))
        driver.reconcile("web/a")
        self.assertEqual(driver.messages, ["info: cleanup", "info: False", "info: False"])

    def test_a_cleanup_that_fails_keeps_the_finalizer(self) -> None:
        for cleanup, kind, message in (
            ("1 / 0", "retryable", "ZeroDivisionError: division by zero"),
            ("(_ for _ in ()).throw(RetryAfter(5))", "retry-after", "not yet"),
            ("again(seconds=1)", "retryable", "but it returns nothing: raise RetryAfter if it is not done yet"),
        ):
            with self.subTest(cleanup):
                object = site(finalizers=[self.OWN], deletionTimestamp=EARLIER)
                driver = self.reconciler(cleanup)
                driver.add(object)
                failed = self.fails(driver.reconcile, "web/a")
                self.assertEqual((failed.kind, driver.writes, dict(driver.kv)), (kind, [], {}))
                self.assertIn(message, failed.message)

    def test_the_finalizer_is_named_for_the_plugin(self) -> None:
        driver = self.start(
            """
            from informant import kube, reconcile

            @reconcile("v1", "Pod")
            def f(pod, request): kube.finalize(request, pod, lambda: None)
            """,
            name="site",
        )
        driver.add(site())
        driver.reconcile("web/a")
        self.assertEqual(driver.object("web/a")["metadata"]["finalizers"], ["informant.dev/site"])

    def test_an_object_without_its_finalizers_is_refused(self) -> None:
        for fields in ("'/spec'", "['/metadata/finalizers']"):
            failed = self.fails(self.reconciled, site(), options=f", fields={fields}")
            self.assertIn("the reconciler receives objects without /metadata/", failed.message)
        self.assertEqual(len(self.reconciled(site(), options=", payload='metadata'").writes), 1)


if __name__ == "__main__":
    unittest.main()
