"""Rehearsal: made-up batches and outcomes, drawn from a seed, through which a planner is driven to check it.

What happens to whom and when is written down before the drive and does not depend on the planner: who runs, how far
the drafter gets, its confidences, and how many draft tokens the target would accept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lightspec_bench.core import (
    Confidence,
    Drafter,
    DrafterKind,
    EngineConfig,
    FloatArray,
    IntArray,
    Number,
)


@dataclass(frozen=True, slots=True)
class LinearPrices:
    """A latency model of straight lines with nothing captured: enough for a planner to have a choice."""

    name: str = "rehearsal"
    origin: str = "modelled"
    source: str = "made up for checking planners"

    @property
    def graph_sizes(self) -> IntArray:
        return np.zeros(0, dtype=np.int64)

    def verify_s(self, num_target_tokens: Number, num_requests: Number, num_context_tokens: Number) -> FloatArray:
        return np.asarray(5e-3 + 4e-4 * np.asarray(num_target_tokens) + 1e-8 * np.asarray(num_context_tokens))

    def draft_pass_s(self, num_rows: Number, num_context_tokens: Number) -> FloatArray:
        return np.asarray(5e-4 + 2e-5 * np.asarray(num_rows) + 1e-9 * np.asarray(num_context_tokens))

    def host_s(self, num_requests: Number, speculating: bool) -> FloatArray:
        return np.asarray(1e-4 + (1e-5 if speculating else 5e-6) * np.asarray(num_requests))


@dataclass(frozen=True, slots=True)
class Scene:
    """What a drive is like. `sizes` are the requests running at each step; each leaves with probability `churn`.

    `crowded`: prompts share some steps and requests wait. Request ids count up from `first_id`.
    """

    title: str
    sizes: tuple[int, ...]
    churn: float = 0.15
    max_draft_tokens: int = 11
    kind: DrafterKind = "autoregressive"
    lag_steps: int = 0
    shows_confidence: bool = True
    shows_entropy: bool = True
    seed: int = 0
    crowded: bool = False
    first_id: int = 0

    @property
    def words(self) -> str:
        return f"{self.title}, lag {self.lag_steps}"

    def config(self) -> EngineConfig:
        drafter = Drafter(self.kind, self.max_draft_tokens)
        return EngineConfig(drafter, LinearPrices(), max(*self.sizes, 1), self.lag_steps, self.seed)


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of a script; arrays are over its N requests.

    `came` is a request's place in the step before, -1 for a newcomer. `limit` is how far the drafter gets,
    `acceptable` what the target would accept of it; confidences are (N, D), not yet cut to the proposal.
    """

    request_id: IntArray
    came: IntArray
    limit: IntArray
    confidence: Confidence
    entropy: Confidence
    acceptable: IntArray


def write_script(scene: Scene) -> list[Moment]:
    """The scene's steps, the same for the same seed."""
    rng = np.random.default_rng(scene.seed)
    script: list[Moment] = []
    previous, next_id = np.zeros(0, dtype=np.int64), scene.first_id
    for size in scene.sizes:
        stays = np.flatnonzero(rng.random(len(previous)) >= scene.churn)[:size]
        joins = size - len(stays)
        came = np.concatenate((stays, np.full(joins, -1)))
        request_id = np.concatenate((previous[stays], np.arange(next_id, next_id + joins)))
        script.append(_moment(rng, scene, request_id, came))
        previous, next_id = request_id, next_id + joins
    return script


def _moment(rng: np.random.Generator, scene: Scene, request_id: IntArray, came: IntArray) -> Moment:
    size, depth = len(request_id), scene.max_draft_tokens
    confidence = rng.beta(2.0, 1.0, (size, depth)).astype(np.float32)
    entropy = -np.log(confidence)
    reached = np.cumprod(rng.random((size, depth)) < confidence, axis=1).sum(axis=1)
    limit = rng.integers(0, depth + 1, size) if scene.kind == "ngram" else np.full(size, depth)
    return Moment(request_id, came, limit, confidence, entropy, np.minimum(reached, limit))


def change_outcomes(script: list[Moment], first: int, scene: Scene) -> list[Moment]:
    """The same script with another number of acceptable tokens for every request from step `first` on."""
    rng = np.random.default_rng((scene.seed, first))
    depth = scene.max_draft_tokens
    changed = list(script)
    for t in range(first, len(script)):
        shift = rng.integers(1, depth + 1, len(script[t].acceptable))
        changed[t] = replace(script[t], acceptable=(script[t].acceptable + shift) % (depth + 1))
    return changed
