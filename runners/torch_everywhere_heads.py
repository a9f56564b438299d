"""The two kinds of draft heads at every position of a text at once (`torch_everywhere`).

`text` (n,) is prompt and output, `features` (at least n - 2, T, H) the target's hidden states of its tokens; `depth` is
D. Real entry t of a head's context is the target at position t with the token at t + 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lightspec_bench.runners.torch_drafter import Proposal
from lightspec_bench.runners.torch_everywhere import Apart, blocks, causal, joined, top_tokens, whole_proposal
from lightspec_bench.runners.torch_head_context import HeadContext
from lightspec_bench.runners.torch_head_kinds import ChainHead, ParallelHead


@torch.no_grad()
def chains_everywhere(
    head: ChainHead, context: HeadContext, depth: int, text: Tensor, num_prompt_tokens: int, features: Tensor
) -> Proposal:
    """Proposals of a head that drafts token by token: each step for all positions of a block."""
    number, kept = len(text) - 2, []

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        kept.append((key, value))
        return causal(query, key, value)

    embedding, rotary = context.embedding(text[1 : number + 1]), context.rotary[:number]
    outputs = head(head.fuse(features[:number]), embedding, rotary, attend)
    parts = blocks(num_prompt_tokens - 1, number, text.device)
    return joined([_chains(head, context, depth, outputs[some], end, Apart(*kept[0], end + 1)) for some, end in parts])


def _chains(
    head: ChainHead, context: HeadContext, depth: int, output: Tensor, newest: Tensor, apart: Apart
) -> Proposal:
    """Proposals behind the real entries `newest` (P,), whose outputs (P, H) are known."""
    columns: list[tuple[Tensor, Tensor, Tensor]] = []
    for number in range(depth):
        if number:
            rotary, embedding = context.rotary[newest + number][:, None], context.embedding(columns[-1][0])[:, None]
            output = head(output[:, None], embedding, rotary, apart.attend)[:, 0]
        place, confidence, entropy = top_tokens(head.logits(output, context.output_rows))
        columns.append((context.token_ids[place], confidence, entropy))
    return whole_proposal(columns)


@torch.no_grad()
def blocks_everywhere(
    head: ParallelHead, context: HeadContext, depth: int, text: Tensor, num_prompt_tokens: int, features: Tensor
) -> Proposal:
    """Proposals of a block head: one pass over the blocks of many positions; slot 0 stands where the newest real
    entry stands, which is why a block sees the entries before that one only."""
    number = len(text) - 2
    base = head.base(features[:number], context.embedding(text[1 : number + 1]))
    key, value = head.key_value(base, context.rotary[:number])
    slot, parts = torch.arange(depth, device=text.device), []
    for some, newest in blocks(num_prompt_tokens - 1, number, text.device):
        rotary = context.rotary[newest[:, None] + slot]
        outputs = head(base[some, None], slot, rotary, Apart(key, value, newest).attend)
        parts.append(_block_tokens(head, context, outputs, text[newest + 1]))
    return joined(parts)


def _block_tokens(head: ParallelHead, context: HeadContext, outputs: Tensor, token: Tensor) -> Proposal:
    """Proposals of blocks' outputs (P, D, H) that follow the tokens (P,)."""
    columns = []
    for output in outputs.unbind(1):
        logits = head.logits(output, context.embedding(token), context.output_rows)
        place, confidence, entropy = top_tokens(logits)
        token = context.token_ids[place]
        columns.append((token, confidence, entropy))
    return whole_proposal(columns)
