"""The contents of objects that tasks change."""

from __future__ import annotations

import threading
import unittest
from typing import Any

from ioweave.contents import Snapshot, update_in_place


class InPlace(unittest.TestCase):
    def test_contents_of_an_object_are_replaced_in_place(self) -> None:
        class Plain:
            def __init__(self, value: int) -> None:
                self.value = value

        for old, new in (
            ([1], [2, 3]),
            ({1: 2}, {3: 4}),
            ({1}, {2}),
            (bytearray(b"1"), bytearray(b"23")),
        ):
            with self.subTest(type(old)):
                update_in_place("t", old, new)
                self.assertEqual(old, new)
        plain = Plain(1)
        update_in_place("t", plain, Plain(2))
        self.assertEqual(plain.value, 2)

    def test_an_object_without_replaceable_contents_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "task 't' changes an object of type object"):
            update_in_place("t", object(), object())


class Snapshots(unittest.TestCase):
    def test_restore_gives_objects_their_old_contents_each_time(self) -> None:
        inner: list[Any] = [1]
        things: list[Any] = [inner, {"a": [2]}, bytearray(b"3")]
        snapshot = Snapshot("t", things)
        for _ in range(2):
            inner.append(4)
            things[1]["a"].append(5)
            things[2].clear()
            snapshot.restore()
            self.assertEqual(things, [[1], {"a": [2]}, bytearray(b"3")])
        self.assertIs(things[0], inner)

    def test_an_object_that_cannot_be_restored_is_refused_before_it_changes(self) -> None:
        for thing, words in (
            ([threading.Lock()], "'t' changes an object that cannot be copied .*lock.* retries"),
            (object(), "'t' changes an object of type object"),
        ):
            with self.assertRaisesRegex(TypeError, words):
                Snapshot("t", [thing])


if __name__ == "__main__":
    unittest.main()
