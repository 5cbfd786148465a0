from __future__ import annotations

import json
import unittest

from support import PluginTest, pod

TEXT = """
from informant import on, state

seen = state({"pods": {}, "count": 0})

@on.add("v1", "Pod")
def add(pod, event):
    seen.pods[event.name] = event.uid
    seen.count += 1
"""


class State(PluginTest):
    def test_state_is_handed_over_at_a_swap(self) -> None:
        driver = self.start(TEXT)
        driver.put(pod(uid="u"))
        before = driver.state
        driver.swap()
        self.assertIsNot(driver.state, before)
        self.assertEqual(driver.state, {"pods": {"a": "u"}, "count": 1})
        driver.put(pod("b"))
        self.assertEqual(driver.state.count, 2)

    def test_members_follow_what_the_next_version_declares(self) -> None:
        driver = self.start(TEXT)
        driver.put(pod(uid="u"))
        next_version = TEXT.replace('{"pods": {}, "count": 0}', '{"pods": {}, "since": "now"}').replace(
            "seen.count", "x=0;x"
        )
        driver.swap(self.write(next_version, "next.py"))
        self.assertEqual(driver.state, {"pods": {"a": "u"}, "since": "now"})

    def test_migrate_converts_the_state_of_another_version(self) -> None:
        driver = self.start(TEXT)
        driver.put(pod(uid="u"))
        text = """
            from informant import on, state

            seen = state({"names": []}, migrate=lambda old: {"names": sorted(old["pods"])})

            @on.add("v1", "Pod")
            def add(pod): pass
            """
        driver.swap(self.write(text, "next.py"))
        self.assertEqual(driver.state, {"names": ["a"]})

    def test_a_version_that_fails_leaves_the_previous_one_running(self) -> None:
        driver = self.start(TEXT)
        driver.put(pod())
        self.fails(driver.swap, self.write("1 / 0", "next.py"))
        self.fails(
            driver.swap,
            self.write(
                "from informant import on, state\nstate({}, migrate=lambda old: 1)\n@on.synced\ndef f(): pass\n",
                "next.py",
            ),
        )
        driver.put(pod("b"))
        self.assertEqual(driver.state.count, 2)

    def test_what_json_cannot_represent_cancels_the_swap(self) -> None:
        for value, message in (
            ("{1: 2}", "state.pods.a has the key 1, but keys of JSON are texts"),
            ("{1, 2}", "state.pods.a is {1, 2}, which JSON cannot represent"),
            ("[float('nan')]", "state.pods.a[0] is nan, which JSON cannot represent"),
        ):
            with self.subTest(value):
                driver = self.start(TEXT.replace("event.uid", value))
                driver.put(pod())
                self.assertIn(message, self.fails(driver.swap).message)

    def test_saved_state_is_a_json_document(self) -> None:
        driver = self.start(TEXT)
        saved = json.loads(driver.save())
        self.assertEqual(saved, {"format": 1, "states": {"state": {"pods": {}, "count": 0}}})

    def test_wrong_declarations_are_refused(self) -> None:
        for declaration, message in (
            ("state([])", "pass a dict of names and initial values"),
            ("state({}); state({})", "state is declared twice with the name 'state'"),
        ):
            with self.subTest(declaration):
                self.assertIn(message, self.refused(f"from informant import state\n{declaration}\n"))

    def test_several_states_have_names(self) -> None:
        driver = self.start(
            """
            from informant import on, state
            a = state({"n": 1})
            b = state({"n": 2}, name="other")

            @on.add("v1", "Pod")
            def add(pod):
                b.n += 1
            """
        )
        driver.put(pod())
        driver.swap()
        self.assertEqual(driver.registry.states["other"][0], {"n": 3})


if __name__ == "__main__":
    unittest.main()
