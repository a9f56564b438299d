"""The order of a measured run's cells: planners back and forth, and cells of one start of an engine together."""

from __future__ import annotations

from lightspec_bench.experiment import suite_cells
from lightspec_bench.measure import in_turn
from lightspec_bench.measured import Measured
from lightspec_bench.suite import measured_suite

WHAT = Measured("target", "ngram", "prompts", max_static=1)


def test_repeats_are_measured_in_turn_back_and_forth() -> None:
    suite = measured_suite(WHAT, (1, 3), ("dspark",), (0, 1))
    order = [(cell.seed, cell.concurrency, cell.planner) for cell in in_turn(suite_cells(suite), lambda planner: 0)]
    row = ["none", "static:k=0", "static:k=1", "dspark"]
    back = row[::-1]
    assert order == [
        (seed, load, name) for seed, names in ((0, row), (1, back)) for load in (1, 3) for name in names
    ]  # fmt: skip


def test_cells_of_one_start_of_an_engine_run_together() -> None:
    suite = measured_suite(WHAT, (1, 3), ("dspark",), (0, 1))
    order = [(c.seed, c.concurrency, c.planner) for c in in_turn(suite_cells(suite), lambda name: int(name != "none"))]
    row = ["static:k=0", "static:k=1", "dspark"]
    with_drafter = [[(seed, load, name) for load in (1, 3) for name in row[:: 1 - 2 * seed]] for seed in (0, 1)]
    plain = [[(seed, load, "none") for load in (1, 3)] for seed in (0, 1)]
    assert order == plain[0] + with_drafter[0] + with_drafter[1] + plain[1]
