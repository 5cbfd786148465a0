from __future__ import annotations

import glob
import os
import unittest

from support import ROOT, PluginTest

from informant.testing import ScenarioError, run_scenario

try:
    import yaml  # noqa: F401

    HAS_YAML = True
except ImportError:
    HAS_YAML = False

POD = "{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, annotations: { do: never } } }"


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
            ("steps: [{ expect: { calls: [{ call: on-change }] } }]", 'calls[0].call: "on-change" is none of on-add,'),
            ("steps: [{ expect: { calls: [on-add v1/nodes a] } }]", "no informer of the plugin watches v1/nodes"),
            ("steps: [{ expect: { metrics: { seen: 1 } } }]", "the manifest declares no metric seen"),
            ("steps: [", "a.scenario.yaml:1: "),
        ):
            with self.subTest(text):
                self.assertIn(message, self.outcome(text))

    def test_what_only_informant_can_do_is_refused(self) -> None:
        for text in (
            "config: config.toml\nsteps: []",
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
