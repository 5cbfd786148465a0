from __future__ import annotations

import os
import unittest

from support import PluginTest, pod

from informant.testing import Driver
from informant.testing.projection import project
from informant.testing.selector import matches, parse

TEXT = """
from informant import log, on

@on.upsert("v1", "Pod", fields=["/status/phase"], changed_only=True, namespaces=["web"], label_selector="app")
def changed(pod, event): log.info("%s %s %s", event.type, event.reason, dict(pod.status))

@on.delete("v1", "Pod")
def gone(last, event): log.info("delete %s", dict(last.status))
"""


class TestDriver(PluginTest):
    def test_the_plugin_receives_what_its_manifest_requests(self) -> None:
        driver = self.start(TEXT)
        labels = {"app": "x"}
        driver.put(pod(labels=labels, status={"phase": "A", "podIP": "1"}))
        driver.put(pod(labels=labels, status={"phase": "A", "podIP": "2"}))
        driver.put(pod(labels=labels, status={"phase": "B"}))
        driver.put(pod(namespace="api", labels=labels))
        driver.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
        self.assertEqual(driver.messages, ["info: add watch {'phase': 'A'}", "info: update watch {'phase': 'B'}"])

    def test_objects_enter_and_leave_a_selection(self) -> None:
        driver = self.start(TEXT)
        driver.put(pod(status={"phase": "A"}))
        driver.put(pod(labels={"app": "x"}, status={"phase": "A"}))
        driver.put(pod(status={"phase": "B"}))
        self.assertEqual(driver.messages, ["info: add watch {'phase': 'A'}", "info: delete {'phase': 'A'}"])

    def test_another_uid_is_a_delete_and_an_add(self) -> None:
        driver = self.start(TEXT)
        driver.put(pod(labels={"app": "x"}, uid="1", status={"phase": "A"}))
        driver.put(pod(labels={"app": "x"}, uid="2", status={"phase": "A"}))
        self.assertEqual([line.split()[1] for line in driver.messages], ["add", "delete", "add"])

    def test_a_replay_shows_the_selected_objects(self) -> None:
        driver = self.start(TEXT)
        driver.add(pod("a", labels={"app": "x"}))
        driver.add(pod("b"))
        driver.replay()
        self.assertEqual(driver.messages, ["info: add replay {}"])

    def test_the_file_is_found_beside_the_test(self) -> None:
        driver = Driver("../examples/crash_loop.py")
        self.assertEqual(driver.manifest["name"], "crash-loop-python")
        with self.assertRaises(FileNotFoundError):
            Driver("missing.py")

    def test_deletes_of_objects_that_do_not_exist_are_errors(self) -> None:
        driver = self.start(TEXT)
        with self.assertRaisesRegex(LookupError, "not in the cache"):
            driver.delete("web/a")
        with self.assertRaisesRegex(LookupError, "not in the cache"):
            driver.delete(pod())
        driver.add(pod())
        driver.add({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "web", "name": "a"}})
        with self.assertRaisesRegex(LookupError, "pass the kind"):
            driver.delete("web/a")
        driver.delete("web/a", kind="Secret")

    def test_two_drivers_do_not_disturb_each_other(self) -> None:
        one, two = self.start(TEXT), Driver(os.path.join(self.folder, "handler.py"))
        one.put(pod(labels={"app": "x"}))
        two.put(pod(labels={"app": "x"}))
        self.assertEqual((len(one.messages), len(two.messages)), (1, 1))

    def test_objects_without_a_type_are_errors(self) -> None:
        driver = self.start(TEXT)
        for object, message in (
            ({"kind": "Pod", "metadata": {"name": "a"}}, "no apiVersion"),
            ({"apiVersion": "v1", "metadata": {"name": "a"}}, "no kind"),
            ({"apiVersion": "v1", "kind": "Pod"}, "no metadata.name"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                driver.put(object)


class Selectors(unittest.TestCase):
    def test_labels_are_selected_as_in_kubernetes(self) -> None:
        object = {"metadata": {"labels": {"app": "web", "tier": "a"}}}
        for selector, selected in (
            ("", True),
            ("app=web", True),
            ("app==web,tier=a", True),
            ("app=db", False),
            ("app!=db", True),
            ("absent!=x", True),
            ("tier in (a, b),app", True),
            ("tier notin (a,b)", False),
            ("absent notin (a)", True),
            ("!absent", True),
            ("absent", False),
        ):
            self.assertEqual(matches(selector, object), selected, selector)
        for selector in ("tier in a,b", "a b", "=", "a in ()b"):
            with self.assertRaises(ValueError):
                parse(selector)


class Projections(unittest.TestCase):
    def test_only_requested_fields_are_projected(self) -> None:
        object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"annotations": {"a/b": "c", "d": "e"}},
            "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}], "nodeName": "n"},
        }
        for pointers, expected in (
            (["/spec/nodeName", "/status/phase", "/spec/volumes/*/name"], {"spec": {"nodeName": "n"}}),
            (["/spec/containers/*/image"], {"spec": {"containers": [{"image": "x"}, {}]}}),
            (["/spec/containers/1/name"], {"spec": {"containers": [{}, {"name": "b"}]}}),
            (["/metadata/annotations/a~1b"], {"metadata": {"annotations": {"a/b": "c"}}}),
        ):
            projected = project(object, pointers)
            # An object on the way to a field that is absent stays, empty.
            kept = {member: value for member, value in projected.items() if value}
            self.assertEqual(kept, {"apiVersion": "v1", "kind": "Pod", **expected})


if __name__ == "__main__":
    unittest.main()
