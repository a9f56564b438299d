"""CUDA's attention kernels against SDPA: what they are asked for, with a plain kernel in their place on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lightspec_bench.runners import torch_attention
from lightspec_bench.runners.torch_attention import attend
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_kernels import PAGE, flash_kernel, flex_kernel, paged
from lightspec_bench.runners.torch_rows import Rows, fixed_rows, make_rows

CPU = torch.device("cpu")
SLOTS, CAPACITY, WIDTH, HEADS, KEY_HEADS, HEAD_DIM = 6, 2 * PAGE, 4, 6, 2, 16


def full_cache(capacity: int = CAPACITY) -> SlotCache:
    """A cache of one layer with something at every place."""
    torch.manual_seed(0)
    cache = SlotCache(SLOTS, capacity, CPU)
    everything = make_rows(np.arange(SLOTS + 1), np.zeros(SLOTS + 1, int), np.full(SLOTS + 1, capacity), CPU)
    shape = (everything.num_rows, KEY_HEADS, HEAD_DIM)
    cache.write(0, everything, torch.randn(shape), torch.randn(shape))
    return cache


def batch() -> Rows:
    """Neighbours and gaps, one row and many, few keys and all."""
    return make_rows(np.array([0, 1, 3, 5]), np.array([0, 126, 300, 508]), np.array([4, 3, 1, 4]), CPU)


def fixed(rows: Rows, padding: int = 3, capacity: int = CAPACITY) -> Rows:
    slot, position = (
        torch.cat((own, own.new_full((padding,), to))) for own, to in ((rows.slot, SLOTS), (rows.position, 0))
    )
    return fixed_rows(slot, position, SLOTS, WIDTH, capacity)


def bounded(rows: Rows, padding: int = 3) -> Rows:
    """The same rows where the host knows only that each request may have `WIDTH`."""
    starts = rows.position[rows.first_row]
    most = np.full(rows.num_requests, WIDTH)
    number, exact = rows.num_rows + padding, (starts, rows.counts)
    host = (rows.slots.cpu().numpy(), starts.cpu().numpy(), most)
    return make_rows(*host, CPU, exact, None, number, SLOTS)


def test_slots_are_whole_pages_on_cuda() -> None:
    assert [paged(size, torch.device("cuda")) for size in (1, PAGE, PAGE + 1)] == [PAGE, PAGE, 2 * PAGE]
    assert paged(300, CPU) == 300


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("layout", [fixed, bounded])
def test_rows_that_the_device_counts_attend_as_those_that_the_host_counts(layout: Any, window: int | None) -> None:
    cache, rows = full_cache(), batch()
    query = torch.randn(rows.num_rows + 3, HEADS, HEAD_DIM)
    expected = attend(query[: rows.num_rows], cache, 0, rows, None, window)
    out = attend(query, cache, 0, layout(rows), None, window)
    torch.testing.assert_close(out[: rows.num_rows], expected)


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_sees_what_sdpa_sees(window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    capacity = CAPACITY + 5  # its last block of keys is not whole
    cache, rows = full_cache(capacity), batch()
    query = torch.randn(rows.num_rows + 3, HEADS, HEAD_DIM)
    expected = attend(query[: rows.num_rows], cache, 0, rows, 0.3, window)
    asked: list[Any] = []

    def flex(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> Any:
        asked.append(options["block_mask"])
        return flex_attention(query, key, value, **options)

    monkeypatch.setattr(torch_attention, "flex_kernel", lambda query: flex)
    out = attend(query, cache, 0, fixed(rows, capacity=capacity), 0.3, window)
    torch.testing.assert_close(out[: rows.num_rows], expected)
    (mask,) = asked
    assert mask.kv_num_blocks.flatten().tolist() == [1, 2, 0, 3, 0, 4, 1]  # of 128 keys; the last are padding's
    assert attend(query[: rows.num_rows], cache, 0, rows, 0.3, window).equal(expected)  # only fixed rows take it
    assert len(asked) == 1


def plain_flash(
    query: Any, keys: Any, values: Any, ends: Any, key_ends: Any, most: int, most_keys: int, **opt: Any
) -> Any:
    """The kernel's contract, request by request: causal from the last key back, pages by table, unwritten rows NaN."""
    assert (opt["enable_gqa"], opt["num_splits"], ends.dtype, opt["block_table"].dtype) == (
        True, 1, torch.int32, torch.int32,
    )  # fmt: skip
    out = torch.full_like(query, torch.nan)
    left, right = opt["window_size"]
    assert right == 0
    np.testing.assert_array_equal(key_ends.diff(), opt["seqused_k"])
    for number, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        last = min(last, first + most)
        used = int(opt["seqused_k"][number])
        assert used <= most_keys
        own = [store[opt["block_table"][number]].flatten(0, 1)[:used] for store in (keys, values)]
        at, rows = torch.arange(used), int(ends[number + 1]) - first
        place = torch.arange(first, last)[:, None] - first + used - rows
        seen = (at <= place) & (left < 0 or at >= place - left)
        key, value = (each.transpose(0, 1).repeat_interleave(HEADS // KEY_HEADS, 0) for each in own)
        score = (query[first:last].transpose(0, 1) @ key.mT) * opt["scale"]
        out[first:last] = (score.masked_fill(~seen, -torch.inf).softmax(-1) @ value).transpose(0, 1)
    return out


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("layout", [lambda rows: rows, fixed, bounded])
def test_flash_attention_is_asked_for_what_sdpa_gives(
    layout: Any, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, rows = full_cache(), batch()
    given = layout(rows)
    query = torch.randn(given.num_rows, HEADS, HEAD_DIM)
    expected = attend(query[: rows.num_rows], cache, 0, rows, 0.3, window)
    monkeypatch.setattr(torch_attention, "flash_kernel", lambda query, capacity: plain_flash)
    out = attend(query, cache, 0, given, 0.3, window)
    torch.testing.assert_close(out[: rows.num_rows], expected)


def test_torch_has_the_kernel_that_is_called() -> None:
    from torch.nn.attention.varlen import varlen_attn

    from lightspec_bench.runners.torch_kernels import _pages_keys

    assert _pages_keys(varlen_attn)
    assert not _pages_keys(lambda query, key, value, scale: None)
    query = torch.zeros(1, 1, HEAD_DIM, dtype=torch.bfloat16)
    assert flash_kernel(query, PAGE) is flex_kernel(query) is None  # on a CPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [lambda rows: rows, fixed, bounded])
def test_a_cuda_device_attends_as_a_cpu(layout: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    cpu, rows = full_cache(), batch()
    query = torch.randn(layout(rows).num_rows, HEADS, HEAD_DIM)
    expected = attend(query[: rows.num_rows], cpu, 0, rows)
    monkeypatch.setattr(f"{__name__}.CPU", torch.device("cuda"))
    cache, given = full_cache(), layout(batch())
    for own, other in zip(cache.layer(0), cpu.layer(0), strict=True):
        own.copy_(other)
    cache._keys[0], cache._values[0] = (own.to(dtype) for own in cache.layer(0))
    query = query.to("cuda", dtype)
    kernels = flash_kernel(query, CAPACITY), flex_kernel(query)
    assert [kernel is not None for kernel in kernels] == [dtype is torch.bfloat16, True]
    out = attend(query, cache, 0, given)
    error = 1e-4 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(out[: rows.num_rows].float().cpu(), expected, atol=error, rtol=error)
