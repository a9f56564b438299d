"""Attention kernels of CUDA devices: flash attention over a paged cache, and flex attention over all slots at once.

Both take shapes that follow from the number of rows alone, so that a pass can be captured as a CUDA graph.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightspec_bench.runners.torch_rows import Rows

PAGE = 256  # flash attention pages keys in multiples of this
BLOCK = 128  # keys that flex attention reads or leaves out together
MOST_COMPILED = 256  # shapes that flex attention may be compiled for
_FLASH_DTYPES = (torch.float16, torch.bfloat16)
_FLASH_HEAD_DIM = 256  # at most
_FLEX_HEAD_DIM = 16  # at least


def paged(capacity: int, device: torch.device) -> int:
    """Tokens a slot's cache holds for at least `capacity`: on CUDA whole pages."""
    return capacity if device.type == "cpu" else -(-capacity // PAGE) * PAGE


def flash_kernel(query: Tensor, capacity: int) -> Callable[..., Tensor] | None:
    """torch's variable-length flash attention, None where it does not take these queries (R, heads, head_dim)."""
    if query.device.type != "cuda" or query.dtype not in _FLASH_DTYPES:
        return None
    fits = query.shape[-1] <= _FLASH_HEAD_DIM and query.shape[-1] % 8 == 0 and capacity % PAGE == 0
    return _varlen(query.device) if fits else None


@functools.cache
def _varlen(device: torch.device) -> Callable[..., Tensor] | None:
    """None where torch is too old to page keys, or the device too old for the kernel (before Ampere)."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    is_new = torch.cuda.get_device_capability(device) >= (8, 0)
    return varlen_attn if _pages_keys(varlen_attn) and is_new else None  # type: ignore[return-value]


def _pages_keys(kernel: Callable[..., Any]) -> bool:
    return {"block_table", "seqused_k", "num_splits", "enable_gqa"} <= inspect.signature(kernel).parameters.keys()


def flash_attend(
    flash: Callable[..., Tensor],
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    rows: Rows,
    scaling: float | None,
    window: int | None,
) -> Tensor:
    """The cache seen as pages: a slot's pages lie one after another. Rows of no request come out uninitialised."""
    table, ends, key_counts, key_ends = rows.once("pages", lambda: _page_arguments(rows, keys.shape[1] // PAGE))
    return flash(
        query.contiguous(),
        keys.view(-1, PAGE, *keys.shape[2:]),
        values.view(-1, PAGE, *values.shape[2:]),
        ends,
        key_ends,
        rows.max_count,
        rows.max_keys,
        scale=scaling,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=True,
        seqused_k=key_counts,
        block_table=table,
        num_splits=1,  # more than one loses rows of paged keys (pytorch/pytorch#194167)
    )


def _page_arguments(rows: Rows, pages: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pages of each request (N, pages), where its rows end (N + 1,), its keys (N,), and where they end (N + 1,)."""
    table = rows.slots[:, None] * pages + torch.arange(pages, device=rows.slots.device)
    key_counts = rows.last_keys()
    return table.int(), _from_zero(rows.counts), key_counts.int(), _from_zero(key_counts)


def _from_zero(counts: Tensor) -> Tensor:
    return torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0)).int()


def flex_kernel(query: Tensor) -> Callable[..., Tensor] | None:
    """Compiled flex attention, None on a CPU, for small heads, and where it cannot be compiled."""
    fits = query.device.type == "cuda" and query.shape[-1] >= _FLEX_HEAD_DIM
    return _compiled_flex(query.device) if fits else None


@functools.cache
def _compiled_flex(device: torch.device) -> Callable[..., Tensor] | None:
    """Compiled for each shape anew: a kernel of fixed shapes splits the keys of few requests over the device."""
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False)
    some = torch.zeros((1, 1, 16, 16), device=device)
    try:
        compiled(some, some, some)
    except Exception as error:  # a missing C compiler, an unsupported device, whatever a compiler may raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        warnings.warn(f"flex attention cannot be compiled here, dense masks are used: {reason}", stacklevel=2)
        return None
    return compiled


def flex_attend(
    flex: Callable[..., Tensor],
    packed: Tensor,
    key: Tensor,
    value: Tensor,
    rows: Rows,
    repeats: int,
    scaling: float | None,
    window: int | None,
) -> Tensor:
    """Attention of fixed rows, packed (S + 1, key heads, width * repeats, head_dim), over all slots' keys.

    Blocks of keys past what a slot's rows see are not read.
    """
    block_mask = rows.once(("blocks", repeats, window), lambda: _block_mask(rows, packed, key, repeats, window))
    with torch._dynamo.config.patch(recompile_limit=MOST_COMPILED, accumulated_recompile_limit=MOST_COMPILED):
        return flex(packed, key, value, block_mask=block_mask, scale=scaling)


def _block_mask(rows: Rows, packed: Tensor, key: Tensor, repeats: int, window: int | None) -> Any:
    from torch.nn.attention.flex_attention import BlockMask

    slots, _, places, _ = packed.shape
    number, tiles = -(-key.shape[2] // BLOCK), -(-places // BLOCK)
    last = -(-rows.last_keys().view(slots, 1, 1) // BLOCK)
    numbers = torch.arange(number, device=key.device, dtype=torch.int32)
    return BlockMask.from_kv_blocks(
        last.int().expand(slots, 1, tiles).contiguous(),
        numbers.expand(slots, 1, tiles, number).contiguous(),
        BLOCK_SIZE=BLOCK,
        mask_mod=_sees(rows, repeats, window),
        seq_lengths=(places, key.shape[2]),
        compute_q_blocks=False,
    )


def _sees(rows: Rows, repeats: int, window: int | None) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Which keys a packed place sees, as flex attention asks: (slot, head, place, key) -> bool."""
    index = rows.group_padding(0)[0].view(len(rows.slots), -1)
    visible, position = rows.visible[index], rows.position[index]

    def causal(slot: Tensor, head: Tensor, place: Tensor, key: Tensor) -> Tensor:
        return key < visible[slot, place // repeats]

    def windowed(slot: Tensor, head: Tensor, place: Tensor, key: Tensor) -> Tensor:
        assert window is not None
        return causal(slot, head, place, key) & (key > position[slot, place // repeats] - window)

    return causal if window is None else windowed
