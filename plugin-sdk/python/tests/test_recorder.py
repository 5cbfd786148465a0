from __future__ import annotations

import unittest

from support import PluginTest, pod

from informant import HostError
from informant.testing import Driver


def node(name: str = "n1") -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}"}}


class Recorder(PluginTest):
    def handler(self, *lines: str, options: str = "") -> Driver:
        """A driver of a plugin whose add handler for pods has these lines."""
        body = "\n".join(f"    {line}" for line in lines)
        head = "from informant import kube, log, on, recorder, store"
        return self.start(f"{head}\n\n@on.add('v1', 'Pod'{options})\ndef f(pod, event):\n{body}\n")

    def test_an_event_has_what_the_author_passes(self) -> None:
        driver = self.handler(
            "recorder.event(pod, reason='Evicted', note='drained', type='Warning', action='Deleting', related=event)",
            "recorder.warning(event, 'Crashing', '5 restarts')",
            "recorder.normal(event, 'Healed', 'it runs')",
        )
        driver.put(pod(uid="u"))
        texts = ["Warning Evicted Pod web/a: drained", "Warning Crashing Pod web/a: 5 restarts"]
        self.assertEqual([str(event) for event in driver.events], [*texts, "Normal Healed Pod web/a: it runs"])
        self.assertEqual([event.action for event in driver.events], ["Deleting", "Crashing", "Healed"])
        self.assertEqual([str(event.related) for event in driver.events], ["Pod web/a", "None", "None"])
        self.assertEqual(driver.events[0].regarding, ("", "v1", "Pod", "web", "a", "u"))
        driver.clear()
        self.assertEqual(driver.events, [])

    def test_every_form_of_an_object_can_be_passed(self) -> None:
        for target, expected in (
            ("pod", ("v1", "Pod", "web", "a", "u")),
            ("event", ("v1", "Pod", "web", "a", "u")),
            ("store.get('nodes', '', 'n1', fields='/status')", ("v1", "Node", "", "n1", "")),
            ("next(store.list('nodes'))", ("v1", "Node", "", "n1", "uid-n1")),
            ("kube.now.get(kube.address('v1/nodes', '', 'n1'))", ("v1", "Node", "", "n1", "uid-n1")),
            (
                "{'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'namespace': 'web', 'name': 'shop'}}",
                ("apps/v1", "Deployment", "web", "shop", ""),
            ),
            ("recorder.reference('v1', 'Node', name='n1', uid='x')", ("v1", "Node", "", "n1", "x")),
        ):
            with self.subTest(target):
                driver = self.handler(f"recorder.normal({target}, 'Seen', 'seen')", options=", fields='/spec'")
                driver.add(node())
                driver.put(pod(uid="u"))
                self.assertEqual(driver.events[0].regarding[1:], expected)

    def test_the_cluster_is_that_of_the_object_or_the_call(self) -> None:
        driver = self.start(
            """
            from informant import on, recorder, store, timer

            def record(*objects):
                for object in objects:
                    recorder.normal(object, "Seen", "seen")

            @on.add("v1", "Pod")
            def f(pod, event):
                here = recorder.reference("v1", "Node", name="n1")
                there = recorder.reference("v1", "Node", name="n1", cluster="west")
                record(event, pod, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}, here, there)

            @timer("t", every="1s")
            def t():
                record(*store.list("pods", clusters="all"), recorder.reference("v1", "Node", name="n1"))
            """
        )
        for cluster in ("east", "west"):
            driver.add_source("pods", "v1", "Pod", cluster=cluster)
        driver.put(pod(), cluster="east")
        clusters = [event.regarding.cluster for event in driver.events]
        self.assertEqual(clusters, ["east", "east", "east", "east", "west"])
        driver.clear()
        driver.add(pod("b"), cluster="west")
        driver.tick("t")
        self.assertEqual([event.regarding.cluster for event in driver.events], ["east", "west", ""])

    def test_a_failed_call_records_nothing(self) -> None:
        driver = self.handler(
            "recorder.normal(event, 'Seen', 'seen')", "if event.attempt == 0:", "    raise RuntimeError('not yet')"
        )
        self.fails(driver.put, pod())
        self.assertEqual(driver.events, [])
        driver.delete("web/a")
        driver.put(pod(), attempt=1)
        self.assertEqual(len(driver.events), 1)

    def test_an_index_function_that_is_queried_keeps_what_was_recorded(self) -> None:
        driver = self.start(
            """
            from informant import index, on, recorder, store

            @index("name", "v1", "Pod")
            def name(pod): return pod.name

            @on.add("v1", "Pod")
            def f(pod, event):
                recorder.normal(event, "Before", "")
                list(store.by_index("pods", "name", "a"))
                recorder.normal(event, "After", "")
            """
        )
        driver.put(pod())
        self.assertEqual([event.reason for event in driver.events], ["Before", "After"])

    def test_what_is_not_granted_is_denied(self) -> None:
        driver = self.handler("recorder.normal(event, 'Seen', 'seen')")
        driver.refuse_events(HostError("denied", "not granted (allow.events)"))
        failed = self.fails(driver.put, pod())
        self.assertEqual((failed.kind, driver.events), ("permanent", []))
        self.assertIn("not granted (allow.events)", failed.message)
        driver.refuse_events(None)
        driver.put(pod("b"))
        self.assertEqual(len(driver.events), 1)

    def test_a_call_records_at_most_100_events(self) -> None:
        driver = self.handler(
            "for number in range(101):",
            "    try:",
            "        recorder.normal(event, 'Seen', str(number))",
            "    except Exception as error:",
            "        log.info('%d %s %s', number, error.code, error)",
        )
        driver.put(pod())
        driver.put(pod("b"))
        message = "info: 100 too-large a call can record at most 100 Events"
        self.assertEqual((len(driver.events), driver.messages), (200, [message, message]))

    def test_a_long_note_is_cut_by_the_host(self) -> None:
        driver = self.handler("recorder.normal(event, 'Seen', 'a' + 'ä' * 600)")
        driver.put(pod())
        self.assertEqual(driver.events[0].note, "a" + "ä" * 511)

    def test_wrong_arguments_are_errors(self) -> None:
        for call, message in (
            ("recorder.event(event, 'Seen', 'n', type='warning')", 'type is \'warning\'; write "Normal" or "Warning"'),
            ("recorder.normal(event, None, 'n')", "reason is None, which is not a text"),
            ("recorder.normal(event, 'Seen', 5)", "note is 5, which is not a text"),
            ("recorder.normal(event, 'seen', 'n')", "the reason 'seen' is not CamelCase of at most 128 bytes"),
            ("recorder.normal(event, 'S' * 129, 'n')", "is not CamelCase of at most 128 bytes"),
            ("recorder.normal(event, 'Seen', 'n', action='a b')", "the action 'a b' is not CamelCase"),
            ("recorder.normal('web/a', 'Seen', 'n')", "recorder: str is not an object: pass the event"),
            ("recorder.normal(pod.metadata, 'Seen', 'n')", "recorder: an object has apiVersion, kind and a name"),
            ("recorder.normal(recorder.reference('v1', 'Pod'), 'Seen', 'n')", "an object has apiVersion, kind and"),
            ("recorder.normal(next(store.list('pods', fields='/spec')), 'Seen', 'n')", 'add "/metadata/name"'),
        ):
            with self.subTest(call):
                self.assertIn(message, self.fails(self.handler(call).put, pod()).message)

    def test_only_handlers_may_record_events(self) -> None:
        for decorator in ("@on.startup", "@index('i', 'v1', 'Pod')"):
            text = (
                f"from informant import index, on, recorder\n{decorator}\ndef f():\n"
                "    recorder.normal(recorder.reference('v1', 'Node', name='n'), 'Seen', 'n')\n"
                "@on.synced\ndef g(): pass\n"
            )
            failed = self.fails(lambda text=text: self.start(text).index(pod()))
            self.assertIn("recorder cannot be used in", failed.message)


if __name__ == "__main__":
    unittest.main()
