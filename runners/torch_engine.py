"""The engine: prefill, verify and draft over slots, one target forward a step, everything but counts on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import BoolArray, Confidence, EarlyExit, IntArray, Plan
from lightspec_bench.runners.torch_accept import Acceptor, Sampling
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_clock import to_device, to_host
from lightspec_bench.runners.torch_drafter import DraftRequest, FinalRows, TorchDrafter
from lightspec_bench.runners.torch_fill import fill, prefix_survival
from lightspec_bench.runners.torch_graphs import graphed_rows
from lightspec_bench.runners.torch_kernels import paged
from lightspec_bench.runners.torch_model import Output, TorchModel
from lightspec_bench.runners.torch_rows import Rows, make_rows
from lightspec_bench.runners.torch_slots import Slots

PREFILL_ROWS = 2048  # prompts longer than this together are prefilled in several passes


@dataclass(frozen=True, slots=True)
class Verified:
    """What a step's verification gave, (N,) each; `num_drafts` were pending."""

    num_drafts: IntArray
    num_verify: IntArray
    num_accepted: IntArray
    finished: BoolArray


class Engine:
    """Decodes with `target` and, where given, `drafter`, in `max_num_seqs` slots of `max_model_len` tokens."""

    def __init__(
        self,
        target: TorchModel,
        drafter: TorchDrafter | None,
        max_num_seqs: int,
        max_model_len: int,
        sampling: Sampling,
        stop_tokens: Sequence[int],
        max_draft_tokens: int,
    ) -> None:
        self.target, self.drafter = target, drafter
        self.width = max_draft_tokens
        self.taps = drafter.taps if drafter else ()
        self.slots = Slots(max_num_seqs, max_model_len, self.width, target.device)
        capacity = paged(max_model_len + self.width + 1, target.device)
        self.cache = SlotCache(max_num_seqs, capacity, target.device)
        self.acceptor = Acceptor(sampling, target.device)
        self._stop = torch.tensor(sorted(stop_tokens), dtype=torch.int64, device=target.device)
        self._final: tuple[Rows, Tensor, Tensor | None] | None = None
        self._probability: tuple[IntArray, Tensor] | None = None
        target.watch(self.taps)
        if drafter is not None:
            drafter.start(target, max_num_seqs, capacity)
        self._touch()
        self._pass = graphed_rows(
            pass_name(target), partial(_pass, target, self.cache, self.taps), target.graphs, self.cache,
            self.width + 1, max_num_seqs * (self.width + 1), [torch.zeros(0, dtype=torch.int64, device=target.device)],
        )  # fmt: skip

    def _touch(self) -> None:
        """One row through the target in the scratch slot: allocates the cache before the first request."""
        scratch = np.array([self.cache.scratch_slot])
        rows = make_rows(scratch, np.zeros(1, np.int64), np.ones(1, np.int64), self.target.device)
        self.target.forward(torch.zeros(1, dtype=torch.int64, device=self.target.device), rows, self.cache)

    # ------------------------------------------------------------------ prefill

    def prefill(self, slots: IntArray, prompts: list[IntArray], limits: IntArray) -> BoolArray:
        """Requests join in ascending `slots` and their first tokens come out; returns who is done with them."""
        self.slots.join(slots, prompts, limits)
        if self.drafter is not None:
            for slot in slots.tolist():
                self.drafter.join(slot)
        sizes = self.slots.lengths[slots]
        parts = np.split(slots, np.flatnonzero(np.diff(np.cumsum(sizes) // PREFILL_ROWS)) + 1)
        finished = [self._prefill(part) for part in parts if len(part)]
        return np.concatenate(finished) if finished else np.zeros(0, dtype=np.bool_)

    def _prefill(self, slots: IntArray) -> BoolArray:
        state, sizes = self.slots, self.slots.lengths[slots]
        rows = make_rows(slots, np.zeros_like(sizes), sizes, state.device)
        tokens = state.tokens[rows.slot, rows.position]
        out = self.target.forward(tokens, rows, self.cache, rows.last_row, self.taps)
        first = self.acceptor.choose(out.logits)[:, None]
        number, finished = self._cut(rows.slots, first, torch.zeros_like(first[:, 0]))
        state.append(rows.slots, first, number)
        (done,) = to_host(finished)
        state.lengths[slots] += 1
        if self.drafter is not None:
            self.drafter.follow(self._final_rows(rows, tokens, out.features))
        return np.asarray(done)

    # ------------------------------------------------------------------ verify

    def verify(self, slots: IntArray, plan: Plan) -> Verified:
        """The target over each request's newest token and the drafts that `plan` verifies; accepts, and emits."""
        state = self.slots
        where = to_device(slots, state.device)
        counts = 1 + self._num_verify(where, plan)
        rows = self._verify_rows(slots, where, counts, plan)
        tokens = self._verify_tokens(rows)
        out = self._forward(tokens, rows)
        chosen, accepted = self.acceptor.accept(
            out.logits, state.drafts[where], rows, self._draft_probability(slots, where)
        )
        number, finished = self._cut(where, chosen, accepted)
        state.append(where, chosen, number)
        found = to_host(state.num_drafts[where], counts - 1, number - 1, finished)
        state.num_drafts[where] = 0
        state.lengths[slots] += found[2] + 1
        state.most_drafts[slots] = 0
        self._final = (rows, tokens, out.features)
        return Verified(*found)

    def _forward(self, tokens: Tensor, rows: Rows) -> Output:
        """Logits and taps of all rows, padded to the next captured size where there is one."""
        if self._pass.takes(rows.num_rows):
            logits, *features = self._pass(rows.slot, rows.position, tokens)
            return Output(logits, features[0] if features else None)
        return self.target.forward(tokens, rows, self.cache, None, self.taps)

    def _num_verify(self, where: Tensor, plan: Plan) -> Tensor:
        state = self.slots
        pending = state.num_drafts[where]
        if plan.num_verify_tokens is not None:
            return torch.minimum(to_device(np.asarray(plan.num_verify_tokens, np.int64), state.device), pending)
        assert plan.num_target_tokens is not None
        return fill(prefix_survival(state.confidence[where]), pending, plan.num_target_tokens)

    def _verify_rows(self, slots: IntArray, where: Tensor, counts: Tensor, plan: Plan) -> Rows:
        """On a CPU exactly the rows that are verified; on CUDA as many as the host knows that they cannot exceed."""
        state = self.slots
        starts = state.lengths[slots] - 1
        if state.device.type == "cpu":
            return make_rows(slots, starts, np.asarray(counts.numpy()), state.device)
        most = 1 + state.most_drafts[slots]
        if plan.num_verify_tokens is not None:
            most = np.minimum(most, 1 + np.asarray(plan.num_verify_tokens))
        num_rows = int(most.sum())
        if plan.num_target_tokens is not None:
            num_rows = max(min(num_rows, plan.num_target_tokens), len(slots))
        exact = (state.length[where] - 1, counts)
        return make_rows(slots, starts, most, state.device, exact, None, num_rows, self.cache.scratch_slot)

    def _verify_tokens(self, rows: Rows) -> Tensor:
        """Token of each row: the newest one, then drafts; (R,)."""
        state = self.slots
        place = rows.position - (state.length[rows.slot] - 1).clamp(min=0)
        newest = state.tokens[rows.slot, rows.position]
        return torch.where(place > 0, state.drafts[rows.slot, (place - 1).clamp(0, self.width - 1)], newest)

    def _draft_probability(self, slots: IntArray, where: Tensor) -> Tensor | None:
        """What the pending drafts were sampled from, (N, D, V), for a drafter that samples."""
        if self._probability is None:
            return None
        drafted, probability = self._probability
        full = probability.new_zeros(self.slots.num_slots + 1, *probability.shape[1:])
        full[to_device(drafted, where.device)] = probability
        return full[where]

    def _cut(self, where: Tensor, chosen: Tensor, accepted: Tensor) -> tuple[Tensor, Tensor]:
        """How many of the accepted tokens and the one after come out, up to a stop token or the limit; who is done."""
        state = self.slots
        room = state.limit[where] - state.length[where]
        number = torch.minimum(accepted + 1, room)
        stops = torch.isin(chosen, self._stop) if len(self._stop) else torch.zeros_like(chosen, dtype=torch.bool)
        place = torch.arange(chosen.shape[1], device=state.device)
        first_stop = torch.where(stops, place, chosen.shape[1]).amin(dim=1)
        stopped = first_stop < number
        number = torch.minimum(number, first_stop + 1)
        return number, stopped | (number >= room)

    # ------------------------------------------------------------------ draft

    def draft(self, slots: IntArray, depth: IntArray, early_exit: EarlyExit | None) -> None:
        """The survivors `slots` of the last verification propose; their drafter first reads what became final."""
        if self.drafter is None:
            return
        state = self.slots
        self._follow(slots)
        if not len(slots) or not depth.any():
            return
        where = to_device(slots, state.device)
        newest = state.length[where] - 1
        request = DraftRequest(where, depth, state.tokens[where, newest], newest, state.tokens, early_exit)
        proposal = self.drafter.draft(request)
        places = slice(0, proposal.tokens.shape[1])
        state.drafts[where, places] = proposal.tokens
        state.confidence[where, places] = proposal.confidence.float()
        state.entropy[where, places] = proposal.entropy.float()
        state.num_drafts[where] = proposal.num_tokens
        state.most_drafts[slots] = depth
        self._probability = None if proposal.probability is None else (slots, proposal.probability)

    def _follow(self, slots: IntArray) -> None:
        assert self.drafter is not None
        if self._final is None or not len(slots):
            return
        rows, tokens, features = self._final
        self._final = None
        self.drafter.follow(self._final_rows(rows, tokens, features, slots))

    def _final_rows(
        self, rows: Rows, tokens: Tensor, features: Tensor | None, slots: IntArray | None = None
    ) -> FinalRows:
        """Rows before the newest token, of all requests or of `slots`: each has a final token after it."""
        state = self.slots
        final = rows.position + 1 < state.length[rows.slot]
        if slots is not None:
            alive = torch.zeros(state.num_slots + 1, dtype=torch.bool, device=state.device)
            alive[to_device(slots, state.device)] = True
            final = final & alive[rows.slot]
        index = torch.nonzero(final).squeeze(1)
        slot, position = rows.slot[index], rows.position[index]
        after = state.tokens[slot, position + 1]
        chosen = None if features is None else features[index]
        return FinalRows(slot, position, tokens[index], after, chosen, rows.max_count)

    # ------------------------------------------------------------------ what the runner asks

    def num_pending(self, slots: IntArray) -> IntArray:
        """Draft tokens pending, (N,)."""
        (number,) = to_host(self.slots.num_drafts[to_device(slots, self.slots.device)])
        return np.asarray(number)

    def confidences(self, slots: IntArray) -> tuple[Confidence, Confidence]:
        """Confidences and entropies of the newest proposals, (N, D); entries past a proposal mean nothing."""
        where = to_device(slots, self.slots.device)
        confidence, entropy = to_host(self.slots.confidence[where], self.slots.entropy[where])
        return confidence, entropy

    def release(self, slot: int) -> list[int]:
        """A request leaves; returns its output tokens."""
        state = self.slots
        if self.drafter is not None:
            tokens = state.tokens[slot, : int(state.lengths[slot])].clone()
            self.drafter.leave(slot, tokens, int(state.prompt_lengths[slot]))
        return state.output(slot)


def pass_name(target: TorchModel) -> str:
    """What the target's pass is called where it cannot be captured."""
    return f"the pass of {target.name}"


def _pass(
    target: TorchModel, cache: SlotCache, taps: tuple[int, ...], rows: Rows, tokens: Tensor
) -> tuple[Tensor, ...]:
    out = target.forward(tokens, rows, cache, None, taps)
    return (out.logits,) if out.features is None else (out.logits, out.features)
