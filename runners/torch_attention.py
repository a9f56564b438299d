"""Ragged attention over the slot cache, registered under a name that any transformers model can be set to.

Groups of neighbouring slots attend in one SDPA call each, grouped query heads packed as rows of their key head, so that
neither keys nor values are copied. CUDA: flash attention's variable-length kernel over the cache as pages, in half
precision; rows of captured passes in float32 attend in one call of flex attention (`torch_kernels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_kernels import PAGE as PAGE, flash_attend, flash_kernel, flex_attend, flex_kernel
from lightspec_bench.runners.torch_rows import Rows

NAME = "lightspec_ragged"
_UNSUPPORTED = ("softcap", "s_aux", "position_bias")


@dataclass(frozen=True, slots=True)
class Ragged:
    """What a forward pass carries down to attention."""

    rows: Rows
    cache: SlotCache


def register() -> None:
    """Make `NAME` known to transformers as an attention implementation."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    ragged: Ragged | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: query (1, heads, R, head_dim) -> (1, R, heads, head_dim)."""
    for name in _UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise BenchError(f"{type(module).__name__}: attention with {name} is not supported by the torch runner")
    if ragged is None:
        raise BenchError(f"{type(module).__name__} did not pass the batch's rows to its attention, so it cannot run")
    rows, cache = ragged.rows, ragged.cache
    layer: int = module.layer_idx  # type: ignore[assignment]
    cache.write(layer, rows, key.transpose(1, 2), value.transpose(1, 2))
    out = attend(query.transpose(1, 2).squeeze(0), cache, layer, rows, scaling, sliding_window)
    return out.unsqueeze(0), None


def attend(
    query: Tensor, cache: SlotCache, layer: int, rows: Rows, scaling: float | None = None, window: int | None = None
) -> Tensor:
    """Attention of the rows' queries over their slots' keys: (R, heads, head_dim) -> the same shape.

    What comes out for rows of padding means nothing.
    """
    keys, values = cache.layer(layer)
    if (flash := flash_kernel(query, cache.capacity)) is not None:
        return flash_attend(flash, query, keys, values, rows, scaling, window)
    numbers = range(len(rows.groups))
    if not rows.is_exact:
        return _by_row([_attend_group(query, keys, values, rows, n, scaling, window) for n in numbers], rows)
    real = query[: rows.first_rows[-1]]
    parts = [_attend_group(real, keys, values, rows, n, scaling, window) for n in numbers]
    if len(real) < len(query):
        parts.append(torch.zeros_like(query[len(real) :]))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _attend_group(
    query: Tensor, keys: Tensor, values: Tensor, rows: Rows, number: int, scaling: float | None, window: int | None
) -> Tensor:
    """One group's rows, (its rows, heads, head_dim); (R, ...) with rows of others to be ignored where the host does
    not know the counts."""
    group = rows.groups[number]
    size, places, repeats = group.last - group.first, group.max_count, query.shape[1] // keys.shape[2]
    whole = len(rows.groups) == 1
    exact = rows.is_exact
    own = query if whole or not exact else query[rows.group_rows(number)]
    key, value = (
        _seen(keys, group.first_slot, size, group.max_keys),
        _seen(values, group.first_slot, size, group.max_keys),
    )
    if size == 1 and exact and group.starts_at_zero and window is None and places > 1 and rows.is_causal:
        every = own.transpose(0, 1).unsqueeze(0)
        out = scaled_dot_product_attention(every, key, value, is_causal=True, scale=scaling, enable_gqa=repeats > 1)
        return out[0].transpose(0, 1)
    padded = len(own) != size * places or not exact
    places_of = query[rows.group_padding(number)[0]] if padded else own
    heads, width = query.shape[1:]
    if places == 1:
        packed = places_of.reshape(size, heads // repeats, repeats, width)
    else:
        packed = places_of.reshape(size, places, heads // repeats, repeats, width).transpose(1, 2)
        packed = packed.reshape(size, heads // repeats, places * repeats, width)
    if rows.is_fixed and (flex := flex_kernel(query)) is not None:
        out = flex_attend(flex, packed, key, value, rows, repeats, scaling, window)
    else:
        alone = size == places == 1 and exact and window is None
        mask = None if alone else rows.mask(number, repeats, window, query.dtype)
        out = scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scaling)
    if places > 1:
        out = out.view(size, heads // repeats, places, repeats, value.shape[-1]).transpose(1, 2)
    out = out.reshape(size * places, heads, value.shape[-1])
    if not padded:
        return out
    back = rows.group_padding(number)[1]
    return out[back[rows.group_rows(number)] if exact else back]


def _seen(cached: Tensor, first_slot: int, size: int, max_keys: int) -> Tensor:
    """Some slots' first tokens, (size, heads, max_keys, head_dim): one view, where slicing would make three."""
    slot, token, head, one = cached.stride()
    shape = (size, cached.shape[2], max_keys, cached.shape[3])
    return cached.as_strided(shape, (slot, head, token, one), cached.storage_offset() + first_slot * slot)


def _by_row(parts: list[Tensor], rows: Rows) -> Tensor:
    """Take each row from its own group's result, all of shape (R, heads, head_dim)."""
    out = parts[0]
    for group, part in zip(rows.groups[1:], parts[1:], strict=True):
        out = torch.where((rows.request >= group.first)[:, None, None], part, out)
    return out
