"""A language model as drafter: a smaller one of the same vocabulary, or the target without some of its layers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import BenchError, Drafter, IntArray
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_drafter import (
    Backlog,
    DraftRequest,
    ExitState,
    FinalRows,
    Proposal,
    empty_proposal,
    top_token,
)
from lightspec_bench.runners.torch_graphs import graphed_rows
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_rows import Rows, make_rows

READ_AT_ONCE = 32  # rows: prompts are read when they come, a step's few rows with the next draft


class LmDrafter:
    """Drafts greedily with `model`, which keeps a cache of its own; one pass a token, the first also catches up."""

    taps: tuple[int, ...] = ()

    def __init__(self, model: TorchModel, max_draft_tokens: int = 8) -> None:
        self.model = model
        self.shape = Drafter("autoregressive", max_draft_tokens)

    @property
    def name(self) -> str:
        return f"model {self.model.name}"

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        if self.model.vocab_size != target.vocab_size:
            raise BenchError(
                f"drafter {self.model.name} has a vocabulary of {self.model.vocab_size}, "
                f"expected {target.vocab_size}, that of {target.name}"
            )
        if self.model.device != target.device:
            raise BenchError(
                f"drafter {self.model.name} is on {self.model.device}, expected {target.device}, where the target is"
            )
        self._cache = SlotCache(num_slots, capacity, target.device)
        self._backlog = Backlog()
        self._width = self.shape.max_draft_tokens + 2  # what a verification leaves, and the newest token
        self._pass = graphed_rows(
            f"the pass of {self.model.name}", partial(_pass, self.model, self._cache), target.graphs, self._cache,
            self._width, num_slots * self._width, [torch.zeros(0, dtype=torch.int64, device=target.device)],
        )  # fmt: skip

    def join(self, slot: int) -> None:
        self._backlog.drop(slot)

    def leave(self, slot: int, tokens: Tensor, num_prompt_tokens: int) -> None:
        self._backlog.drop(slot)

    def follow(self, rows: FinalRows) -> None:
        self._backlog.add(rows)
        if rows.num_rows >= READ_AT_ONCE:
            behind = self._backlog.take(torch.unique(rows.slot))
            assert behind is not None
            read = make_rows(*consecutive(behind.slot, behind.position), behind.slot.device)
            self.model.forward(behind.token, read, self._cache, behind.slot.new_zeros(0))

    def draft(self, request: DraftRequest) -> Proposal:
        proposal = empty_proposal(request, self.shape.max_draft_tokens)
        state = ExitState(request.early_exit, request.depth, request.slot.device)
        active, tokens = state.active(), None
        for number in range(1, request.max_depth + 1):
            if tokens is None:
                logits = self._first(request, active)
            else:
                where = request.position[active] + number - 1
                logits = self._read(request.slot[active], where, tokens[active])
            top, confidence, entropy = top_token(logits)
            column = number - 1
            proposal.tokens[active, column] = top
            proposal.confidence[active, column] = confidence
            proposal.entropy[active, column] = entropy
            state.after(number, proposal.confidence[:, column], proposal.entropy[:, column])
            tokens = proposal.tokens[:, column]
            active = state.active()
            if not len(active):
                break
        proposal.num_tokens.copy_(state.num_tokens())
        return proposal

    def _first(self, request: DraftRequest, active: Tensor) -> Tensor:
        """Read what is missing and the newest token; logits after the newest, (A, V)."""
        slot, position, token = request.slot[active], request.position[active], request.token[active]
        behind = self._backlog.take(slot)
        if behind is None:
            return self._read(slot, position, token)
        slots = torch.cat((behind.slot, slot))
        order = torch.argsort(slots * self._cache.capacity + torch.cat((behind.position, position)))
        positions, tokens = torch.cat((behind.position, position))[order], torch.cat((behind.token, token))[order]
        most = None if behind.most is None else behind.most + 1
        return self._read(slots[order], positions, tokens, most, lambda: torch.argsort(order)[behind.num_rows :])

    def _read(
        self,
        slot: Tensor,
        position: Tensor,
        token: Tensor,
        most: int | None = 1,
        last: Callable[[], Tensor] | None = None,
    ) -> Tensor:
        """One pass over consecutive rows of each slot, at most `most` of one where somebody counted; logits of each
        slot's last row, which `last` finds, all where None."""
        if most is not None and most <= self._width and self._pass.takes(len(slot)):
            (logits,) = self._pass(slot, position, token)
            return logits if last is None else logits[last()]
        rows = make_rows(*consecutive(slot, position), slot.device)
        return self.model.forward(token, rows, self._cache, rows.last_row).logits


def _pass(model: TorchModel, cache: SlotCache, rows: Rows, token: Tensor) -> tuple[Tensor]:
    return (model.forward(token, rows, cache).logits,)


def consecutive(slot: Tensor, position: Tensor) -> tuple[IntArray, IntArray, IntArray]:
    """Slots, first positions and numbers of rows that are sorted by slot and position, on the host; (N,) each."""
    slots, first, counts = np.unique(slot.cpu().numpy(), return_index=True, return_counts=True)
    return slots, np.asarray(position.cpu().numpy()[first]), counts


def without_layers(target: TorchModel, skip: Sequence[int]) -> TorchModel:
    """The target without decoder layers `skip` (from 0), sharing every weight. Raises `BenchError` for layers it
    does not have."""
    wrong = sorted(layer for layer in skip if not 0 <= layer < target.num_layers)
    if wrong or len(set(skip)) >= target.num_layers:
        raise BenchError(
            f"skipped layers are {sorted(skip)}, expected some of 0 to {target.num_layers - 1} of {target.name}"
        )
    kept = [layer for number, layer in enumerate(target.layers) if number not in set(skip)]
    model, config = _shallow(target.model), copy.deepcopy(target.model.config)
    text = config.get_text_config(decoder=True)
    text.num_hidden_layers = len(kept)
    _replace(model, target.layers, torch.nn.ModuleList(kept), config, text)
    return TorchModel(model, f"{target.name} without {len(set(skip))} layers")


def _shallow(module: Any) -> Any:
    """A copy that shares parameters and submodules, whose own table of submodules can be changed."""
    same = copy.copy(module)
    same.__dict__["_modules"] = dict(module._modules)
    return same


def _replace(module: Any, old: torch.nn.Module, new: torch.nn.Module, config: Any, text: Any) -> bool:
    """Put `new` in the place of `old` below a shallow copy, copying the way down; returns whether it was there."""
    for name, child in module._modules.items():
        if child is old:
            module._modules[name] = new
        elif child is not None and any(part is old for part in child.modules()):
            module._modules[name] = _shallow(child)
            _replace(module._modules[name], old, new, config, text)
        else:
            continue
        module.config = config if module.config.__class__ is config.__class__ else text
        return True
    return False
