"""Batched text generation with a target model on its own: the training data of drafters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ATTENTION = "lightspec_grouped_sdpa"
GROW_TOKENS = 64
COMPACT_BELOW = 0.75


@dataclass(frozen=True, slots=True)
class Wanted:
    """One text to generate: prompt token ids and a sampling temperature (0: greedy)."""

    prompt: tuple[int, ...]
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class Stop:
    """When a text ends: at one of these token ids (kept) or after `max_tokens` new tokens."""

    token_ids: tuple[int, ...]
    max_tokens: int


def generate(
    model: Any, wanted: Sequence[Wanted], stop: Stop, batch_size: int = 96, seed: int = 0
) -> Iterator[tuple[int, list[int]]]:
    """(index into `wanted`, new token ids) of each text as its batch ends; the last token is a stop token if one came.

    Prompts of like length share a batch, padded on the left; rows that ended are taken out when a quarter has.
    """
    import torch

    generator = torch.Generator(device=model.device).manual_seed(seed)
    use_grouped_attention(model)
    order = sorted(range(len(wanted)), key=lambda index: len(wanted[index].prompt))
    for first in range(0, len(order), batch_size):
        indices = order[first : first + batch_size]
        with torch.inference_mode():
            texts = _generate_batch(model, [wanted[index] for index in indices], stop, generator)
        yield from zip(indices, texts, strict=True)


def _generate_batch(model: Any, batch: list[Wanted], stop: Stop, generator: torch.Generator) -> list[list[int]]:
    import torch

    device = model.device
    tokens, mask = _left_padded(batch, device)
    temperatures = torch.tensor([row.temperature for row in batch], device=device)
    stops = torch.tensor(stop.token_ids, device=device)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    rows = torch.arange(len(batch))
    texts: list[list[int]] = [[] for _ in batch]
    cache = _growing_cache()
    keyword = cache_keyword(model)
    for _ in range(stop.max_tokens):
        inputs = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions, keyword: cache}
        output = model(**inputs, logits_to_keep=1)
        tokens = _sample(output.logits[:, -1].float(), temperatures, generator)[:, None]
        alive = _append(texts, rows, tokens[:, 0], stops)
        if not bool(alive.any()):
            break
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
        positions = positions[:, -1:] + 1
        if alive.float().mean() < COMPACT_BELOW:
            keep = alive.nonzero()[:, 0]
            cache.batch_select_indices(keep)
            tokens, mask, positions = tokens[keep], mask[keep], positions[keep]
            temperatures, rows = temperatures[keep], rows[keep.cpu()]
    return [_cut(text, stop.token_ids) for text in texts]


def _append(texts: list[list[int]], rows: torch.Tensor, new: torch.Tensor, stops: torch.Tensor) -> torch.Tensor:
    """Add one token to each row's text; True where the row goes on. A row that ended earlier stays ended."""
    import torch

    ended = torch.isin(new, stops).tolist()
    alive = []
    for row, token, end in zip(rows.tolist(), new.tolist(), ended, strict=True):
        was_over = bool(texts[row]) and texts[row][-1] < 0
        if not was_over:
            texts[row].append(token)
            if end:
                texts[row].append(-1)
        alive.append(not (was_over or end))
    return torch.tensor(alive, device=new.device)


def _cut(text: list[int], stops: tuple[int, ...]) -> list[int]:
    return text[:-1] if text and text[-1] < 0 else text


def _left_padded(batch: list[Wanted], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    longest = max(len(row.prompt) for row in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for index, row in enumerate(batch):
        tokens[index, longest - len(row.prompt) :] = torch.tensor(row.prompt)
        mask[index, longest - len(row.prompt) :] = 1
    return tokens.to(device), mask.to(device)


def _sample(logits: torch.Tensor, temperatures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Token ids (rows,): the best where the temperature is 0, else drawn by the exponential-race form of sampling."""
    import torch

    best = logits.max(-1).indices  # far faster than argmax on a CPU
    drawn = (temperatures > 0).nonzero()[:, 0]
    if len(drawn):
        chances = (logits[drawn] / temperatures[drawn, None]).softmax(-1)
        race = torch.empty_like(chances).exponential_(1.0, generator=generator)
        best[drawn] = (chances / race).max(-1).indices
    return best


def use_grouped_attention(model: Any) -> None:
    """Attention that reads grouped keys in place; transformers' own repeats them for every query head at each step."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, _grouped_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)


def _grouped_attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **_: Any
) -> tuple[Any, None]:
    from torch.nn.functional import scaled_dot_product_attention

    causal = attention_mask is None and query.shape[2] > 1
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, is_causal=causal, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


def cache_keyword(model: Any) -> str:
    """What `forward` calls its cache: `cache` in new releases of transformers, `past_key_values` before."""
    import inspect

    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def _growing_cache() -> Any:
    """A dynamic cache that grows in blocks: the plain one copies everything at every step."""
    from transformers.cache_utils import Cache, DynamicLayer

    layer: Any = type("GrowingLayer", (DynamicLayer,), {"update": _grow, "store": None})
    return Cache(layer_class_to_replicate=layer)


def _grow(layer: Any, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """`update` of a cache layer: write behind what is there, into room that was made ahead."""
    start = layer.keys.shape[2] if layer.is_initialized and layer.keys.dim() == 4 else 0
    end = start + key.shape[2]
    if layer.store is None or layer.store[0].shape[2] < end or len(layer.store[0]) != len(key):
        layer.store = _room(key, end), _room(value, end)
        if start:
            layer.store[0][:, :, :start], layer.store[1][:, :, :start] = layer.keys, layer.values
    layer.store[0][:, :, start:end], layer.store[1][:, :, start:end] = key, value
    layer.keys, layer.values = layer.store[0][:, :, :end], layer.store[1][:, :, :end]
    layer.is_initialized = True
    return layer.keys, layer.values


def _room(like: torch.Tensor, num_tokens: int) -> torch.Tensor:
    size = -(-num_tokens // GROW_TOKENS) * GROW_TOKENS + GROW_TOKENS
    return like.new_empty(*like.shape[:2], size, like.shape[3])
