"""Mends of vLLM's CPU kernels, put in place through its own registry of replacements.

- Temperature: the CPU's `expand` writes values that are no int64 into a copy and drops it, so that drafts are judged
  at temperatures that were never set; whatever the drafter, text at temperature > 0 is then garbage.
- Synthetic acceptance: the CPU's rejection kernels refuse `rejection_sample_method: synthetic`.
- Registering replacements at all: it looks at every object of every loaded module and falls over those of a cffi
  library, which numba (n-gram drafts) brings; no second engine could then start in a process, or not even a first.

Seen in 0.32.0, the first two in 0.33.0 by its source. Drop what vLLM's `utils/cpu_triton_utils.py` has come to do;
`tests/runners/test_vllm_cpu.py` has a test of stock vLLM for each that fails then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_SAMPLER = "vllm.v1.sample.rejection_sampler"


def look_past_foreign_objects() -> None:
    """Let the registry of replacements look at every object of every module without falling over one."""
    from vllm.triton_utils import dispatcher

    dispatcher.vars = _fields


def _fields(value: Any) -> Mapping[str, Any]:
    """`vars`, but empty for objects whose `__dict__` is no mapping, as a cffi library's functions have."""
    found = vars(value)
    return found if isinstance(found, Mapping) else {}


def mend() -> None:
    """Replace the three kernels in this process, where it computes on a CPU without Triton; any number of times."""
    from vllm.platforms import current_platform
    from vllm.triton_utils import HAS_TRITON
    from vllm.triton_utils.dispatcher import register_kernels
    from vllm.utils import cpu_triton_utils as stock

    if not current_platform.is_cpu() or HAS_TRITON:
        return
    register_kernels(
        {
            f"{_SAMPLER}.expand_kernel": expand,
            f"{_SAMPLER}.rejection_greedy_sample_kernel": _greedy(stock._rejection_greedy_sample_kernel_impl),
            f"{_SAMPLER}.rejection_random_sample_kernel": _random(stock._rejection_random_sample_kernel_impl),
        }
    )


def expand(
    output: Tensor, values: Tensor, cu_num_tokens: Tensor, replace_from: Any, replace_to: Any, *_: Any, **__: Any
) -> None:
    """Repeat a value of each request (N,) for each of its tokens, into `output`; `cu_num_tokens` (N,) are ends."""
    ends = cu_num_tokens.to(torch.int64)
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    replaced = torch.where(values == replace_from, torch.full_like(values, replace_to), values)
    output[: int(ends[-1])] = replaced.repeat_interleave(counts).to(output.dtype)


def accept_synthetically(
    output: Tensor,
    cu_num_draft_tokens: Tensor,
    draft_token_ids: Tensor,
    otherwise: Tensor,
    bonus_token_ids: Tensor,
    chosen: Tensor | None,
    uniform: Tensor,
    rates: Tensor,
) -> None:
    """Accept draft token j of a request while a number drawn for it stays below `rates[j]`.

    `output` (N, D + 1) gets the accepted tokens, then the one of `otherwise` where acceptance ends, or the bonus
    token. `chosen` (N,) are the requests that are meant, None for all. Blank drafts (-1) are never accepted.
    """
    ends = cu_num_draft_tokens.tolist()
    for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if chosen is not None and not bool(chosen[row]):
            continue
        drafts = draft_token_ids[start:end]
        accepted = (uniform[start:end] < rates[: end - start]) & (drafts >= 0)
        number = int(accepted.to(torch.int64).cumprod(0).sum())
        output[row, :number] = drafts[:number].to(output.dtype)
        last = bonus_token_ids.view(-1)[row] if number == end - start else otherwise[start + number]
        output[row, number] = last.to(output.dtype)


def _greedy(stock: Any) -> Any:
    def kernel(
        output_token_ids: Tensor,
        cu_num_draft_tokens: Tensor,
        draft_token_ids: Tensor,
        target_argmax: Tensor,
        bonus_token_ids: Tensor,
        is_greedy: Tensor | None,
        max_spec_len: int,
        uniform_probs: Tensor | None = None,
        synthetic_conditional_rates: Tensor | None = None,
        SYNTHETIC_MODE: bool = False,
    ) -> None:
        tokens = output_token_ids, cu_num_draft_tokens, draft_token_ids, target_argmax, bonus_token_ids, is_greedy
        if SYNTHETIC_MODE:
            assert uniform_probs is not None
            assert synthetic_conditional_rates is not None
            accept_synthetically(*tokens, uniform_probs, synthetic_conditional_rates)
        else:
            stock(*tokens, max_spec_len)

    return kernel


def _random(stock: Any) -> Any:
    def kernel(
        output_token_ids: Tensor,
        cu_num_draft_tokens: Tensor,
        draft_token_ids: Tensor,
        draft_probs: Tensor | None,
        target_probs: Tensor,
        bonus_token_ids: Tensor,
        recovered_token_ids: Tensor,
        uniform_probs: Tensor,
        is_greedy: Tensor,
        max_spec_len: int,
        vocab_size: int,
        synthetic_conditional_rates: Tensor | None = None,
        NO_DRAFT_PROBS: bool = False,
        SYNTHETIC_MODE: bool = False,
    ) -> None:
        if SYNTHETIC_MODE:
            assert synthetic_conditional_rates is not None
            accept_synthetically(
                output_token_ids, cu_num_draft_tokens, draft_token_ids, recovered_token_ids, bonus_token_ids,
                ~is_greedy.to(torch.bool), uniform_probs, synthetic_conditional_rates,
            )  # fmt: skip
        else:
            stock(
                output_token_ids, cu_num_draft_tokens, draft_token_ids, draft_probs, target_probs, bonus_token_ids,
                recovered_token_ids, uniform_probs, is_greedy, max_spec_len, vocab_size, NO_DRAFT_PROBS=NO_DRAFT_PROBS,
            )  # fmt: skip

    return kernel
