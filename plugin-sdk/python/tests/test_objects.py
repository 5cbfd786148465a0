from __future__ import annotations

import copy
import json
import pickle
import unittest

from informant import Fields, Object, Permanent
from informant.objects import DEPTH_MAX, Origin, parse_object

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "web", "name": "a", "uid": "u", "labels": {"app": "x"}},
    "spec": {"containers": [{"name": "one", "image": "i1"}, {"name": "two"}]},
}


def parsed(object: object = POD, origin: object = None) -> Object:
    return parse_object(json.dumps(object).encode(), origin)


class Objects(unittest.TestCase):
    def test_members_are_attributes_and_missing_ones_are_none(self) -> None:
        pod = parsed()
        self.assertEqual(pod.spec.containers[0].image, "i1")
        self.assertIsNone(pod.spec.containers[1].image)
        self.assertIsNone(pod.spec.nodeName)

    def test_a_missing_section_reads_as_empty(self) -> None:
        self.assertIsNone(parsed().status.phase)
        self.assertFalse(parsed().status)
        self.assertNotIn("status", parsed())

    def test_an_object_is_a_dict(self) -> None:
        pod = parsed()
        self.assertEqual(pod, POD)
        self.assertIsInstance(pod["spec"], dict)
        self.assertEqual(json.loads(json.dumps(pod)), POD)
        self.assertEqual({**pod.metadata}["name"], "a")

    def test_members_can_be_set(self) -> None:
        pod = parsed()
        pod.spec.nodeName = "n"
        del pod.metadata.labels
        self.assertEqual(pod["spec"]["nodeName"], "n")
        self.assertEqual(pod.labels, {})
        with self.assertRaisesRegex(AttributeError, "labels is derived from metadata"):
            pod.labels = {}  # type: ignore[misc]
        with self.assertRaises(AttributeError):
            del pod.spec.absent

    def test_labels_annotations_and_key_come_from_metadata(self) -> None:
        pod = parsed()
        self.assertEqual((pod.key, pod.name, pod.namespace, pod.uid), ("web/a", "a", "web", "u"))
        self.assertEqual((pod.labels, pod.annotations), ({"app": "x"}, {}))
        self.assertEqual(parsed({"metadata": {"name": "n"}}).key, "n")

    def test_the_key_of_a_projected_object_comes_from_the_call(self) -> None:
        object = parsed({"kind": "Pod"}, Origin(0, "web", "b", "u2"))
        self.assertEqual((object.key, object.uid, object.labels), ("web/b", "u2", {}))

    def test_pointers_reach_nested_values(self) -> None:
        pod = parsed()
        self.assertEqual(list(pod.all("/spec/containers/*/image")), ["i1"])
        self.assertEqual(pod.at("/spec/containers/1/name"), "two")
        self.assertEqual(pod.at("/spec/containers/2/name", "none"), "none")
        self.assertEqual(pod.at("/metadata/labels/app"), "x")
        self.assertEqual(Fields({"a/b": {"c~d": 1}}).at("/a~1b/c~0d"), 1)
        with self.assertRaisesRegex(ValueError, "must begin with /"):
            pod.at("spec.nodeName")

    def test_copies_are_independent(self) -> None:
        pod = parsed(POD, Origin(0, "web", "a", "u"))
        for copied in (copy.deepcopy(pod), pickle.loads(pickle.dumps(pod))):
            copied.spec.containers[0].image = "other"
            self.assertEqual(pod.spec.containers[0].image, "i1")
            self.assertIsInstance(copied, Object)
            self.assertEqual(copied._origin, pod._origin)
        self.assertEqual(copy.copy(pod), pod)

    def test_a_document_that_is_no_object_is_an_error(self) -> None:
        with self.assertRaisesRegex(TypeError, "not list"):
            parse_object(b"[]")

    def test_objects_nested_too_deeply_are_refused(self) -> None:
        def nested(levels: int, text: str = "") -> bytes:
            return b'{"a":[' * (levels // 2) + json.dumps(text).encode() + b"]}" * (levels // 2)

        self.assertIn("a", parse_object(nested(DEPTH_MAX)))
        self.assertIn("a", parse_object(nested(20, '[{\\"' * 5_000)))
        with self.assertRaisesRegex(Permanent, "more than 500 levels"):
            parse_object(nested(4 * DEPTH_MAX))


if __name__ == "__main__":
    unittest.main()
