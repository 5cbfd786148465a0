from __future__ import annotations

import unittest

from support import PluginTest, pod


class Handlers(PluginTest):
    def test_upsert_handles_adds_and_updates(self) -> None:
        driver = self.start(
            """
            from informant import log, on

            @on.upsert("v1", "Pod")
            def changed(pod, event):
                log.info("%s %s %s %s", event.type, event, event.reason, pod.status.phase)

            @on.delete("v1", "Pod")
            def gone(last, event):
                log.info("%s %s %s", event.type, last.key, event.final_state_unknown)
            """
        )
        driver.put(pod(status={"phase": "Pending"}), reason="initial")
        driver.put(pod(status={"phase": "Running"}))
        driver.delete("web/a", final_state_unknown=True)
        self.assertEqual(
            driver.messages,
            ["info: add web/a initial Pending", "info: update web/a watch Running", "info: delete web/a True"],
        )

    def test_handlers_take_as_many_arguments_as_they_have(self) -> None:
        driver = self.start(
            """
            from informant import log, on

            @on.add("v1", "Pod")
            def none():
                log.info("none")

            @on.add("v1", "Pod")
            def one(pod):
                log.info("one %s", pod.name)

            @on.add("v1", "Pod")
            def all(*arguments):
                log.info("all %d", len(arguments))
            """
        )
        driver.put(pod())
        self.assertEqual(driver.messages, ["info: none", "info: one a", "info: all 2"])

    def test_an_object_that_is_never_read_is_not_parsed(self) -> None:
        driver = self.start(
            """
            from informant import on

            @on.add("v1", "Pod")
            def ignores(_, event):
                event.key

            @on.update("v1", "Pod")
            def nested(pod, event):
                return (lambda: pod.missing)()

            @on.delete("v1", "Pod")
            def by_name(pod, event):
                locals()
            """
        )
        handlers = driver.registry.handlers[("v1", "Pod")]
        reads = [handlers.add[0].reads_object, handlers.update[0].reads_object, handlers.delete[0].reads_object]
        self.assertEqual(reads, [False, True, True])

    def test_a_handler_asks_to_be_called_again(self) -> None:
        driver = self.start(
            """
            from datetime import timedelta
            from informant import again, log, on

            ANSWERS = {"a": again(minutes=1), "b": 1.5, "c": timedelta(hours=1), "d": None, "e": -3, "f": 10**12}

            @on.upsert("v1", "Pod")
            def changed(pod, event):
                log.info("%s %s", event, event.reason)
                return ANSWERS[event.name] if event.reason == "watch" else None
            """
        )
        answers = {name: driver.put(pod(name)) for name in "abcdef"}
        expected = {"a": 60, "b": 1.5, "c": 3600, "d": None, "e": 0, "f": 4_294_967.295}
        self.assertEqual(answers, expected)
        self.assertEqual(driver.requeues["web/c"], 3600)
        driver.delete("web/f")
        driver.clear()
        self.assertEqual(driver.run_requeues(), 4)
        self.assertEqual(driver.messages[0], "info: web/a requeue-after")
        self.assertEqual(driver.requeues, {})

    def test_the_soonest_of_several_answers_counts(self) -> None:
        driver = self.start(
            """
            from informant import on

            @on.add("v1", "Pod")
            def first(): return 5

            @on.add("v1", "Pod")
            def second(): return 2

            @on.add("v1", "Pod")
            def third(): return None
            """
        )
        self.assertEqual(driver.put(pod()), 2)

    def test_other_answers_are_errors(self) -> None:
        driver = self.start(
            """
            from informant import on

            @on.add("v1", "Pod")
            def first(): return True

            @on.synced
            def synced(): return 3
            """
        )
        failed = self.fails(driver.put, pod())
        self.assertEqual(failed.kind, "retryable")
        self.assertIn("first (handler.py:3) returned True; return nothing or", failed.message)
        self.assertIn("but it is about no object", self.fails(driver.synced).message)

    def test_a_triggered_call_without_update_handler_is_an_add(self) -> None:
        driver = self.start(
            """
            from informant import log, on

            @on.add("v1", "Pod")
            def add(pod, event): log.info("%s %s", event.type, event.reason)
            """
        )
        driver.put(pod())
        driver.put(pod(status={}))
        driver.trigger("web/a")
        self.assertEqual(driver.messages, ["info: add watch", "info: update trigger"])

    def test_the_rule_that_names_more_of_the_type_wins(self) -> None:
        driver = self.start(
            """
            from informant import log, on

            @on.add("v1", "Pod")
            def pods(object): log.info("pod")

            @on.add("v1", "*")
            def core(object): log.info("core")

            @on.add("*", "*")
            def any(object): log.info("any")
            """
        )
        driver.put(pod())
        driver.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        driver.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}})
        self.assertEqual(driver.messages, ["info: pod", "info: core", "info: any"])

    def test_handlers_of_a_type_share_its_rule(self) -> None:
        driver = self.start(
            """
            from informant import on

            @on.upsert("v1", "Pod", fields=["/spec"], changed_only=True, namespaces=["web"])
            def changed(pod): pass

            @on.update("v1", "Pod", fields="/status", old=True, label_selector="app")
            def updated(pod): pass

            @on.delete("v1", "Pod")
            def gone(): pass
            """
        )
        rule = {
            "apiVersion": "v1",
            "kind": "Pod",
            "payload": {"fields": ["/spec", "/status"]},
            "old": True,
            "changedOnly": True,
            "namespaces": ["web"],
            "labelSelector": "app",
        }
        self.assertEqual(driver.manifest["events"], [rule])

    def test_handlers_that_contradict_each_other_are_refused(self) -> None:
        message = self.refused(
            """
            from informant import on

            @on.add("v1", "Pod", namespaces=["a"])
            def first(pod): pass

            @on.add("v1", "Pod", namespaces=["b"])
            def second(pod): pass
            """
        )
        self.assertIn("second (handler.py:6) and first (handler.py:3) handle Pod of v1", message)
        self.assertIn("different values of namespaces", message)

    def test_the_previous_state_is_there_on_request(self) -> None:
        driver = self.start(
            """
            from informant import log, on

            @on.update("v1", "Pod", fields=["/status/phase"], old=True)
            def updated(pod, event): log.info("%s -> %s", event.old.status.phase, pod.status.phase)
            """
        )
        driver.put(pod(status={"phase": "Pending"}))
        driver.put(pod(status={"phase": "Running", "podIP": "10.0.0.1"}))
        self.assertEqual(driver.messages, ["info: Pending -> Running"])

    def test_an_event_says_where_its_object_is(self) -> None:
        driver = self.start(
            """
            from informant import log, on

            @on.add("v1", "Pod", fields=["/status"])
            def add(pod, event):
                log.info("%s %s %s %s", event.informer, event.api_version, event.kind, event.resource)
                log.info("%s %s %s %s", event.id, event.attempt, pod.key, event.source.namespaced)
            """
        )
        driver.put(pod(uid="u"), attempt=2)
        self.assertEqual(driver.messages, ["info: pods v1 Pod v1/pods", "info: u/1 2 web/a True"])

    def test_synced_receives_the_source_and_the_call(self) -> None:
        driver = self.start(
            """
            from informant import log, on, store

            @on.synced
            def synced(source, call):
                log.info("%s %s %s %s", source, source.informer, call.reason, len(list(store.list(source))))
            """
        )
        driver.add(pod())
        driver.synced()
        self.assertEqual(driver.messages, ["info: source 0 pods initial 1"])

    def test_functions_that_cannot_be_handlers_are_refused(self) -> None:
        for function, message in (
            ("async def f(pod): pass", "is async, but handlers are ordinary functions"),
            ("def f(pod): yield", "contains yield"),
            ("def f(a, b, c): pass", "takes more than 2 arguments"),
            ("def f(pod, *, logger): pass", "requires the keyword argument logger"),
        ):
            with self.subTest(function):
                text = f"from informant import on\n@on.add('v1', 'Pod')\n{function}\n"
                self.assertIn(message, self.refused(text))

    def test_wrong_types_of_objects_are_refused(self) -> None:
        for decorator, message in (
            ("@on.add('v1', 'pods')", "write the kind, not the resource"),
            ("@on.add('v1', '')", "needs the type of the objects"),
            ("@on.add('v1', 'Pod', payload='all')", "payload is 'all'"),
            ("@on.add('v1', 'Pod', payload='none', fields=['/a'])", "pass either fields or payload"),
            ("@on.add('v1', 'Pod', label='x')", "unexpected keyword argument 'label'"),
            ("@on.add", "missing 1 required positional argument: 'kind'"),
        ):
            with self.subTest(decorator):
                self.assertIn(message, self.refused(f"from informant import on\n{decorator}\ndef f(pod): pass\n"))

    def test_startup_runs_in_each_instance_before_other_calls(self) -> None:
        driver = self.start(
            """
            from informant import kv, log, on, store, HostError

            @on.startup
            def start():
                kv.set("starts", kv.get("starts", 0) + 1)
                try:
                    store.sources("pods")
                except HostError as error:
                    log.info(error.code)

            @on.add("v1", "Pod")
            def add(): pass
            """
        )
        driver.swap()
        self.assertEqual(driver.kv["starts"], 2)
        self.assertEqual(driver.messages, ["info: not-here", "info: not-here"])


if __name__ == "__main__":
    unittest.main()
