"""Synthetic traces: modelled requests that meet published acceptance, and dials for everything that varies.

The latent quality of draft token k + 1 at output position p is request + slow drift + token + jitter, all Gaussian:
the request's part is one draw, the drift an AR(1) along the output, the token's part is shared by every draft that
proposes that token (so acceptances 4, 3, 2, 1 follow one another as in recorded traces), the jitter is the draft's
own. A token is accepted above a threshold per draft position, set on the sample itself. A confidence is the latent
quality blurred until its AUC is as asked, then mapped to a probability and distorted until its ECE and bias are.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lightspec_bench.core import BenchError, BoolArray, Confidence, FloatArray, IntArray, Trace, TraceInfo
from lightspec_bench.traces.calibrate import Latent, distorted, distortion, noise_for_auc, reliability, thresholds
from lightspec_bench.traces.describe import heterogeneity, known_depth, positions, served_entries
from lightspec_bench.traces.shapes import KINDS, extend, shape, shifted_to_length

_DRIFT_PER_TOKEN = 0.95  # AR(1) coefficient: the drift remembers about 20 tokens


@dataclass(frozen=True, slots=True)
class Dials:
    """What a synthetic trace should be like.

    `shape` names the drafter family; `acceptance` replaces its conditional acceptance by your own. Lists per draft
    token are extended by their last value (`acceptance` and shapes by `decay`). `workload` is one of chat, code, math
    or several in the order of the phases; `order`: "requests" (all of one phase, then the next), "positions" (every
    request passes through all phases), "mixed" (phases take turns). `measured_on` says where acceptance is met: on
    the "steps" a static drafter takes, as engines and papers count it, or on all "positions". Given a
    `mean_acceptance_length`, acceptance is shifted, alike in logits, to where a static drafter of
    `mean_acceptance_length_at` draft tokens (None: `max_draft_tokens`) has that length. `request_spread` is the
    request's standard deviation in units of a token's; `lag_1` the autocorrelation of accepted tokens from step to
    step; `agreement` the share of a token's variance that all drafts have in common. AUC, ECE and `bias` (mean
    confidence minus acceptance, at most the ECE in size) are met on all positions, given the prefix. `arrivals_per_s`
    gives Poisson arrivals, None all at 0.
    """

    shape: str = "eagle3"
    workload: str | list[str] = "chat"
    order: Literal["mixed", "requests", "positions"] = "mixed"
    measured_on: Literal["steps", "positions"] = "steps"
    acceptance: list[float] | None = None
    mean_acceptance_length: float | None = None
    mean_acceptance_length_at: int | None = None
    max_draft_tokens: int = 7
    decay: float = 0.94
    num_requests: int = 256
    num_output_tokens: int = 256
    num_prompt_tokens: int = 256
    length_spread: float = 0.0
    request_spread: float = 0.2
    lag_1: float = 0.15
    agreement: float = 0.97
    auc: float | list[float] = 0.82
    ece: float | list[float] = 0.05
    bias: float | list[float] = 0.0
    arrivals_per_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            for each in value if isinstance(value, list) else [value]:
                if each is not None and not low <= each <= high:
                    raise BenchError(f"{name} is {each}, expected {low} to {high}")
        for name, known in typing.get_type_hints(Dials).items():
            if typing.get_origin(known) is Literal and getattr(self, name) not in typing.get_args(known):
                allowed = ", ".join(typing.get_args(known))
                raise BenchError(f"{name} is {getattr(self, name)!r}, expected one of {allowed}")
        if not self.phases or self.acceptance == []:
            raise BenchError("workload and acceptance are lists of at least 1 entry")
        if self.num_output_tokens <= self.max_draft_tokens + 1:
            raise BenchError(
                f"num_output_tokens is {self.num_output_tokens}, "
                f"expected more than max_draft_tokens + 1 ({self.max_draft_tokens + 1})"
            )
        if self.mean_acceptance_length is not None and self.mean_acceptance_length >= 1 + self._length_at:
            raise BenchError(
                f"mean_acceptance_length is {self.mean_acceptance_length}, "
                f"expected below 1 + {self._length_at}, the draft tokens it is met at"
            )
        for k, (ece, bias) in enumerate(zip(self.each("ece"), self.each("bias"), strict=True)):
            if ece < abs(bias):
                raise BenchError(f"ece[{k}] is {ece}, expected at least the size of the bias, {abs(bias)}")

    @property
    def phases(self) -> list[str]:
        """The workloads in order."""
        return [self.workload] if isinstance(self.workload, str) else self.workload

    def each(self, name: str) -> FloatArray:
        """A dial per draft token, (D,)."""
        return extend(np.atleast_1d(np.array(getattr(self, name), np.float64)), self.max_draft_tokens, 1.0)

    def conditional(self, workload: str) -> FloatArray:
        """Wanted conditional acceptance, (D,)."""
        depth = max(self.max_draft_tokens, self._length_at)
        if self.acceptance is not None:
            wanted = extend(np.array(self.acceptance, np.float64), depth, self.decay)
        else:
            wanted = shape(self.shape, workload, depth, self.decay)
        if self.mean_acceptance_length is not None:
            wanted = shifted_to_length(wanted, self.mean_acceptance_length, self._length_at)
        return wanted[: self.max_draft_tokens]

    @property
    def _length_at(self) -> int:
        return self.mean_acceptance_length_at or self.max_draft_tokens


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("acceptance", 0.0, 1.0), ("mean_acceptance_length", 1.001, 129.0), ("mean_acceptance_length_at", 1, 128),
    ("max_draft_tokens", 1, 128), ("decay", 0.0, 1.0), ("num_requests", 1, 10**6),
    ("num_output_tokens", 2, 10**6), ("num_prompt_tokens", 0, 10**7), ("length_spread", 0.0, 3.0),
    ("request_spread", 0.0, 5.0), ("lag_1", 0.0, 0.8), ("agreement", 0.0, 1.0), ("auc", 0.5, 0.99), ("ece", 0.0, 0.4),
    ("bias", -0.4, 0.4), ("arrivals_per_s", 1e-9, 1e9), ("seed", 0, 2**63 - 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Draws:
    """The random parts, drawn once: steady (P, D) without drift, drift (P, D) at unit size, blur (P, D)."""

    steady: Latent
    drift: Latent
    blur: Latent


def synthesize(dials: Dials) -> Trace:
    """A trace as the dials ask, the same for the same dials and seed; `origin` is "modelled"."""
    rng = np.random.default_rng(dials.seed)
    trace, phase = _requests(dials, rng)
    draws = _draw(dials, trace, rng)
    targets = [dials.conditional(workload) for workload in dials.phases]
    latent = draws.steady + _drift_size(dials, trace, phase, draws, targets) * draws.drift
    trace, cuts = _settle(dials, trace, phase, latent, targets, rounds=8)
    return replace(trace, confidence=_confidence(dials, trace, phase, latent - cuts, draws.blur))


def _requests(dials: Dials, rng: np.random.Generator) -> tuple[Trace, IntArray]:
    """A trace without outcomes, and the phase of every entry, (P,)."""
    count, phases = dials.num_requests, len(dials.phases)
    lengths = _lengths(dials.num_output_tokens, dials.max_draft_tokens + 2, dials, rng)
    prompts = _lengths(dials.num_prompt_tokens, 0, dials, rng)
    gaps = np.zeros(count) if dials.arrivals_per_s is None else rng.exponential(1.0 / dials.arrivals_per_s, count)
    row = np.arange(count)
    of_request = row * phases // count if dials.order == "requests" else row % phases
    names = np.array(dials.phases)[of_request]
    if dials.order == "positions":
        names = np.full(count, ">".join(dials.phases))
    trace = Trace(
        info=_info(dials),
        request_id=np.array([f"r{r}" for r in range(count)], np.str_),
        category=names.astype(np.str_),
        arrival_s=np.cumsum(gaps),
        num_prompt_tokens=prompts,
        num_output_tokens=lengths,
        repeats_from=lengths.copy(),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        num_accepted=np.zeros(int(lengths.sum()), np.int16),
    )
    if dials.order == "positions":
        return trace, phases * positions(trace) // np.repeat(lengths, lengths)
    return trace, np.repeat(of_request, lengths)


def _lengths(median: int, least: int, dials: Dials, rng: np.random.Generator) -> IntArray:
    drawn = median * np.exp(dials.length_spread * rng.standard_normal(dials.num_requests))
    lengths: IntArray = np.maximum(np.rint(drawn), least).astype(np.int64)
    return lengths


def _info(dials: Dials) -> TraceInfo:
    workload = ",".join(dials.phases)
    what = dials.shape if dials.acceptance is None else "own"
    return TraceInfo(
        name="-".join(["synthetic", what, *dials.phases]),
        target="modelled",
        drafter=f"modelled, {what} acceptance",
        drafter_kind=KINDS.get(dials.shape, "autoregressive"),
        max_draft_tokens=dials.max_draft_tokens,
        dataset=f"modelled {workload}, order {dials.order}",
        sampling="modelled",
        indexing="position",
        origin="modelled",
        made_by=f"lightspec-bench traces synth, {dials}",
        licence="none needed: no data of others",
    )


def _draw(dials: Dials, trace: Trace, rng: np.random.Generator) -> _Draws:
    """A token's own draws are shared by the D drafts that propose it: token p + k for draft token k + 1 at p."""
    count, depth = trace.num_requests, dials.max_draft_tokens
    width = int(trace.num_output_tokens.max()) + depth
    row = np.repeat(np.arange(count), trace.num_output_tokens)
    token = (row * width + positions(trace))[:, None] + np.arange(depth)
    request = np.float32(dials.request_spread) * rng.standard_normal(count, np.float32)
    shared = np.float32(np.sqrt(dials.agreement)) * rng.standard_normal(count * width, np.float32)
    own = np.float32(np.sqrt(1.0 - dials.agreement)) * rng.standard_normal((trace.num_positions, depth), np.float32)
    own += shared[token] + request[row][:, None]
    blur = rng.standard_normal((trace.num_positions, depth), np.float32)
    return _Draws(own, _drift(count, width, rng).ravel()[token], blur)


def _drift(count: int, width: int, rng: np.random.Generator) -> Latent:
    """AR(1) of unit variance along each row, (count, width)."""
    out = rng.standard_normal((width, count), np.float32)
    fresh = np.float32(np.sqrt(1.0 - _DRIFT_PER_TOKEN**2))
    for t in range(1, width):
        out[t] = np.float32(_DRIFT_PER_TOKEN) * out[t - 1] + fresh * out[t]
    return np.ascontiguousarray(out.T)


def _settle(
    dials: Dials, trace: Trace, phase: IntArray, latent: Latent, targets: list[FloatArray], rounds: int
) -> tuple[Trace, Latent]:
    """The trace with its outcomes, and the threshold of every draft token, (P, D).

    Which entries a static drafter steps on depends on the outcomes, so thresholds met on steps are a fixed point.
    """
    counted = known_depth(trace) > 0
    rows = counted
    for _ in range(rounds if dials.measured_on == "steps" else 1):
        made, cuts = _accept(trace, phase, latent, targets, rows)
        before, rows = rows, np.zeros_like(counted)
        rows[served_entries(made, counted)] = True
        if np.array_equal(before, rows):
            break
    return made, cuts


def _accept(
    trace: Trace, phase: IntArray, latent: Latent, targets: list[FloatArray], rows: BoolArray
) -> tuple[Trace, Latent]:
    by_phase = [thresholds(latent, target, rows & (phase == g)) for g, target in enumerate(targets)]
    cuts = np.array(by_phase, np.float32)[phase]
    ahead = np.repeat(trace.num_output_tokens, trace.num_output_tokens) - 1 - positions(trace)
    accepted = np.minimum(np.logical_and.accumulate(latent > cuts, axis=1).sum(axis=1), ahead)
    accepted[trace.offsets[:-1]] = 0
    return replace(trace, num_accepted=accepted.astype(np.int16)), cuts


def _drift_size(dials: Dials, trace: Trace, phase: IntArray, draws: _Draws, targets: list[FloatArray]) -> np.float32:
    """How large the drift must be for the wanted lag-1 autocorrelation; none where there is no need or no room."""
    counted = known_depth(trace) > 0
    request = np.repeat(np.arange(trace.num_requests), trace.num_output_tokens)
    low, high = 0.0, 3.0
    for _ in range(9 if dials.lag_1 > 0.0 and dials.num_requests > 1 else 0):
        middle = (low + high) / 2.0
        made, _ = _settle(dials, trace, phase, draws.steady + np.float32(middle) * draws.drift, targets, rounds=2)
        steps = served_entries(made, counted)
        reached = heterogeneity(request[steps], made.num_accepted[steps].astype(np.int64) + 1)["lag_1"] or 0.0
        low, high = (middle, high) if reached < dials.lag_1 else (low, middle)
    return np.float32(low)


def _confidence(dials: Dials, trace: Trace, phase: IntArray, margin: Latent, blur: Latent) -> Confidence:
    """(P, D) confidences with the wanted AUC, ECE and bias per draft token among drafts accepted so far."""
    out = np.full(margin.shape, np.nan, np.float32)
    counted = known_depth(trace) > 0
    for g in range(len(dials.phases)):
        mine = phase == g
        for k in range(dials.max_draft_tokens):
            tried = mine & counted & (trace.num_accepted >= k)
            if tried.any():
                out[mine, k] = _column(dials, k, margin[:, k], blur[:, k], tried)[mine]
            else:
                out[mine, k] = dials.conditional(dials.phases[g])[k]
    out[trace.offsets[:-1]] = np.nan
    return np.round(out, 3)


def _column(dials: Dials, k: int, margin: Latent, blur: Latent, tried: BoolArray) -> FloatArray:
    hit = margin[tried] > 0
    score = margin + np.float32(noise_for_auc(margin[tried], blur[tried], hit, dials.each("auc")[k])) * blur
    level, probability, weight = reliability(score[tried], hit)
    change = distortion(probability, weight, dials.each("ece")[k], dials.each("bias")[k])
    return distorted(np.interp(score, level, probability), *change)
