import unittest
from typing import Any

from harness import tiom_grid
from harness.benchmarks import tiom
from harness.tiom_grid import Cell, Sweep


def variant(name: str, near_bound: float, pairs: list[float] | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "variant": name,
        "near_bound": near_bound,
        "bound_seconds": {"compute": 2.0, "device": 1.0},
    }
    if pairs is not None:
        entry["speed_up"] = {"pairs": pairs}
    return entry


def cell(
    compute_ns: int = 1_000_000, blocking: float = 1.0, nonblocking: float = 1.0, balance: float = 1
) -> Cell:
    return Cell(
        mode="mix",
        block_bytes=65536,
        compute_ns=compute_ns,
        speed_ups={"blocking": [blocking] * 3, "nonblocking": [nonblocking] * 3},
        over_bound={"standalone": 2.0, "blocking": 1.25, "nonblocking": 1.1},
        balance=balance,
    )


class CellsTest(unittest.TestCase):
    def test_come_from_a_document_of_the_meter(self) -> None:
        document = {
            "cells": [
                {
                    "mode": "fjio",
                    "block_bytes": 4096,
                    "compute_ns": 250_000,
                    "variants": [
                        variant("standalone", 0.5),
                        variant("blocking", 0.8, [1.5, 1.7, 1.6]),
                    ],
                }
            ]
        }
        (found,) = tiom_grid.cells_of(document)
        self.assertEqual(found.name, "fjio, 4 KiB, 0.25 ms")
        self.assertEqual(found.speed_up("blocking"), 1.6)
        self.assertEqual(found.over_bound, {"standalone": 2.0, "blocking": 1.25})
        self.assertEqual(found.balance, 0.5)

    def test_mean_of_speed_ups_is_geometric(self) -> None:
        cells = [cell(blocking=4.0), cell(blocking=1.0)]
        self.assertAlmostEqual(tiom_grid.mean_speed_up(cells, "blocking").value, 2.0)
        self.assertAlmostEqual(tiom_grid.mean_room(cells).value, 2.0)

    def test_part_of_the_mean_is_what_is_reached_of_the_bound(self) -> None:
        cells = [cell(blocking=2.0), cell(blocking=0.5)]
        self.assertAlmostEqual(tiom_grid.mean_part(cells, "blocking").value, 0.5)

    def test_cell_measured_anew_keeps_its_first_runs(self) -> None:
        both = cell(blocking=0.9).and_again(cell(blocking=1.1))
        self.assertEqual(both.speed_ups["blocking"], [0.9] * 3 + [1.1] * 3)
        self.assertAlmostEqual(both.speed_up("blocking"), 1.0)
        self.assertEqual(both.over_bound, cell().over_bound)

    def test_worst_and_best_are_of_one_variant(self) -> None:
        cells = [cell(blocking=0.9, nonblocking=1.3), cell(blocking=1.1, nonblocking=1.2)]
        self.assertIs(tiom_grid.worst(cells, "blocking"), cells[0])
        self.assertIs(tiom_grid.best(cells, "nonblocking"), cells[0])

    def test_diagonal_is_the_most_balanced_cell_of_a_block_if_it_is_balanced(self) -> None:
        near, nearer = cell(balance=0.6), cell(balance=1.2)
        self.assertEqual(tiom_grid.diagonal([near, nearer]), [nearer])
        self.assertEqual(tiom_grid.diagonal([cell(balance=0.4)]), [])


class SweepTest(unittest.TestCase):
    sweep = Sweep(("mix", "fjio"), ("4k", "1m"), ("1ms",), 32, 1 << 20, 0.5, 3)

    def test_options_are_those_of_the_program(self) -> None:
        self.assertEqual(
            self.sweep.options(),
            [
                "--mode=mix,fjio",
                "--block=4k,1m",
                "--compute=1ms",
                "--series=32",
                "--bytes=1048576",
                "--time-limit=500ms",
                "--repetitions=3",
            ],
        )

    def test_takes_as_long_as_its_runs(self) -> None:
        self.assertEqual(self.sweep.seconds(), 4 * 3 * 3 * 0.5)

    def test_one_cell_of_it(self) -> None:
        options = self.sweep.only(cell(compute_ns=250_000), 7).options()
        self.assertIn("--mode=mix", options)
        self.assertIn("--block=65536", options)
        self.assertIn("--compute=0.25ms", options)
        self.assertIn("--repetitions=7", options)
        self.assertIn("--series=32", options)


class DoubtfulTest(unittest.TestCase):
    def test_is_what_one_variant_puts_near_its_bar(self) -> None:
        fine = cell(blocking=1.0, nonblocking=1.0)
        below = cell(blocking=0.9, nonblocking=1.2)
        hardly = cell(blocking=1.1, nonblocking=0.985)
        self.assertEqual(tiom._doubtful([fine, below, hardly]), [below, hardly])


class PartTest(unittest.TestCase):
    def test_pairs_bound_every_repetition_and_raise_none(self) -> None:
        for effort in (tiom.QUICK, tiom.FULL):
            once = tiom.no_more_than(effort, 1)
            self.assertEqual((once.rounds, once.again, once.reaper_repetitions), (1, 1, 1))
            self.assertEqual((once.limited.repetitions, once.raw.repetitions), (1, 1))
            self.assertEqual(once.raw.blocks, effort.raw.blocks)
            self.assertEqual(tiom.no_more_than(effort, 1000), effort)


if __name__ == "__main__":
    unittest.main()
