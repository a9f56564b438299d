"""Parts of the vLLM runner that need no vLLM: request columns, drafts kept while recording, sweeps, ties."""

from __future__ import annotations

import types
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lightspec_bench.core import REQUEST_COLUMNS, Batch, Drafter, EngineConfig
from lightspec_bench.profiling_served import Sweep, evenly
from lightspec_bench.runners.requests import Sending
from lightspec_bench.runners.vllm_loop import request_columns
from lightspec_bench.runners.vllm_requests import FinishedRequest, RequestTable
from lightspec_bench.runners.vllm_source import Proposals
from tests.support import RoundLatency


def finished(number: int, output: int) -> FinishedRequest:
    known = {"name": f"{number}-x", "request_id": number, "num_output_tokens": output}
    return FinishedRequest(**{field.name: known.get(field.name, 1) for field in fields(FinishedRequest)})


def test_requests_are_told_by_the_order_they_were_sent_in() -> None:
    sending = Sending(num_requests=5, shuffle_seed=0, keep_full=True)
    order = sending.order(3, 2)
    found = request_columns([finished(2, 9), finished(0, 8), finished(5, 1), finished(4, 7)], order, 3, 5)
    assert set(found) == set(REQUEST_COLUMNS)
    assert found["num_output_tokens"].tolist() == [8, 9, 7]  # number 5 is one of those that only keep the places full
    assert found["request_id"].tolist() == [order[0], order[2], 3 + order[4]]
    assert sorted(order[:3].tolist()) == [0, 1, 2]


def test_proposals_are_kept_by_position_and_graded_against_the_output() -> None:
    table = RequestTable(3)
    table.add("a", 0.0)
    request = types.SimpleNamespace(num_output_tokens=1)
    scheduler = types.SimpleNamespace(lightspec=types.SimpleNamespace(table=table), requests={"a": request})
    proposals = Proposals(scheduler, 3, [6])
    table.confidence[table.slots(["a"])] = [0.9, 0.5, np.nan]
    proposals.proposed(["a", "gone"], [[11, 12, -1], [1, 1, 1]])
    request.num_output_tokens = 2
    proposals.proposed(["a"], [[12, 99, 14]])
    found = proposals.take(0, np.array([10, 11, 12, 13, 14]))
    assert found.num_draft_tokens.tolist() == [0, 2, 3, 0, 0]
    assert found.num_accepted.tolist() == [0, 2, 1, 0, 0]
    assert found.confidence[1].tolist()[:2] == [np.float32(0.9), 0.5]
    assert np.isnan(found.confidence[1, 2])
    nothing = proposals.take(7, np.array([10]))
    assert (nothing.num_accepted.tolist(), nothing.num_draft_tokens.tolist()) == ([0], [0])


@settings(deadline=None)
@given(pending=st.lists(st.integers(0, 8), max_size=9), data=st.data())
def test_a_sweep_verifies_as_many_tokens_as_wanted_as_even_as_they_can_be(pending: list[int], data: Any) -> None:
    drafts = np.array(pending, dtype=np.int64)
    wanted = data.draw(st.integers(0, int(drafts.sum())))
    taken = evenly(drafts, wanted)
    assert int(taken.sum()) == wanted
    assert (taken <= drafts).all()
    assert int(taken.max(initial=0)) - int(np.where(taken < drafts, taken, 99).min(initial=99)) <= 1


def test_a_sweep_comes_by_every_depth_and_every_part() -> None:
    sweep = Sweep(EngineConfig(Drafter("autoregressive", 4), RoundLatency(), 2))
    ids = np.arange(2)
    plans = [sweep.plan(Batch(t, 0.0, ids, np.array([4, 4]), ids + 1, ids + 9, None, None)) for t in range(12)]
    assert {plan.num_draft_tokens for plan in plans} == {0, 1, 2, 4}
    assert {int(np.sum(plan.num_verify_tokens)) for plan in plans} == {0, 1, 2, 4, 6, 8}
