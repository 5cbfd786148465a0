"""Tests of the example, as its author would write them: ``python3 -m unittest``."""

import unittest

from informant.testing import Driver, Failed


def pod(container, uid="u1", **status):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "web", "name": "checkout", "uid": uid},
        "status": {"containerStatuses": [{"name": "app", **container}, {"name": "proxy", "restartCount": 0}], **status},
    }


def running(restarts):
    return {"restartCount": restarts, "state": {"running": {"startedAt": "2026-11-21T00:00:00Z"}}}


def ended(reason, code):
    return {"terminated": {"reason": reason, "exitCode": code}}


def crashed(restarts, reason, code):
    return {"restartCount": restarts, "state": ended(reason, code)}


def backing_off(restarts, reason, code):
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    return {"restartCount": restarts, "state": waiting, "lastState": ended(reason, code)}


class CrashLoop(unittest.TestCase):
    def setUp(self):
        self.driver = Driver("crash_loop.py")

    def check(self, container, *expected, uid="u1"):
        self.driver.clear()
        self.driver.put(pod(container, uid))
        self.assertEqual(self.driver.messages, [f"warn: web/checkout: container app {text}" for text in expected])

    def test_a_crash_loop_is_reported_once_for_each_restart(self):
        self.check(running(0))
        self.check(crashed(0, "Error", 1))
        self.check(backing_off(1, "Error", 1), "is crash-looping: 1 restart, last exit code 1 (Error)")
        self.check(backing_off(1, "Error", 1))
        self.check(running(2))
        self.check(backing_off(2, "Error", 3), "is crash-looping: 2 restarts, last exit code 3 (Error)")

    def test_restarts_below_the_configured_minimum_are_not_reported(self):
        self.driver = Driver("crash_loop.py", config={"min-restarts": 3})
        self.check(backing_off(2, "Error", 1))
        self.check(backing_off(3, "Error", 1), "is crash-looping: 3 restarts, last exit code 1 (Error)")

    def test_an_oom_kill_is_reported_once(self):
        self.check(crashed(0, "OOMKilled", 137), "was OOM-killed: exit code 137, seen once, 0 restarts")
        self.check({**running(1), "lastState": ended("OOMKilled", 137)})
        self.check(crashed(1, "OOMKilled", 137), "was OOM-killed: exit code 137, seen 2 times, 1 restart")
        self.check(backing_off(1, "OOMKilled", 137), "is crash-looping: 1 restart, last exit code 137 (OOMKilled)")

    def test_an_oom_kill_before_the_start_is_reported(self):
        kill = {**running(4), "lastState": ended("OOMKilled", 137)}
        self.check(kill, "was OOM-killed: exit code 137, seen once, 4 restarts")

    def test_init_containers_count_too(self):
        migrate = {"name": "migrate", **backing_off(4, "Error", 2)}
        self.driver.put(pod(running(0), initContainerStatuses=[migrate]))
        news = "warn: web/checkout: container migrate is crash-looping: 4 restarts, last exit code 2 (Error)"
        self.assertEqual(self.driver.messages, [news])

    def test_a_new_pod_is_reported_again_but_no_replay(self):
        news = "is crash-looping: 5 restarts, last exit code 1 (Error)"
        self.check(backing_off(5, "Error", 1), news)
        self.driver.clear()
        self.driver.replay()
        self.assertEqual(self.driver.messages, [])
        self.check(backing_off(5, "Error", 1), news, uid="u2")

    def test_a_swap_reports_nothing_twice(self):
        self.check(backing_off(5, "Error", 1), "is crash-looping: 5 restarts, last exit code 1 (Error)")
        self.driver.swap()
        self.driver.clear()
        self.driver.replay()
        self.assertEqual(self.driver.messages, [])

    def test_a_deleted_pod_is_forgotten(self):
        self.driver.put(pod(backing_off(5, "Error", 1)))
        self.driver.delete("web/checkout", final_state_unknown=True)
        self.assertEqual(self.driver.state.pods, {})

    def test_a_healthy_pod_takes_no_memory(self):
        self.driver.put(pod(running(0)))
        self.driver.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}})
        self.assertEqual(self.driver.state.pods, {})

    def test_a_reset_restart_count_is_followed(self):
        self.check(backing_off(5, "Error", 1), "is crash-looping: 5 restarts, last exit code 1 (Error)")
        self.check(backing_off(1, "Error", 1), "is crash-looping: 1 restart, last exit code 1 (Error)")

    def test_the_summary_counts_all_sources(self):
        self.driver.put(pod(backing_off(5, "OOMKilled", 137)))
        self.driver.clear()
        self.driver.synced()
        summary = "info: source 0 is synced; in all sources 1 containers crash-looping, 1 OOM kills seen"
        self.assertEqual(self.driver.messages, [summary])

    def test_unknown_keys_of_the_config_are_refused(self):
        with self.assertRaisesRegex(Failed, "unknown key `min-restart`; did you mean `min-restarts`?"):
            Driver("crash_loop.py", config={"min-restart": 3})


if __name__ == "__main__":
    unittest.main()
