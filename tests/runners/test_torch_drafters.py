"""Parts of drafters: fill and early exit follow the floor's rules, lookups find what a person would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from lightspec_bench.core import BenchError, EarlyExit
from lightspec_bench.early_exit import SCOPES, SIGNALS, stopped_drafts
from lightspec_bench.fill import fill as host_fill, prefix_survival as host_survival
from lightspec_bench.runners.torch_drafter import Backlog, DraftRequest, ExitState, FinalRows, top_token
from lightspec_bench.runners.torch_fill import fill, prefix_survival
from lightspec_bench.runners.torch_lm import without_layers
from lightspec_bench.runners.torch_lookup import LookupScore, longest_match
from lightspec_bench.runners.torch_ngram import NgramDrafter
from lightspec_bench.runners.torch_suffix import SuffixDrafter
from tests.runners.torch_support import tiny_model

CPU = torch.device("cpu")
SEEDS = st.integers(0, 10_000)


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_fill_is_the_floors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, depth = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    confidence = rng.random((number, depth)).astype(np.float32)
    pending = rng.integers(0, depth + 1, number)
    confidence[np.arange(depth) >= pending[:, None]] = np.nan
    survival = prefix_survival(torch.from_numpy(confidence))
    np.testing.assert_allclose(survival.numpy(), host_survival(confidence), rtol=1e-6)
    for budget in range(number, number + int(pending.sum()) + 2):
        found = fill(survival, torch.from_numpy(pending), budget)
        assert found.tolist() == host_fill(survival.numpy(), pending, budget).tolist()


@given(seed=SEEDS, signal=st.sampled_from(SIGNALS), scope=st.sampled_from(SCOPES))
@settings(max_examples=120, deadline=None)
def test_early_exit_is_the_floors(seed: int, signal: Any, scope: Any) -> None:
    rng = np.random.default_rng(seed)
    number, most = int(rng.integers(1, 6)), 5
    threshold: Any = float(rng.random())
    if scope != "mean" and rng.random() < 0.5:
        threshold = rng.random(number)
    rule = EarlyExit(signal, threshold, bool(rng.integers(2)), scope, int(rng.integers(3)), int(rng.integers(3)))
    confidence, depth = rng.random((number, most)), rng.integers(0, most + 1, number)
    state = ExitState(rule, depth, CPU)
    passes = np.zeros(number, dtype=np.int64)
    for token in range(1, most + 1):
        passes += state.drafting.numpy()
        column = torch.from_numpy(confidence[:, token - 1])
        # Who no longer drafts has no new signal: whatever stands there must not matter.
        state.after(token, torch.where(state.drafting, column, column), column)
    kept, spent = stopped_drafts(rule, confidence, depth)
    assert state.num_tokens().tolist() == kept.tolist()
    assert passes.tolist() == spent.tolist()


def test_top_token_gives_its_probability_and_the_entropy() -> None:
    token, confidence, entropy = top_token(torch.log(torch.tensor([[0.5, 0.25, 0.25]])))
    assert token.tolist() == [0]
    torch.testing.assert_close(confidence, torch.tensor([0.5]))
    torch.testing.assert_close(entropy, torch.tensor([1.5 * np.log(2.0)]).float())


def rows(slot: list[int], position: list[int], token: list[int], after: list[int]) -> FinalRows:
    return FinalRows(*(torch.tensor(values) for values in (slot, position, token, after)), None)


def test_a_backlog_gives_rows_back_in_order_and_once() -> None:
    backlog = Backlog()
    backlog.add(rows([0, 0, 2], [3, 4, 9], [10, 11, 12], [11, 13, 14]))
    backlog.add(rows([0, 1, 2], [5, 0, 10], [13, 7, 14], [15, 8, 16]))
    backlog.drop(1)
    found = backlog.take(torch.tensor([0, 1]))
    assert found is not None
    assert (found.slot.tolist(), found.position.tolist(), found.token.tolist()) == ([0] * 3, [3, 4, 5], [10, 11, 13])
    assert backlog.take(torch.tensor([0])) is None
    rest = backlog.take(torch.tensor([2]))
    assert rest is not None
    assert rest.position.tolist() == [9, 10]


def request(texts: list[list[int]], depth: int) -> DraftRequest:
    longest = max(map(len, texts))
    tokens = torch.tensor([text + [0] * (longest + 2 - len(text)) for text in texts])
    slot, position = torch.arange(len(texts)), torch.tensor([len(text) - 1 for text in texts])
    newest = tokens[slot, position]
    return DraftRequest(slot, np.full(len(texts), depth), newest, position, tokens)


def drafted(proposal: Any) -> list[list[int]]:
    return [row[:number] for row, number in zip(proposal.tokens.tolist(), proposal.num_tokens.tolist(), strict=True)]


def test_the_longest_match_wins_and_of_equals_the_latest() -> None:
    history = torch.tensor([[1, 2, 3, 9, 2, 3, 1, 2, 3]])
    length, end = longest_match(history, torch.tensor([8]), torch.tensor([[3, 2, 1]]))
    assert (length.tolist(), end.tolist()) == ([3], [2])
    length, end = longest_match(history, torch.tensor([8]), torch.tensor([[3, 2, 7]]))
    assert (length.tolist(), end.tolist()) == ([2], [5])
    length, _ = longest_match(history, torch.tensor([8]), torch.tensor([[8, 2, 7]]))
    assert length.tolist() == [0]


def test_prompt_lookup_copies_what_followed_and_repeats_what_repeats() -> None:
    drafter = NgramDrafter(4, max_n=3)
    drafter.start(tiny_model(), 3, 32)
    texts = [[1, 2, 3, 4, 5, 1, 2], [7, 8, 7, 8], [1, 2, 3]]
    proposal = drafter.draft(request(texts, 3))
    assert drafted(proposal) == [[3, 4, 5], [7, 8, 7], []]
    assert np.isnan(proposal.confidence.numpy()).tolist() == [[False] * 3 + [True]] * 2 + [[True] * 4]


def test_prompt_lookup_asks_for_its_shortest_match() -> None:
    drafter = NgramDrafter(2, min_n=2)
    drafter.start(tiny_model(), 2, 32)
    assert drafted(drafter.draft(request([[1, 2, 3, 9, 2], [1, 2, 3, 9, 1, 2]], 2))) == [[], [3, 9]]


def test_the_suffix_drafter_remembers_past_outputs_and_drafts_more_where_more_matched() -> None:
    drafter = SuffixDrafter(6, factor=1.0, min_archive_n=2)
    drafter.start(tiny_model(), 2, 32)
    assert drafted(drafter.draft(request([[40, 11, 12]], 6))) == [[]]
    drafter.leave(0, torch.tensor([50, 51, 10, 11, 12, 13, 14, 15]), 2)
    # Two tokens matched, so two are drafted; the prompt (50, 51) is not in the archive, nor what follows its end.
    texts = [[40, 11, 12], [40, 50, 51], [10, 11, 12, 13, 14]]
    found = drafted(drafter.draft(request(texts, 6)))
    assert found == [[13, 14], [], [15]]


def test_looked_up_drafts_are_graded_by_what_came() -> None:
    score = LookupScore(3, 2, 2, CPU)
    before, _ = score.confidence(torch.tensor([2]))
    torch.testing.assert_close(before, torch.tensor([[2 / 3, 0.8]]))
    score.remember(torch.tensor([1]), torch.tensor([5]), torch.tensor([2]), torch.tensor([[30, 31]]))
    score.grade(rows([1, 1], [5, 6], [29, 30], [30, 40]))  # the first was right, the second was not
    score.grade(rows([1, 0], [7, 5], [40, 1], [41, 30]))  # past the draft, and another request: no grades
    after, entropy = score.confidence(torch.tensor([2]))
    torch.testing.assert_close(after, torch.tensor([[(8 / 3 + 1) / 5, 3.2 / 5]]))
    right = float(after[0, 0])
    assert float(entropy[0, 0]) == pytest.approx(-right * np.log(right) - (1 - right) * np.log(1 - right), rel=1e-5)


def test_layers_left_out_share_every_weight() -> None:
    target = tiny_model(num_hidden_layers=4)
    smaller = without_layers(target, [1, 2])
    assert (smaller.num_layers, target.num_layers) == (2, 4)
    assert [a is b for a, b in zip(smaller.layers, (target.layers[0], target.layers[3]), strict=True)] == [True, True]
    assert smaller.head is target.head
    with pytest.raises(BenchError, match=r"skipped layers are \[4\], expected some of 0 to 3"):
        without_layers(target, [4])
    with pytest.raises(BenchError, match="expected some of 0 to 3"):
        without_layers(target, range(4))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: NgramDrafter(4, min_n=3, max_n=2), "min_n is 3 and max_n 2, expected 1 <= min_n <= max_n"),
        (lambda: NgramDrafter(0), "max_draft_tokens is 0, expected at least 1"),
        (lambda: SuffixDrafter(4, min_archive_n=40), "min_archive_n is 40, expected 1 to 16"),
        (lambda: SuffixDrafter(4, archive_tokens=0), "archive_tokens is 0 and factor 2, expected both above 0"),
    ],
)
def test_options_out_of_bounds_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(BenchError, match=sentence):
        make()
