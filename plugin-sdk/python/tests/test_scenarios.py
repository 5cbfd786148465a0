from __future__ import annotations

import glob
import os
import sys
import unittest

from support import ROOT, PluginTest

from informant.testing import ScenarioError, run_scenario
from informant.testing.scenario.expect import kv_difference
from informant.testing.scenario.nodes import Node, seconds_of

try:
    import yaml  # noqa: F401

    HAS_YAML = True
except ImportError:
    HAS_YAML = False

POD = "{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, annotations: { do: never } } }"


class TestValues(unittest.TestCase):
    def test_durations_are_those_of_config_toml(self) -> None:
        for text, seconds in (
            ("0", 0.0),
            ("500ms", 0.5),
            ("1m 30s", 90.0),
            ("1m30s", 90.0),
            ("1d", 86_400.0),
            ("1.5h", 5_400.0),
            (" 1 0 s ", 10.0),
            ("1M", 2_630_016.0),
            ("2weeks 1 day", 1_296_000.0),
            ("10\u00b5s", 0.000_01),
        ):
            self.assertEqual(seconds_of(text), seconds, text)
        for wrong in ("", "5", "1x", "s", "1.s", ".5s", "-1s", "1,5s", "1.0001h", "1.5ns", "1H", "1m, 30s", 5, None):
            self.assertIsNone(seconds_of(wrong), wrong)

    def test_a_value_of_kv_that_is_no_json_differs(self) -> None:
        self.assertEqual(kv_difference("b", b"web/a"), 'expected "b", found "web/a"')
        self.assertEqual(kv_difference({"a": 1}, b"\xff"), 'expected {"a": 1}, found "\ufffd"')
        self.assertIsNone(kv_difference("web/a", b"web/a"))


@unittest.skipUnless(HAS_YAML, "PyYAML is not installed")
class TestScenarios(PluginTest):
    def test_the_scenarios_of_all_languages(self) -> None:
        files = glob.glob(os.path.join(ROOT, "..", "scenarios", "*.scenario.yaml"))
        self.assertGreater(len(files), 5)
        for file in sorted(files):
            with self.subTest(os.path.basename(file)):
                run_scenario(file, "scribe.py")

    def outcome(self, text: str) -> str:
        file = self.write(text, "a.scenario.yaml")
        with self.assertRaises((AssertionError, ScenarioError)) as caught:
            run_scenario(file, "scribe.py")
        return str(caught.exception).replace(self.folder + os.sep, "")

    def test_what_differs_is_listed_with_lines(self) -> None:
        text = f"""
steps:
  - apply: {POD}
    expect:
      calls: [on-synced, {{ call: on-add, result: ok }}]
      log: []
      absent: [v1/pods web/a]
      kv: {{ last: a }}
"""
        self.assertEqual(
            self.outcome(text).splitlines(),
            [
                'a.scenario.yaml:4: steps[0].expect.calls[1]: result: expected "ok", found "permanent"',
                "a.scenario.yaml:5: steps[0].expect.log: one too many: "
                '{"level": "info", "message": "synced with 0 pods", "fields": {}}',
                "a.scenario.yaml:5: steps[0].expect.log: one too many: "
                '{"level": "info", "message": "add web/a -", "fields": {"handled": 1}}',
                "a.scenario.yaml:6: steps[0].expect.absent[0]: v1/pods web/a exists",
                'a.scenario.yaml:7: steps[0].expect.kv.last: expected "a", but the key is not set',
            ],
        )

    def test_a_call_as_text_is_one_that_succeeded(self) -> None:
        text = f"steps: [{{ apply: {POD}, expect: {{ calls: CALLS }} }}]"
        found = self.outcome(text.replace("CALLS", "[on-synced, on-add v1/pods web/a]"))
        self.assertIn('calls[1]: result: expected "ok", found "permanent"', found)
        found = self.outcome(text.replace("CALLS", "{ includes: [on-add] }"))
        self.assertIn('not found: {"call": "on-add", "result": "ok"}', found)

    def test_a_mapping_that_expects_nothing_matches_what_is_absent(self) -> None:
        metadata = "{ namespace: web, name: a, labels: LABELS }"
        objects = f"objects: [{{ apiVersion: v1, kind: Pod, metadata: {metadata} }}]"
        text = f"steps: [{{ apply: {POD}, expect: {{ {objects}, kv: {{ last: LABELS }} }} }}]"
        run_scenario(self.write(text.replace("LABELS", "{ a: null, b: { c: null } }"), "a.scenario.yaml"), "scribe.py")
        for labels in ("{}", "{ a: null, b: {} }", "{ a: null, b: c }"):
            found = self.outcome(text.replace("LABELS", labels))
            self.assertIn("metadata.labels: expected ", found)
            self.assertIn("but the key is not set", found)

    def test_indexes_of_informers_in_the_configuration_are_there(self) -> None:
        informer = "{ pods: { resource: v1/pods, index: { owner: POINTER } } }"
        config = f"config: {{ informer: {informer}, plugin: {{ scribe: {{}} }} }}\n"
        owned = "{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, ownerReferences: [{ uid: u1 }] } }"
        steps = f"steps: [{{ apply: {owned}, expect: {{ indexes: {{ pods: {{ owner: {{ u1: [web/a] }} }} }} }} }}]"
        text = config.replace("POINTER", "/metadata/ownerReferences/*/uid") + steps
        run_scenario(self.write(text, "a.scenario.yaml"), "scribe.py")
        found = self.outcome(config.replace("POINTER", "metadata.uid") + steps)
        self.assertIn("informer.pods.index.owner: 'metadata.uid' is not a JSON pointer", found)
        self.assertIn("neither the manifest nor informer.pods.index in config declares", self.outcome(steps))

    @unittest.skipIf(sys.version_info < (3, 11), "Python has no reader of TOML")
    def test_a_configuration_is_read_from_its_file(self) -> None:
        handler = "from informant import kv, log, on\n@on.add('v1', 'Pod')\ndef f(pod, event): log.info('seen')\n"
        self.write(handler, "handler.py")
        config = '[cluster]\n[informer.pods]\nresource = "v1/pods"\nindex = { node = "/spec/nodeName" }\n'
        config += '[plugin.a]\nscript = "handler.py"\ninformers = ["pods"]\n'
        expect = "{ calls: [on-add v1/pods web/a], log: [seen] }"
        text = f"config: config.toml\nsteps: [{{ apply: {POD}, expect: {expect} }}]"
        file = self.write(text, "a.scenario.yaml")
        with self.assertRaisesRegex(ScenarioError, r"a.scenario.yaml:1: config: there is no file .*config.toml"):
            run_scenario(file)
        self.write(config, "config.toml")
        run_scenario(file)
        self.write(handler.replace("log.info", "kv.set('a', 1); log.info"), "handler.py")
        with self.assertRaisesRegex(AssertionError, r"add this line to config.toml: \[state\]"):
            run_scenario(self.write(text.replace("calls: [on-add v1/pods web/a]", "calls: []"), "b.scenario.yaml"))
        self.write(f"[state]\n{config}", "config.toml")
        run_scenario(file)
        for wrong, message in (
            (config + "limits.cpu = '1s'\n", r"config.toml: plugin.a.limits: a Driver cannot do this: run"),
            ("a = ", r"a.scenario.yaml:1: config: .*config.toml: "),
        ):
            self.write(wrong, "config.toml")
            with self.assertRaisesRegex(ScenarioError, message):
                run_scenario(file)

    WATCHMAN = """
        from informant import log, on, recorder, timer

        @timer("poll", every="10s")
        @timer("report", cron="0 8 * * *")
        def run(tick):
            log.info("%s %s %d", tick, tick.scheduled.isoformat(), tick.attempt)
            if tick.name == "report" and tick.attempt < 2:
                raise RuntimeError("not yet")

        @on.add("v1", "Pod")
        def crashing(pod, event):
            recorder.warning(event, "Crashing", f"{event} crashes", related=recorder.reference("v1", "Node", name="n1"))
        """

    def watch(self, steps: str, allow: str = "{ events: true }") -> None:
        config = f"config: {{ plugin: {{ watchman: {{ allow: {allow} }} }} }}"
        run_scenario(self.write(f"{config}\nsteps:\n{steps}", "a.scenario.yaml"), self.write(self.WATCHMAN))

    def test_timers_run_once_for_each_step_and_are_retried(self) -> None:
        self.watch(
            """
  - wait: 10s
    expect: { calls: [] }
  - timer: poll
    expect:
      calls: [{ call: on-timer, timer: poll, missed: 0, attempt: 0, result: ok }]
      log: [poll 2026-01-01T00:00:10+00:00 0]
  - timer: report
    expect: { calls: [{ call: on-timer, timer: report, result: retry, error: "*not yet*" }] }
  - timer: poll
  - wait: 3s
    expect:
      calls:
        - on-timer poll
        - { call: on-timer, timer: report, attempt: 1, result: retry }
        - { call: on-timer, timer: report, attempt: 2, result: ok }
      log: { includes: [report 2026-01-01T00:00:10+00:00 2] }
      deadLetters: []
"""
        )

    def test_a_run_becomes_part_of_one_whose_retry_is_due(self) -> None:
        self.watch(
            """
  - timer: report
  - wait: 500ms
  - timer: report
  - timer: report
    expect: { calls: [{ call: on-timer, attempt: 0, result: retry }] }
  - wait: 499ms
    expect: { calls: [] }
  - wait: 1ms
    expect:
      calls: [{ call: on-timer, timer: report, missed: 2, attempt: 0, result: retry }]
      log: { includes: [report 2026-01-01T00:00:00.500000+00:00 0] }
  - wait: 2s
    expect: { calls: [{ call: on-timer, missed: 2, attempt: 1, result: retry }] }
  - wait: 4s
    expect: { calls: [{ call: on-timer, missed: 2, attempt: 2, result: ok }] }
  - timer: report
    expect: { calls: [{ call: on-timer, missed: 0, attempt: 0 }] }
"""
        )

    def test_recorded_events_are_compared(self) -> None:
        steps = f"""
  - apply: {POD}
    expect:
      events: [{{ type: Warning, reason: Crashing, action: Crashing, note: "*crashes", regarding: Pod web/a }}]
  - expect: {{ events: [] }}
"""
        self.watch(steps)
        self.watch(steps.replace("regarding: Pod web/a", "related: Node n1"))
        for before, after, message in (
            ("Pod web/a", "Pod web/b", 'events[0]: regarding: expected "Pod web/b", found "Pod web/a"'),
            ("*crashes", "*runs", 'events[0]: note: expected "*runs", found "web/a crashes"'),
            ("type: Warning", "type: Bad", 'events[0].type: "Bad" is none of Normal, Warning'),
            ("type: Warning", "kind: Warning", "events[0].kind: there is no such member; there are action, note,"),
        ):
            with self.subTest(after), self.assertRaises((AssertionError, ScenarioError)) as caught:
                self.watch(steps.replace(before, after))
            self.assertIn(message, str(caught.exception))

    def test_events_are_denied_without_their_grant(self) -> None:
        calls = '[{ call: on-add, result: permanent, error: "*not granted (allow.events)" }]'
        for allow in ("{}", "{ events: false }", "{ kube: [] }"):
            self.watch(f"  - {{ apply: {POD}, expect: {{ calls: {calls}, events: [] }} }}", allow)

    def test_timers_that_the_plugin_lacks_are_refused(self) -> None:
        for steps, message in (
            ("  - timer: pool", "steps[0].timer: the plugin has no timer pool, only report, poll"),
            ("  - expect: { calls: [on-timer pool] }", "calls[0]: the plugin has no timer pool, only report, poll"),
        ):
            with self.subTest(steps), self.assertRaises(ScenarioError) as caught:
                self.watch(steps)
            self.assertIn(message, str(caught.exception))
        self.assertIn("steps[0].timer: the plugin has no timers", self.outcome("steps: [{ timer: poll }]"))
        steps = "steps: [{ expect: { calls: [on-timer poll] } }]"
        self.assertIn("the plugin has no function for on-timer", self.outcome(steps))

    def test_mistakes_in_a_file_have_a_line_and_a_remedy(self) -> None:
        for text, message in (
            (
                "steps: [{ aply: 1 }]",
                "a.scenario.yaml:1: steps[0].aply: there is no such member; there are apply, delete,",
            ),
            ("name: a", "a.scenario.yaml:1: the scenario has no `steps`"),
            (f"steps: [{{ apply: {POD}, wait: 1s }}]", "steps[0]: a step has two actions, apply and wait"),
            ("steps:\n- wait: 10", "a.scenario.yaml:2: steps[0].wait: 10 is not a duration: write it as 30s or 5m"),
            ("steps:\n- delete: web/a", 'a.scenario.yaml:2: steps[0].delete: "web/a" is not a reference'),
            ("steps:\n- delete: v1/pods web/a", "a.scenario.yaml:2: steps[0].delete: v1/pods web/a does not exist"),
            ("steps: [{ requeue: v1/pods web/a }]", "steps[0].requeue: the plugin has no dead letter of v1/pods web/a"),
            ("steps: [{ requeue: all }]", "a.scenario.yaml:1: steps[0].requeue: the plugin has no dead letter"),
            ("steps: [{ expect: { calls: [{ call: on-change }] } }]", 'calls[0].call: "on-change" is none of on-add,'),
            ("steps: [{ expect: { calls: [on-add v1/nodes a] } }]", "no informer of the plugin watches v1/nodes"),
            ("steps: [{ expect: { metrics: { seen: 1 } } }]", "the manifest declares no metric seen"),
            ("steps: [", "a.scenario.yaml:1: "),
        ):
            with self.subTest(text):
                self.assertIn(message, self.outcome(text))

    def test_writes_without_an_end_are_refused(self) -> None:
        handler = "from informant import kube, on\n@on.upsert('v1', 'Pod')\n"
        handler += "def f(pod, event): kube.patch(event, annotations={'version': pod.metadata.resourceVersion})\n"
        config = "config: { plugin: { a: { allow: { kube: [{ resource: v1/pods, verbs: [patch] }] } } } }"
        file = self.write(f"{config}\nsteps: [{{ apply: {POD} }}]", "a.scenario.yaml")
        with self.assertRaisesRegex(ScenarioError, "a.scenario.yaml:1: the plugin still writes after 1000 events"):
            run_scenario(file, self.write(handler, "handler.py"))

    def test_types_are_those_of_the_core_schema(self) -> None:
        text = "[08, 010, 0x10, 0o17, -3, 1e3, .5, True, FALSE, Null, ~, yes, 1_0, 12:30, 2026-01-01, .inf]"
        found = Node.read(self.write(text, "a.scenario.yaml")).value
        expected = [8, 10, 16, 15, -3, 1000.0, 0.5, True, False, None, None]
        self.assertEqual(found, [*expected, "yes", "1_0", "12:30", "2026-01-01", ".inf"])
        self.assertEqual(list(map(type, found[:11])), list(map(type, expected)))
        self.assertEqual(Node.read(self.write("{ 08: a }", "a.scenario.yaml")).value, {"08": "a"})

    def test_yaml_that_is_broken_has_a_line(self) -> None:
        for text, message in (
            ("name: a\nname: b\nsteps: []", "a.scenario.yaml:2: `name` is there twice"),
            ("{ [a]: b }", "a.scenario.yaml:1: a name is not a text"),
            (
                "steps:\n  - apply: |\n      kind: Pod\n      a: [}",
                "a.scenario.yaml:2: steps[0].apply: line 2 of the text: ",
            ),
            (
                "steps:\n  - apply: |\n      kind: Pod\n      kind: Node",
                "a.scenario.yaml:2: steps[0].apply: line 2 of the text: `kind` is there twice",
            ),
            ("http: [{ url: x, method: 1 }]\nsteps: []", "a.scenario.yaml:1: http[0].method: 1 is not a text"),
        ):
            with self.subTest(text):
                self.assertIn(message, self.outcome(text))

    def test_what_only_informant_can_do_is_refused(self) -> None:
        for text in (
            "config: { plugin: { scribe: { limits: { cpu: 1s } } } }\nsteps: []",
            "http: [{ url: x, after: 1s }]\nsteps: []",
            "steps: [{ replay: call.json }]",
            "time: 2026-11-28T11:21:16Z\nsteps: []",
        ):
            with self.subTest(text):
                self.assertIn("run the scenario with `informant plugin test`", self.outcome(text))

    def test_a_refused_plugin_fails_the_scenario_unless_expected(self) -> None:
        broken = self.write("from informant import on\n@on.added()\ndef f(): pass\n", "broken.py")
        file = self.write('steps: [{ expect: { refused: "*broken.py:2*" } }]', "a.scenario.yaml")
        run_scenario(file, broken)
        file = self.write("steps: [{ expect: { calls: [] } }]", "a.scenario.yaml")
        with self.assertRaisesRegex(AssertionError, "steps\\[0\\]: the plugin was refused: "):
            run_scenario(file, broken)
