"""Acceptance: worked examples, and outputs whose distribution is the target's own."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from lightspec_bench.core import BenchError
from lightspec_bench.runners.requests import Request
from lightspec_bench.runners.torch_accept import Acceptor, Sampling
from lightspec_bench.runners.torch_lm import LmDrafter
from lightspec_bench.runners.torch_rows import make_rows
from tests.runners.torch_support import Fixed, plain, runner, tiny_model

CPU = torch.device("cpu")


def rows_for(counts: list[int]) -> Any:
    number = len(counts)
    return make_rows(np.arange(number), np.zeros(number, int), np.array(counts), CPU)


def test_greedy_keeps_the_longest_prefix_that_the_target_would_have_written() -> None:
    chosen = [5, 6, 7, 1, 2, 9]  # what the target says after each row; requests verify 2, 1 and 0 drafts
    logits = torch.nn.functional.one_hot(torch.tensor(chosen), 10).float()
    drafts = torch.tensor([[5, 6], [4, 0], [9, 9]])
    tokens, accepted = Acceptor(Sampling(), CPU).accept(logits, drafts, rows_for([3, 2, 1]))
    assert accepted.tolist() == [2, 0, 0]
    assert [row[: number + 1] for row, number in zip(tokens.tolist(), accepted.tolist(), strict=True)] == [
        [5, 6, 7],
        [1],
        [9],
    ]


def test_a_right_draft_after_a_wrong_one_does_not_count() -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([1, 2, 3]), 10).float()
    _, accepted = Acceptor(Sampling(), CPU).accept(logits, torch.tensor([[0, 2]]), rows_for([3]))
    assert accepted.tolist() == [0]


@pytest.mark.parametrize("method", ["compare", "rejection"])
def test_a_sure_target_accepts_its_own_token_and_no_other(method: Any) -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([1, 2, 3]), 10).float() * 1000.0
    acceptor = Acceptor(Sampling(1.0, method), CPU)
    tokens, accepted = acceptor.accept(logits, torch.tensor([[1, 2]]), rows_for([3]))
    assert (tokens.tolist(), accepted.tolist()) == ([[1, 2, 3]], [2])
    tokens, accepted = acceptor.accept(logits, torch.tensor([[1, 7]]), rows_for([3]))
    assert (tokens[0, :2].tolist(), accepted.tolist()) == ([1, 2], [1])


def chi_square(counts: np.ndarray[Any, Any], probability: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The statistic, and a bound that the right distribution passes about once in 3 million times (5 sigma)."""
    expected = counts.sum() * probability
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(counts) - 1
    return statistic, freedom + 5.0 * (2.0 * freedom) ** 0.5


@pytest.mark.parametrize("sampled_drafts", [False, True])
@pytest.mark.parametrize("method", ["compare", "rejection"])
def test_two_tokens_of_one_step_are_distributed_as_the_targets(method: Any, sampled_drafts: bool) -> None:
    """60,000 requests verify one draft: of a greedy drafter, or of one that samples from its own distribution q."""
    if sampled_drafts and method == "compare":
        pytest.skip("a comparison does not ask where drafts come from")
    number, size = 60_000, 5
    generator = torch.Generator().manual_seed(1)
    first, after = torch.randn(size, generator=generator), torch.randn(size, size, generator=generator)
    q = torch.softmax(torch.randn(size, generator=generator), dim=-1)
    drafts = torch.full((number, 1), 2)
    if sampled_drafts:
        drafts = torch.multinomial(q, number, replacement=True, generator=generator)[:, None]
    # Row 0 is the target's distribution of the next token, row 1 the one after the draft token.
    logits = torch.stack((first.expand(number, size), after[drafts[:, 0]]), dim=1).flatten(0, 1)
    probability = q.expand(number, 1, size) if sampled_drafts else None
    acceptor = Acceptor(Sampling(1.0, method, seed=3), CPU)
    tokens, accepted = acceptor.accept(logits, drafts, rows_for([2] * number), probability)
    counts = np.bincount(tokens[:, 0].numpy(), minlength=size)
    statistic, bound = chi_square(counts, torch.softmax(first, dim=-1).double().numpy())
    assert statistic < bound
    kept = accepted == 1
    for token in set(drafts[kept, 0].tolist()):
        counts = np.bincount(tokens[kept & (drafts[:, 0] == token), 1].numpy(), minlength=size)
        statistic, bound = chi_square(counts, torch.softmax(after[token], dim=-1).double().numpy())
        assert statistic < bound
    assert chi_square(counts, np.full(size, 1 / size))[0] > bound  # the test can tell distributions apart


@pytest.mark.parametrize("method", ["compare", "rejection"])
def test_sampled_outputs_are_distributed_as_the_targets(method: Any) -> None:
    """13,000 outputs of 4 tokens, 52,000 draws, speculated by another model; all 256 outputs and their chances."""
    target = tiny_model(vocab_size=4, num_hidden_layers=1)
    drafter = LmDrafter(tiny_model(vocab_size=4, num_hidden_layers=1, seed=1), 2)
    prompt, number = [1, 2], 13_000
    real = runner(
        target, drafter, [Request(prompt, 4)] * number, concurrency=3250, sampling=Sampling(1.5, method, seed=5)
    )
    run = real.run(Fixed([2]))
    assert run.totals.outcomes[1:, 1:].sum() > number / 10
    whole = np.array([tokens for _, tokens in sorted(real.outputs.items())])
    counts = np.bincount(whole @ np.array([64, 16, 4, 1]), minlength=256)
    texts = torch.tensor([[*prompt, *text] for text in product(range(4), repeat=4)])
    with torch.inference_mode():
        chances = torch.softmax(plain(target)(texts).logits[:, 1:5].double() / 1.5, dim=-1)
    probability = chances.gather(2, texts[:, 2:, None]).prod(dim=1).squeeze(1).numpy()
    statistic, bound = chi_square(counts, probability)
    assert statistic < bound


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"temperature": -1.0}, r"temperature is -1.0, expected 0 \(greedy\) or more"),
        ({"method": "guess"}, "sampling method is 'guess', expected one of compare, rejection"),
    ],
)
def test_what_sampling_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BenchError, match=sentence):
        Sampling(**options)
