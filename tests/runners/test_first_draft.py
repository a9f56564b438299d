"""A request's first proposal: by its first decode step, or with its prompt."""

from __future__ import annotations

import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from tests.support import config_for, random_trace


def steps_of(first_draft: str, concurrency: int = 1) -> tuple[list[int], int]:
    """(draft tokens pending in each step, requests) under static K = 2 with prompts in chunks."""
    trace = random_trace(5)
    config = config_for(trace, concurrency)
    options = SimulatorOptions(prefill="chunked", first_draft=first_draft)  # type: ignore[arg-type]
    run = SimulatedRunner(trace, config, Load(concurrency), options).run(make_planner("static:k=2", config))
    assert run.steps is not None
    return run.steps["num_draft_tokens"].tolist(), int((run.requests["num_output_tokens"] > 1).sum())


def test_with_the_prompt_only_the_very_first_request_begins_without_a_draft() -> None:
    by_step, number = steps_of("step")
    assert by_step.count(0) == number > 1
    with_prompt, _ = steps_of("prompt")
    assert [step for step, pending in enumerate(with_prompt) if not pending] == [0]  # nothing was planned before it


def test_it_holds_for_requests_that_join_others() -> None:
    assert sum(steps_of("prompt", 3)[0]) > sum(steps_of("step", 3)[0])


def test_another_word_is_refused() -> None:
    with pytest.raises(BenchError, match="first_draft is 'early', expected one of step, prompt"):
        SimulatorOptions(first_draft="early")  # type: ignore[arg-type]
