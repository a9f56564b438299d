"""The vLLM runner, from a command to its tables and the simulator beside them: one small run, asked many things."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lightspec_bench.experiment import stored_runs, stored_suite, suite_cells
from lightspec_bench.measured import Measured
from lightspec_bench.store import read_json
from lightspec_bench.suite import measured_suite
from tests.runners.vllm_support import ENVIRONMENT, NEEDS_VLLM

pytestmark = NEEDS_VLLM
STOCK = "stock:planner=(schedule:ranges=[[1,1,2],[2,8,1]])"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny target that vLLM runs, a drafter for it, and prompts."""
    from tests.runners.torch_checkpoint import save_prompts, save_tokenizer
    from tests.runners.vllm_support import tiny_drafter, tiny_target

    folder = tmp_path_factory.mktemp("tiny")
    save_tokenizer(tiny_target(folder / "model"))
    tiny_drafter(folder / "model", folder / "drafter")
    save_prompts(folder / "prompts.jsonl")
    return folder


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            **ENVIRONMENT,
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_LOGGING_LEVEL": "ERROR",
        }.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def finished(place: Path, environment: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two loads; no speculation, static K up to 1, vLLM's own dynamic K and a planner of ours."""
    from lightspec_bench.cli_measure import measure_command

    folder = tmp_path_factory.mktemp("runs") / "run"
    what = Measured(
        str(place / "model"), f"model:{place / 'drafter'}", str(place / "prompts.jsonl"), max_tokens=12,
        max_draft_tokens=3, max_static=1, runner="vllm",
    )  # fmt: skip
    suite = measured_suite(what, (1, 3), (STOCK, "lightspec"))
    assert measure_command(suite, folder, resume=False, all_static=False, json_output=True) == 0
    return folder


def test_the_folder_is_that_of_any_run_labelled_measured(finished: Path) -> None:
    summary = pd.read_parquet(finished / "summary.parquet")
    own = {"stock:planner=schedule", STOCK}
    assert set(summary["planner"]) == {"none", "static:k=0", "static:k=1", "lightspec", *own}
    assert set(summary["origin"]) == {"measured"}
    assert (summary["throughput"] > 0).all()
    assert "vLLM" in read_json(finished / "suite.json")["latencies"][0]
    assert {"latency-1.csv", "latency-3.csv", "report.html"} <= {path.name for path in finished.iterdir()}


def test_adaptive_verification_is_skipped_with_the_reason(finished: Path) -> None:
    outcomes = read_json(finished / "outcomes.json")
    assert {outcome["status"] for outcome in outcomes} == {"skipped"}
    assert len(outcomes) == 2
    assert "GPU model runner V2 alone" in outcomes[0]["reason"]


def test_every_output_is_that_of_no_speculation(finished: Path) -> None:
    from lightspec_bench.measured_notes import sameness

    found = sameness(finished, suite_cells(stored_suite(finished)))
    assert (found.num_compared, found.num_different) == (5 * (6 + 12), 0)


def test_steps_are_those_of_the_planner(finished: Path) -> None:
    """K is what each rule says, with a drafter that drafts at every request's prompt already."""
    runs = {
        (cell.concurrency, cell.planner): run
        for cell, run in stored_runs(suite_cells(stored_suite(finished)), finished)
    }
    for load in (1, 3):
        none, zero, one = (runs[load, name].steps for name in ("none", "static:k=0", "static:k=1"))
        assert none is not None
        assert zero is not None
        assert one is not None
        assert not none["num_verify_tokens"].any()
        assert not none["draft_s"].any()
        assert not zero["num_verify_tokens"].any()
        assert (zero["draft_s"] > 0).all()  # the drafter is loaded, and follows
        assert set(one["draft_depth"].tolist()) == {1}
        assert (one["num_verify_tokens"] <= one["num_requests"]).all()
        assert one["num_accepted_tokens"].sum() > 0
    alone, together = runs[1, STOCK].steps, runs[3, STOCK].steps
    assert alone is not None
    assert together is not None
    assert set(alone["draft_depth"].tolist()) == {2}
    full = together["num_requests"] == 3
    assert set(together["draft_depth"][full].tolist()) == {1}


def test_requests_add_up(finished: Path) -> None:
    for cell, run in stored_runs(suite_cells(stored_suite(finished)), finished):
        outputs = read_json(finished / "outputs" / f"{cell.key}.json")
        found = dict(zip(run.requests["request_id"].tolist(), run.requests["num_output_tokens"].tolist(), strict=True))
        assert found == {int(name): len(tokens) for name, tokens in outputs.items()}
        steps = run.requests
        out = 1 + steps["num_steps"] + steps["num_accepted_tokens"]
        assert np.array_equal(out, steps["num_output_tokens"])


def test_static_cells_are_predicted_to_the_token(
    finished: Path, environment: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trace is recorded by vLLM itself, with every draft cut to nothing."""
    from lightspec_bench.cli_measure import validate_command

    validate_command(finished, None, None, json_output=True)
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    by_cell = {(cell["concurrency"], cell["planner"]): cell for cell in found["cells"]}
    for load in (1, 3):
        cell = by_cell[load, "static:k=1"]
        assert cell["mean_acceptance_length_predicted"] == cell["mean_acceptance_length_measured"] > 1.0
    assert (finished / "trace.parquet").exists()
