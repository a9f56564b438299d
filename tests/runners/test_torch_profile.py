"""A profile: shapes of real steps, a table that loads, and fits that return what they were made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lightspec_bench.core import BenchError
from lightspec_bench.latency_file import load_latency, read_latency_csv
from lightspec_bench.latency_format import Point
from lightspec_bench.profiling import ProfileJob, document, grid, latency_of, profile, with_context_costs
from lightspec_bench.profiling_fit import host_line, host_terms, nonnegative_fit, parallel_line, points
from lightspec_bench.runners.torch_dummy import dummy_drafter
from lightspec_bench.runners.torch_engine import Engine
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_profile import Shape, Timing, time_shapes
from lightspec_bench.runners.torch_targets import dummy_target

JOB = ProfileJob(
    Path("t.csv"), architecture="tiny", max_draft_tokens=3, rows=(1, 4, 8), requests=(1, 2), contexts=(8, 16), repeats=2
)


def target() -> TorchModel:
    return dummy_target("tiny", "float32")


def quiet(stage: str, done: int, total: int, said: str) -> None:
    pass


def timing(part: str, shape: Shape, *ms: float) -> Timing:
    return Timing(part, shape, np.array(ms) / 1e3)  # type: ignore[arg-type]


def test_the_grid_holds_the_rows_that_so_many_requests_can_have() -> None:
    expected = [(1, 1, 8), (4, 1, 8), (1, 1, 16), (4, 1, 16), (2, 2, 8), (4, 2, 8), (8, 2, 8)]
    job = ProfileJob(**{**fields(JOB), "max_context": 16})
    assert [(s.rows, s.requests, s.context) for s in grid(job, 3, target())] == expected
    with pytest.raises(BenchError, match="no shape is left"):
        grid(ProfileJob(**{**fields(JOB), "max_context": 4}), 3, target())


def fields(job: ProfileJob) -> dict[str, object]:
    return {name: getattr(job, name) for name in ProfileJob.__dataclass_fields__}


class Watched:
    """What the engine was asked for while it was timed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verified: list[tuple[int, int, int]] = []
        self.read: list[int] = []
        verify, follow = Engine.verify, Engine._follow

        def watched_verify(engine: Engine, slots: np.ndarray, plan: object) -> object:
            context = int(engine.slots.lengths[slots].sum())
            found = verify(engine, slots, plan)  # type: ignore[arg-type]
            self.verified.append((int(found.num_verify.sum()) + len(slots), len(slots), context))
            return found

        def watched_follow(engine: Engine, slots: np.ndarray) -> None:
            rows = None if engine._final is None else engine._final_rows(*engine._final, slots)
            self.read.append(0 if rows is None else rows.num_rows)
            follow(engine, slots)

        monkeypatch.setattr(Engine, "verify", watched_verify)
        monkeypatch.setattr(Engine, "_follow", watched_follow)


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
def test_a_step_of_the_shape_is_what_is_timed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = target()
    watched = Watched(monkeypatch)
    drafter = dummy_drafter(kind, model, 3)  # type: ignore[arg-type]
    shapes = [Shape(5, 2, 9), Shape(2, 2, 9)]
    found = dict(time_shapes(model, drafter, shapes, 3, repeats=2))
    assert set(watched.verified) == {(5, 2, 18), (2, 2, 18)}
    assert set(watched.read) == {5, 2}  # the drafter reads every verified row
    parts = {shape: [timing.part for timing in timings] for shape, timings in found.items()}
    if kind == "eagle":
        assert parts == {shapes[0]: ["verify", "first"], shapes[1]: ["verify", "first", "later"]}
    else:
        assert parts == {shape: ["verify", "proposal"] for shape in shapes}
    assert all(len(timing.seconds) == 2 for timings in found.values() for timing in timings)


@pytest.mark.parametrize("drafter", ["eagle", "parallel", "ngram", "layer-skip:first=1,last=2", None])
def test_the_table_loads(drafter: str | None, tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    found = profile(ProfileJob(**{**fields(JOB), "out": out, "drafter": drafter}), quiet)
    latency = load_latency(str(out))
    header = read_latency_csv(out).header
    assert header == {"format": "lightspec-bench-latency 1", **found.header}
    assert (header["origin"], header["kind"], header["model"]) == ("measured", "table", "tiny, random weights")
    assert f"{torch.get_num_threads()} threads" in header["device"]
    assert float(latency.verify_s(8, 2, 32)) > 0
    if drafter in (None, "ngram"):
        assert not any(point.part == "draft" for point in found.points)
    else:
        assert float(latency.draft_pass_s(4, 32)) > 0
    assert float(latency.host_s(2, True)) >= float(latency.host_s(2, False)) > 0
    written = document(found, out)
    assert len(written["timings"]) == len(found.timings)
    assert found.served_over_table > 0
    assert list(tmp_path.iterdir()) == [out]


def test_points_of_a_chain_drafter() -> None:
    wide, narrow = Shape(8, 2, 10), Shape(2, 2, 10)
    timings = [
        timing("verify", wide, 5.0, 7.0, 6.0), timing("first", wide, 2.0), timing("verify", narrow, 4.0),
        timing("first", narrow, 1.5), timing("later", narrow, 1.0),
    ]  # fmt: skip
    assert points(timings) == [
        Point("target", 2, 2, 20, 4.0), Point("target", 8, 2, 20, 6.0),
        Point("draft", 2, 2, 20, 1.0), Point("draft", 8, 2, 20, 2.0),
    ]  # fmt: skip


def test_a_parallel_drafters_line_returns_proposals_made_from_it() -> None:
    shapes = [Shape(n * k, n, c) for n in (1, 4, 16) for k in (1, 3) for c in (100, 400)]
    ms = [2 * 1.5 + 0.01 * (s.rows + 4 * s.requests) + 2 * 1e-4 * s.requests * s.context for s in shapes]
    line, error = parallel_line([timing("proposal", s, v) for s, v in zip(shapes, ms, strict=True)], block=4)
    expected = {"draft_fixed_ms": 1.5, "draft_us_per_row": 10.0, "draft_us_per_context_token": 0.1}
    assert line == pytest.approx(expected)
    assert error == pytest.approx(0.0, abs=1e-9)


def test_host_time_is_a_line_and_a_drafters_share_what_it_adds() -> None:
    plain = {1: 2.03e-3, 8: 2.24e-3, 32: 2.96e-3}
    drafting = {n: seconds + 0.5e-3 + n * 5e-6 for n, seconds in plain.items()}
    expected = {"host_step_ms": 2.0, "host_request_us": 30.0, "drafter_step_ms": 0.5, "drafter_request_us": 5.0}
    assert host_terms(plain, drafting) == pytest.approx(expected)
    assert host_terms(plain, dict.fromkeys(plain, 0.0))["drafter_step_ms"] == 0.0
    assert host_line({4: 1e-3}) == (1e-3, 0.0)
    assert host_line({1: 2e-3, 8: 1e-3})[1] == 0.0  # never less for more requests


def test_no_coefficient_is_negative() -> None:
    columns = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert nonnegative_fit(columns, np.array([3.0, 5.0, 7.0])) == pytest.approx([1.0, 2.0])
    assert nonnegative_fit(columns, np.array([3.0, 2.0, 1.0])) == pytest.approx([2.0, 0.0])
    assert nonnegative_fit(columns, -np.ones(3)) == pytest.approx([0.0, 0.0])


def test_noise_never_makes_a_table_that_does_not_load() -> None:
    steep = [Point("target", 1, 1, 10, 1.0), Point("target", 1, 1, 20, 40.0), Point("target", 4, 2, 20, 3.0)]
    header = {
        "kind": "table", "name": "n", "device": "d", "model": "m", "dtype": "float32", "engine": "e",
        "date": "2026-11-29", "origin": "measured", "source": "s", "licence": "l", "host_step_ms": "0",
        "host_request_us": "0", "drafter_step_ms": "0", "drafter_request_us": "0",
    }  # fmt: skip
    with pytest.raises(BenchError, match="costs nothing once its context is paid"):
        latency_of({**header, "context_cost": "per-size"}, steep)
    found = with_context_costs(header, steep)
    assert found["context_cost"] not in ("per-size", "")
    assert float(latency_of(found, steep).verify_s(1, 1, 10)) > 0


def test_jobs_that_make_no_sense() -> None:
    for changes, message in (
        ({"target": "smollm2"}, "expected one of them"),
        ({"rows": ()}, r"rows is \(\), expected numbers from 1 up"),
        ({"contexts": (0,)}, r"contexts is \(0,\)"),
        ({"repeats": 0}, "repeats is 0, expected at least 1"),
    ):
        with pytest.raises(BenchError, match=message):
            ProfileJob(**{**fields(JOB), **changes})  # type: ignore[arg-type]
    with pytest.raises(BenchError, match="is no shape of a step"):
        Shape(1, 2, 8)
    with pytest.raises(BenchError, match="verifies 4 draft tokens of a request, expected at most 3"):
        dict(time_shapes(target(), None, [Shape(5, 1, 8)], 3, 1))
