"""Heads as drafters: what they draft is what they were trained to say, however they came to know the context."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lightspec_bench.core import EarlyExit  # noqa: E402
from lightspec_bench.runners.torch_checkpoints import load_head, save_head  # noqa: E402
from lightspec_bench.runners.torch_drafter import DraftRequest, FinalRows, Proposal, TorchDrafter  # noqa: E402
from lightspec_bench.runners.torch_eagle import EagleDrafter  # noqa: E402
from lightspec_bench.runners.torch_head_kinds import EagleHead, ParallelHead  # noqa: E402
from lightspec_bench.runners.torch_heads import rotary_table  # noqa: E402
from lightspec_bench.runners.torch_parallel import ParallelDrafter  # noqa: E402
from lightspec_bench.runners.torch_unroll import Texts, unrolled  # noqa: E402
from tests.runners import torch_tiny as tiny  # noqa: E402

KINDS = ("eagle", "parallel")
CAPACITY = 40
DEPTH = 4


def drafter(kind: str, folder: Path, num_slots: int = 3) -> TorchDrafter:
    save_head(tiny.head(kind), folder / kind, num_bits=16)
    drafters = {"eagle": EagleDrafter, "parallel": ParallelDrafter}
    made: TorchDrafter = drafters[kind](folder / kind, DEPTH)
    made.start(tiny.target(), num_slots, CAPACITY)
    for slot in range(num_slots):
        made.join(slot)
    return made


class Request:
    """A random text in a slot, with random hidden states for all of its tokens but the last."""

    def __init__(self, slot: int, length: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.slot = slot
        self.tokens = torch.randint(0, tiny.VOCAB, (length,), generator=generator)
        self.taps = torch.randn(length, 3, tiny.SIZE, generator=generator)

    def rows(self, first: int, last: int) -> FinalRows:
        where = torch.arange(first, last)
        slot = torch.full_like(where, self.slot)
        return FinalRows(slot, where, self.tokens[where], self.tokens[where + 1], self.taps[where])


def ask(requests: list[Request], depth: list[int], early_exit: EarlyExit | None = None) -> DraftRequest:
    table = torch.zeros(3, CAPACITY + 1, dtype=torch.int64)
    for request in requests:
        table[request.slot, : len(request.tokens)] = request.tokens
    return DraftRequest(
        torch.tensor([request.slot for request in requests]),
        np.array(depth),
        torch.stack([request.tokens[-1] for request in requests]),
        torch.tensor([len(request.tokens) - 1 for request in requests]),
        table,
        early_exit,
    )


@torch.no_grad()
def expected(folder: Path, request: Request) -> tuple[list[int], list[float]]:
    """Draft tokens and confidences by the unroll that training uses, on the text and the drafts found so far."""
    head, target = load_head(folder), tiny.target()
    assert isinstance(head, EagleHead | ParallelHead)
    ids, rows = head.draft_token_ids, target.head.weight[head.draft_token_ids]
    tokens, last = request.tokens.tolist(), len(request.tokens) - 2
    drafts: list[int] = []
    sure: list[float] = []
    for step in range(1, DEPTH + 1):
        known = torch.tensor([tokens + drafts])
        taps = torch.zeros(1, known.shape[1], 3, tiny.SIZE)
        taps[0, : len(tokens)] = request.taps
        texts = Texts(taps, target.embedding(known), known, torch.ones_like(known, dtype=torch.bool))
        output, embedding = list(unrolled(head, texts, rotary_table(head.settings, 64), step))[-1]
        seen = output[0, last], embedding[0, last]
        logits = head.logits(*seen, rows) if isinstance(head, ParallelHead) else head.logits(seen[0], rows)
        best = int(logits.argmax())
        sure.append(float(logits.softmax(-1)[best]))
        drafts.append(int(ids[best]))
    return drafts, sure


def follow(made: TorchDrafter, request: Request, cuts: list[int]) -> None:
    for first, last in zip([0, *cuts], [*cuts, len(request.tokens) - 1], strict=True):
        made.follow(request.rows(first, last))


def tokens_of(proposal: Proposal) -> list[list[int]]:
    return [row[:number].tolist() for row, number in zip(proposal.tokens, proposal.num_tokens.tolist(), strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_are_those_of_the_unroll_it_was_trained_with(kind: str, tmp_path: Path) -> None:
    made, requests = drafter(kind, tmp_path), [Request(0, 9, 1), Request(1, 14, 2), Request(2, 4, 3)]
    for request in requests:
        follow(made, request, [])
    proposal = made.draft(ask(requests, [DEPTH] * 3))
    wanted = [expected(tmp_path / kind, request) for request in requests]
    assert tokens_of(proposal) == [drafts for drafts, _ in wanted]
    torch.testing.assert_close(proposal.confidence, torch.tensor([sure for _, sure in wanted]))


@pytest.mark.parametrize("kind", KINDS)
def test_catching_up_at_once_or_bit_by_bit_drafts_the_same(kind: str, tmp_path: Path) -> None:
    request = Request(1, 15, 5)
    at_once, in_parts = drafter(kind, tmp_path), drafter(kind, tmp_path)
    follow(at_once, request, [])
    for first, last in ((0, 6), (6, 7), (7, 11), (11, 14)):
        in_parts.follow(request.rows(first, last))
        if last < 14:  # draft in between: what was drafted past the real tokens must not stay
            shorter = Request(1, 15, 5)
            shorter.tokens = request.tokens[: last + 1]
            in_parts.draft(ask([shorter], [DEPTH]))
    first_way, second_way = at_once.draft(ask([request], [DEPTH])), in_parts.draft(ask([request], [DEPTH]))
    assert torch.equal(first_way.tokens, second_way.tokens)
    torch.testing.assert_close(first_way.confidence, second_way.confidence)


@pytest.mark.parametrize("kind", KINDS)
def test_depths_may_differ_and_be_zero(kind: str, tmp_path: Path) -> None:
    made, requests = drafter(kind, tmp_path), [Request(0, 9, 1), Request(1, 14, 2), Request(2, 4, 3)]
    for request in requests:
        follow(made, request, [])
    nothing = made.draft(ask(requests, [0, 0, 0]))
    assert nothing.num_tokens.tolist() == [0, 0, 0]
    proposal = made.draft(ask(requests, [0, 3, 1]))
    whole = [expected(tmp_path / kind, request)[0] for request in requests]
    assert tokens_of(proposal) == [[], whole[1][:3], whole[2][:1]]
    assert tokens_of(made.draft(ask(requests, [DEPTH, 1, 1]))) == [whole[0], whole[1][:1], whole[2][:1]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_is_clean_for_the_next_request(kind: str, tmp_path: Path) -> None:
    made, old, new = drafter(kind, tmp_path), Request(0, 20, 1), Request(0, 6, 2)
    follow(made, old, [])
    made.draft(ask([old], [DEPTH]))
    made.follow(old.rows(0, 3))  # never read: the request leaves before
    made.leave(0, old.tokens, 4)
    made.join(0)
    follow(made, new, [])
    assert tokens_of(made.draft(ask([new], [DEPTH]))) == [expected(tmp_path / kind, new)[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_early_exit_keeps_a_prefix_of_the_same_drafts(kind: str, tmp_path: Path) -> None:
    made, request = drafter(kind, tmp_path), Request(0, 9, 1)
    follow(made, request, [])
    drafts, sure = expected(tmp_path / kind, request)
    threshold = (sorted(sure)[0] + sorted(sure)[1]) / 2
    kept = sure.index(min(sure))  # drafting ends at the one token below the threshold
    rule = EarlyExit("confidence", threshold)
    assert tokens_of(made.draft(ask([request], [DEPTH], rule))) == [drafts[:kept]]


def test_a_head_of_another_size_is_refused(tmp_path: Path) -> None:
    save_head(tiny.head("eagle", hidden_size=16, target_hidden_size=16), tmp_path / "small")
    with pytest.raises(tiny.BenchError, match="hidden size 16, tiny has 24"):
        EagleDrafter(tmp_path / "small").start(tiny.target(), 1, 8)


def test_the_wrong_kind_of_head_is_refused(tmp_path: Path) -> None:
    for kind in KINDS:
        save_head(tiny.head(kind), tmp_path / kind)
    with pytest.raises(tiny.BenchError, match="expected one that drafts token by token"):
        EagleDrafter(tmp_path / "parallel")
    with pytest.raises(tiny.BenchError, match="expected a parallel one"):
        ParallelDrafter(tmp_path / "eagle")
    with pytest.raises(tiny.BenchError, match="max_draft_tokens is 6, expected 1 to 5"):
        ParallelDrafter(tmp_path / "parallel", 6)
