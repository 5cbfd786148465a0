from __future__ import annotations

import logging
import unittest

from support import PluginTest, pod


class Kv(PluginTest):
    def test_values_are_remembered_as_json(self) -> None:
        driver = self.start(
            """
            from informant import kv, log, on

            @on.upsert("v1", "Pod")
            def f(pod, event):
                kv.set(pod.name, {"count": kv.get(pod.name, {"count": 0})["count"] + 1})
                log.info("%s %s", kv.set_if_absent("first", pod.name), list(kv.list()))
                kv.delete("gone")
            """
        )
        driver.kv["gone"] = True
        driver.kv["a"] = {"count": 41}
        driver.put(pod("a"))
        driver.put(pod("b"))
        self.assertEqual(dict(driver.kv), {"a": {"count": 42}, "b": {"count": 1}, "first": "a"})
        self.assertEqual(driver.messages, ["info: True ['a', 'first', 'gone']", "info: False ['a', 'b', 'first']"])

    def test_more_keys_than_a_page_are_listed(self) -> None:
        driver = self.start(
            """
            from informant import kv, log, on

            @on.synced
            def f(): log.info("%d %d", len([*kv.list()]), len([*kv.list("14")]))
            """
        )
        for number in range(1_500):
            driver.kv[f"{number:04}"] = None
        driver.add(pod())
        driver.synced()
        self.assertEqual(driver.messages, ["info: 1500 100"])

    def test_keys_and_values_have_the_limits_of_informant(self) -> None:
        for call, kind, message in (
            ("kv.set('', 1)", "permanent", "the key is empty"),
            ("kv.get('k' * 513)", "permanent", "the key has 513 bytes"),
            ("kv.get('a\\0b')", "permanent", "contains NUL"),
            ("kv.set('a', 'x' * 2**18)", "retryable", "a value may have 262144"),
            ("[kv.set(str(n), 'x' * 2**17) for n in range(9)]", "retryable", "may have 1048576"),
            ("kv.set('a', {1})", "retryable", "TypeError: kv: the value of 'a' is not JSON"),
        ):
            with self.subTest(call):
                driver = self.start(f"from informant import kv, on\n@on.add('v1', 'Pod')\ndef f(pod): {call}\n")
                failed = self.fails(driver.put, pod())
                self.assertEqual(failed.kind, kind)
                self.assertIn(message, failed.message)


class Metrics(PluginTest):
    def test_metrics_change_when_the_call_succeeds(self) -> None:
        driver = self.start(
            """
            from informant import metrics, on

            restarts = metrics.counter("restarts", "Restarts.", labels=["namespace"])
            pods = metrics.gauge("pods")
            ages = metrics.histogram("age")
            by_node = metrics.gauge("by_node", labels=["node"])

            @on.upsert("v1", "Pod")
            def f(pod, event):
                restarts.add(2, namespace=event.namespace)
                pods.set(7)
                pods.add(-1)
                ages.observe(1.5)
                by_node.replace([(1, {"node": event.name})])
            """
        )
        driver.put(pod("a"))
        driver.put(pod("b"))
        self.assertEqual(driver.metric("restarts", namespace="web"), 4)
        self.assertEqual((driver.metric("pods"), driver.metric("age")), (6, [1.5, 1.5]))
        self.assertEqual((driver.metric("by_node", node="a"), driver.metric("by_node", node="b")), (None, 1))

    def test_wrong_changes_are_errors(self) -> None:
        for call, message in (
            ("c.add(-1, a='x')", "the amount for a counter is not negative"),
            ("c.add(1)", "the metric 'c' has the labels ['a'], not []"),
            ("c.add('1', a='x')", "the value of c is '1', which is not a number"),
            ("c.add(float('inf'), a='x')", "a value must be a finite number"),
        ):
            with self.subTest(call):
                text = "from informant import metrics, on\nc = metrics.counter('c', labels=['a'])\n"
                driver = self.start(f"{text}@on.add('v1', 'Pod')\ndef f(pod): {call}\n")
                self.assertIn(message, self.fails(driver.put, pod()).message)

    def test_wrong_declarations_are_refused(self) -> None:
        for text, message in (
            ("metrics.counter('c', labels='a')", "pass a list: labels=['a']"),
            ("metrics.counter('c'); metrics.gauge('c')", "metrics: c is declared twice"),
        ):
            with self.subTest(text):
                self.assertIn(message, self.refused(f"from informant import metrics\n{text}\n"))


class Logs(PluginTest):
    def test_logging_is_joined_with_levels_and_fields(self) -> None:
        driver = self.start(
            """
            import logging
            from informant import log, on

            @on.add("v1", "Pod")
            def f(pod, event):
                log.log(5, "trace")
                log.debug("debug")
                log.warning("restarts: %d", 3, extra={"pod": event.key, "counts": [1, 2], "labels": pod.labels})
                logging.getLogger("library").critical("critical")
                try:
                    1 / 0
                except ZeroDivisionError:
                    logging.exception("failed")
            """
        )
        driver.put(pod(labels={"a": "b"}))
        lines = driver.logs
        self.assertEqual([line.level for line in lines], ["trace", "debug", "warn", "error", "error"])
        self.assertEqual(lines[2].message, "restarts: 3")
        self.assertEqual(lines[2].fields, {"pod": "web/a", "counts": "[1, 2]", "labels": '{"a": "b"}'})
        self.assertEqual(lines[3].fields, {"logger": "library"})
        self.assertTrue(lines[4].message.startswith("failed\nTraceback"), lines[4].message)
        self.assertTrue(lines[4].message.endswith("ZeroDivisionError: division by zero"))

    def test_levels_that_informant_does_not_log_cost_nothing(self) -> None:
        text = (
            "from informant import log, on\n@on.add('v1', 'Pod')\ndef f(pod):\n    log.info('i')\n    log.error('e')\n"
        )
        for level, expected in (("warn", ["e"]), (None, [])):
            driver = self.start(text, log_level=level)
            driver.put(pod())
            self.assertEqual([line.message for line in driver.logs], expected)

    def test_the_log_of_the_test_is_left_as_it_was(self) -> None:
        before = (logging.getLogger().level, list(logging.getLogger().handlers))
        self.start("from informant import on\n@on.synced\ndef f(): pass\n")
        self.assertEqual((logging.getLogger().level, list(logging.getLogger().handlers)), before)


if __name__ == "__main__":
    unittest.main()
