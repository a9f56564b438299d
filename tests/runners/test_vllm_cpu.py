"""Mends of vLLM's CPU kernels: what they do, what they are for, and stock vLLM, whose tests fail once it needs none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightspec_bench.registry import make_planner
from tests.runners.vllm_support import NEEDS_VLLM, engine, prompts, tiny_target

pytestmark = NEEDS_VLLM


@pytest.fixture(scope="module")
def stock() -> Any:
    from vllm.platforms import current_platform
    from vllm.utils import cpu_triton_utils

    current_platform.import_kernels()
    return cpu_triton_utils


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_target(tmp_path_factory.mktemp("target"))


def test_stock_vllm_still_drops_the_temperatures(stock: Any) -> None:
    import torch

    output = torch.full((5,), -1.0)
    stock._expand_kernel_impl(output, torch.tensor([0.5, 2.0]), torch.tensor([2, 5], dtype=torch.int32), 0, 1)
    assert output.tolist() == [-1.0] * 5


def test_stock_vllm_still_refuses_synthetic_acceptance(stock: Any) -> None:
    import torch

    tokens = torch.zeros(1, 3, dtype=torch.int32)
    with pytest.raises(AssertionError, match="Synthetic acceptance"):
        stock._rejection_greedy_sample_kernel_impl(
            tokens, torch.tensor([2]), torch.tensor([5, 6]), torch.tensor([7, 8]), torch.tensor([[9]]), None, 2,
            torch.tensor([0.1, 0.9]), torch.tensor([0.5, 0.5]), SYNTHETIC_MODE=True,
        )  # fmt: skip


def test_the_registry_looks_past_objects_of_a_cffi_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    from vllm.triton_utils import dispatcher

    from lightspec_bench.runners.vllm_cpu import look_past_foreign_objects

    class Foreign:
        __dict__ = 5  # type: ignore[assignment]

    module = types.ModuleType("foreign")
    module.function = Foreign()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "foreign", module)
    monkeypatch.delattr(dispatcher, "vars", raising=False)
    with pytest.raises(AttributeError, match="get"):
        dispatcher._rebind_kernels([])
    look_past_foreign_objects()
    dispatcher._rebind_kernels([])


def test_every_token_of_a_request_gets_its_value() -> None:
    import torch

    from lightspec_bench.runners.vllm_cpu import expand

    output = torch.full((6,), -1.0)
    expand(output, torch.tensor([0.5, 0.0, 2.0]), torch.tensor([2, 2, 5], dtype=torch.int32), 0, 1, 128)
    assert output.tolist() == [0.5, 0.5, 2.0, 2.0, 2.0, -1.0]
    whole = torch.zeros(3, dtype=torch.int32)
    expand(whole, torch.tensor([0, 40], dtype=torch.int32), torch.tensor([1, 3]), 0, 320)
    assert whole.tolist() == [320, 40, 40]


def test_synthetic_acceptance_ends_where_a_number_is_not_below_its_rate() -> None:
    import torch

    from lightspec_bench.runners.vllm_cpu import accept_synthetically

    output = torch.full((4, 3), -1, dtype=torch.int32)
    drafts, otherwise, bonus = torch.tensor([5, 6, 5, 6, -1]), torch.tensor([15, 16, 17, 18, 19]), torch.arange(30, 34)
    ends, uniform = torch.tensor([2, 4, 5, 5]), torch.tensor([0.1, 0.1, 0.1, 0.5, 0.0])
    accept_synthetically(output, ends, drafts, otherwise, bonus, None, uniform, torch.tensor([0.5, 0.3]))
    assert output.tolist() == [[5, 6, 30], [5, 18, -1], [19, -1, -1], [33, -1, -1]]
    output.fill_(-1)
    chosen = torch.tensor([False, True, False, False])
    accept_synthetically(output, ends, drafts, otherwise, bonus, chosen, uniform, torch.tensor([0.5, 0.3]))
    assert output.tolist() == [[-1, -1, -1], [5, 18, -1], [-1, -1, -1], [-1, -1, -1]]


def test_a_drafter_like_the_target_is_believed_at_a_temperature(monkeypatch: pytest.MonkeyPatch, target: Path) -> None:
    """Drafts are drawn from the target's own distribution, so that nearly all are accepted; stock takes hardly any."""
    speculative = {
        "method": "draft_model", "model": str(target), "num_speculative_tokens": 3,
        "draft_sample_method": "probabilistic",
    }  # fmt: skip
    with engine(monkeypatch, target, speculative) as running:
        planner = make_planner("static:k=3", running.control.config)
        _, seen = running.run(prompts(), planner, max_tokens=40, temperature=0.8, seed=1)
    steps = [timed.step for timed in seen.steps]
    verified = sum(int(step.num_verify_tokens.sum()) for step in steps)
    accepted = sum(int(step.num_accepted_tokens.sum()) for step in steps)
    assert verified > 100
    assert accepted > 0.9 * verified - 2 * len(prompts())  # each request's last step is cut at its limit


def test_synthetic_acceptance_has_the_rates_asked_for(monkeypatch: pytest.MonkeyPatch, target: Path) -> None:
    rates = np.array([0.8, 0.5, 0.3])
    speculative = {
        "method": "draft_model", "model": str(target), "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates.tolist(),
    }  # fmt: skip
    with engine(monkeypatch, target, speculative, vllm={"per_request_spec_decode_metrics": "detailed"}) as running:
        planner = make_planner("static:k=3", running.control.config)
        outputs, _ = running.run(prompts() * 2, planner, max_tokens=60)
    accepted = np.concatenate([np.array(output.outputs[0].spec_decode_metrics.per_step_accepted) for output in outputs])
    found = (accepted[:, None] > np.arange(3)).mean(axis=0)
    error = np.sqrt(rates * (1 - rates) / len(accepted))
    assert (np.abs(found - rates) < 4 * error).all()
