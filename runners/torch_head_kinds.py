"""The draft heads: EAGLE-style chain, parallel block, and the published EAGLE-3 layout.

All of them read an entry of the context as (the target's hidden states at position t, the token at t + 1) and say
which token stands at t + 2. A chain head goes on from its own output; a parallel head asks its further slots at once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_heads import Attend, DraftLayer, HeadSettings, RmsNorm


class Fusion(nn.Module):
    """Hidden states of several target layers, each normed, and the next token's embedding, as one residual.

    The residual sees embedding and features alike; the published layout's sees features only and learns slower.
    """

    def __init__(self, settings: HeadSettings) -> None:
        super().__init__()
        size, eps = settings.hidden_size, settings.rms_norm_eps
        self.tap_norms = nn.ModuleList(RmsNorm(settings.target_hidden_size, eps) for _ in settings.taps)
        self.fc = nn.Linear(len(settings.taps) * settings.target_hidden_size, size, bias=False)
        self.embedding_norm = RmsNorm(settings.target_hidden_size, eps)
        self.feature_norm = RmsNorm(size, eps)
        self.mix = nn.Linear(settings.target_hidden_size + size, size, bias=False)

    def features(self, taps: Tensor) -> Tensor:
        """(..., T, target H) -> (..., H)."""
        normed = [norm(tap) for norm, tap in zip(self.tap_norms, taps.unbind(-2), strict=True)]
        return self.fc(torch.cat(normed, dim=-1))  # type: ignore[no-any-return]

    def forward(self, feature: Tensor, embedding: Tensor) -> Tensor:
        both = torch.cat((self.embedding_norm(embedding), self.feature_norm(feature)), dim=-1)
        return self.mix(both)  # type: ignore[no-any-return]


class EagleHead(nn.Module):
    """An autoregressive head of one layer; its draft vocabulary is rows of the target's own output matrix."""

    def __init__(self, settings: HeadSettings) -> None:
        super().__init__()
        self.settings = settings
        self.fusion = Fusion(settings)
        self.input_norm = RmsNorm(settings.hidden_size, settings.rms_norm_eps)
        self.layer = DraftLayer(settings)
        self.norm = RmsNorm(settings.hidden_size, settings.rms_norm_eps)
        self.register_buffer("draft_token_ids", torch.zeros(settings.draft_vocab_size, dtype=torch.int64))

    def fuse(self, taps: Tensor) -> Tensor:
        """What a real entry goes on from: (..., T, target H) -> (..., H)."""
        return self.fusion.features(taps)

    def forward(self, feature: Tensor, embedding: Tensor, rotary: Tensor, attend: Attend) -> Tensor:
        """One entry: a feature (fused, or this head's own output) and an embedding to an output, (..., H)."""
        residual = self.fusion(feature, embedding)
        return self.layer(residual, self.input_norm(residual), rotary, attend)  # type: ignore[no-any-return]

    def logits(self, output: Tensor, rows: Tensor) -> Tensor:
        """Over the draft vocabulary; `rows` (Vd, H) are the target's output rows of it."""
        return self.norm(output) @ rows.T  # type: ignore[no-any-return]


class ParallelHead(nn.Module):
    """A block head: all slots in one pass, each told apart by a learned vector; slot j also sees slots before it.

    A low-rank term of the token before (a Markov condition) is put onto each slot's output, so that the tokens of a
    block agree with one another at the price of one small product per token.
    """

    def __init__(self, settings: HeadSettings) -> None:
        super().__init__()
        self.settings = settings
        self.fusion = Fusion(settings)
        self.slots = nn.Parameter(torch.zeros(settings.num_slots, settings.hidden_size))
        self.input_norm = RmsNorm(settings.hidden_size, settings.rms_norm_eps)
        self.layer = DraftLayer(settings)
        self.token_norm = RmsNorm(settings.target_hidden_size, settings.rms_norm_eps)
        self.token_down = nn.Linear(settings.target_hidden_size, settings.rank, bias=False)
        self.output_norm = RmsNorm(settings.hidden_size, settings.rms_norm_eps)
        self.output_down = nn.Linear(settings.hidden_size, settings.rank, bias=False)
        self.up = nn.Linear(settings.rank, settings.hidden_size, bias=False)
        self.norm = RmsNorm(settings.hidden_size, settings.rms_norm_eps)
        self.register_buffer("draft_token_ids", torch.zeros(settings.draft_vocab_size, dtype=torch.int64))

    def base(self, taps: Tensor, embedding: Tensor) -> Tensor:
        """The residual of an entry, (..., H), before its slot's vector."""
        return self.fusion(self.fusion.features(taps), embedding)  # type: ignore[no-any-return]

    def key_value(self, base: Tensor, rotary: Tensor) -> tuple[Tensor, Tensor]:
        """What later entries see of a real one: it stands in slot 0."""
        return self.layer.key_value(self.input_norm(base + self.slots[0]), rotary)

    def forward(self, base: Tensor, slot: Tensor, rotary: Tensor, attend: Attend) -> Tensor:
        """Outputs (..., H) of slots (...,): slot 0 says the token after the entry, slot j the one j further."""
        residual = base + self.slots[slot]
        return self.layer(residual, self.input_norm(residual), rotary, attend)  # type: ignore[no-any-return]

    def logits(self, output: Tensor, embedding: Tensor, rows: Tensor) -> Tensor:
        """Over the draft vocabulary, given the embedding of the token before."""
        low = self.output_down(self.output_norm(output)) + self.token_down(self.token_norm(embedding))
        return self.norm(output + self.up(silu(low))) @ rows.T  # type: ignore[no-any-return]


class PublishedEagle3Head(nn.Module):
    """The EAGLE-3 layout of SafeAILab and Speculators: attention reads [embedding; hidden], own output matrix."""

    def __init__(self, settings: HeadSettings, own_embedding: bool = False, target_vocab_size: int = 0) -> None:
        super().__init__()
        if settings.hidden_size != settings.target_hidden_size:
            raise BenchError(
                f"head: hidden size {settings.hidden_size} is not the target's {settings.target_hidden_size}; "
                "the EAGLE-3 layout is supported where they are the same"
            )
        size, eps = settings.hidden_size, settings.rms_norm_eps
        self.settings = settings
        self.fc = nn.Linear(len(settings.taps) * size, size, bias=False)
        self.fc_norm = RmsNorm(len(settings.taps) * size, eps) if settings.norm_before_fc else None
        self.embedding_norm = RmsNorm(size, eps)
        self.hidden_norm = RmsNorm(size, eps)
        self.layer = DraftLayer(settings, input_size=2 * size)
        self.norm = RmsNorm(size, eps)
        self.lm_head = nn.Linear(size, settings.draft_vocab_size, bias=False)
        self.embed_tokens = nn.Embedding(target_vocab_size, size) if own_embedding else None
        self.register_buffer("draft_token_ids", torch.zeros(settings.draft_vocab_size, dtype=torch.int64))

    def fuse(self, taps: Tensor) -> Tensor:
        flat = taps.flatten(-2)
        return self.fc(flat if self.fc_norm is None else self.fc_norm(flat))  # type: ignore[no-any-return]

    def forward(self, feature: Tensor, embedding: Tensor, rotary: Tensor, attend: Attend) -> Tensor:
        normed = self.hidden_norm(feature)
        entry = torch.cat((self.embedding_norm(embedding), normed), dim=-1)
        residual = normed if self.settings.norm_before_residual else feature
        return self.layer(residual, entry, rotary, attend)  # type: ignore[no-any-return]

    def logits(self, output: Tensor, rows: Tensor) -> Tensor:
        return self.lm_head(self.norm(output))  # type: ignore[no-any-return]


ChainHead = EagleHead | PublishedEagle3Head
Head = EagleHead | ParallelHead | PublishedEagle3Head


def build_head(settings: HeadSettings) -> EagleHead | ParallelHead:
    """An untrained head of ours."""
    if settings.kind == "parallel":
        if settings.num_slots < 1 or settings.rank < 1:
            raise BenchError(
                f"parallel head: num_slots is {settings.num_slots} and rank {settings.rank}, expected at least 1"
            )
        return ParallelHead(settings)
    return EagleHead(settings)
